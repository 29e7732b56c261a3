"""Where a run was replicated: derived from the pods of its attempts, pure.

Law: a verdict counts as replicated on another pod only if an earlier attempt requested that, and neither it
nor any before it was on a pod of this name. The pod's own statement can lower this result, never raise it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from events.catalog import Replicated

Json = Mapping[str, Any]

ASKED: Final[Replicated] = "asked for"
ELSEWHERE: Final[Replicated] = "on another pod"
SAME: Final[Replicated] = "on the same pod"
UNKNOWN: Final = ""


def pods_until(attempts: Sequence[Json], last: int) -> list[str]:
    """Return the pods of the attempts up to `last`, each name once; one that nobody knows is `UNKNOWN`."""
    known = {each["attempt"]: each.get("pod") for each in attempts}
    return list(dict.fromkeys(_name(known.get(number)) for number in range(1, last + 1)))


def asked_by(attempts: Sequence[Json], before: int) -> list[int]:
    """Return the attempts before `before` that asked for a replication."""
    return [
        each["attempt"]
        for each in attempts
        if each["attempt"] < before and (each.get("validation") or {}).get("replication") == ASKED
    ]


def believed(validations: Sequence[Json], attempts: Sequence[Json]) -> list[dict[str, Any]]:
    """Return the verdicts on a run, each with the replication that the record of its attempts bears out."""
    return [
        {**each, "replication": _place(each["attempt"], attempts)}
        if each.get("replication") == ELSEWHERE
        else {**each}
        for each in validations
    ]


def is_doubtful(document: Json) -> bool:
    """Say whether a run or an attempt tells of another pod, which its record may not bear out."""
    return (document.get("validation") or {}).get("replication") == ELSEWHERE


def borne_out(document: Json, attempts: Sequence[Json]) -> dict[str, Any]:
    """Return a run, or an attempt of it, with the replication that the record of its attempts bears out."""
    if not is_doubtful(document):
        return {**document}
    validation = {**document["validation"], "replication": _place(document["attempt"], attempts)}
    return {**document, "validation": validation}


def _place(attempt: int, attempts: Sequence[Json]) -> Replicated:
    own = next((_name(each.get("pod")) for each in attempts if each["attempt"] == attempt), UNKNOWN)
    before = pods_until(attempts, max(asked_by(attempts, attempt), default=0))
    return ELSEWHERE if before and UNKNOWN not in (own, *before) and own not in before else SAME


def _name(pod: str | None) -> str:
    """Return the name of a pod, without the process that speaks for it."""
    return (pod or UNKNOWN).partition("/")[0]
