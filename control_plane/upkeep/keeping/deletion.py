"""Whether a run may be deleted, and what its tombstone tells; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.run import Run
from events.kinds.declaring.queues import RUNS
from events.lifecycle import FINAL
from events.queue.requirements import read_class
from events.runtime.backoff import back_off_s

RETRY_FIRST_S: Final = 5.0
RETRY_MAX_S: Final = 3600.0
TROUBLE_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a run is not deleted: a code for programs, and words for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class AttemptSeal:
    """What stays of the log of an attempt: its last position, how many events it had, and their root."""

    attempt: int
    last: int
    count: int
    root: str


def refusal(run: Run, collection: str, needed: str | None) -> Refusal | None:
    """Return why a run cannot be deleted now; None where it can. `needed` says what still needs it."""
    if collection != RUNS.collection:
        return Refusal("of_hypothesis", "it is the search for ideas of a hypothesis: delete the hypothesis")
    if run.status not in FINAL:
        return Refusal("not_final", f"the run is {run.status}: cancel it first, or wait for its end")
    if run.log_open:
        return Refusal("log_open", "events of the run may still be on their way: try again in some minutes")
    return None if needed is None else Refusal("needed", f"the run is needed: {needed}")


def tombstone(
    run: Run,
    stored: Mapping[str, Any],
    seals: Sequence[AttemptSeal],
    counts: Mapping[str, int],
    size: int,
    *,
    by: str,
) -> dict[str, Any]:
    """Return what stays of a run; `counts` is of what goes with it, `size` the bytes of its files.

    Its tokens stay until they end, so that a pod that comes late is told what became of its run; so does
    the key of its submission, which makes no other run.
    """
    return {
        "kind": run.kind,
        "project": read_class(run.class_key).project,
        "hypothesisId": run.hypothesis_id,
        "groupId": run.group_id,
        "slot": run.slot,
        "status": run.status.value,
        "createdAt": stored.get("createdAt"),
        "finishedAt": stored.get("finishedAt"),
        "attempts": [
            {"attempt": each.attempt, "last": each.last, "count": each.count, "root": each.root}
            for each in seals
        ],
        "counts": dict(counts),
        "bytes": size,
        "idempotency": stored.get("idempotency"),
        "tokens": [
            {"attempt": each.attempt, "hash": each.hash, "keyId": each.key_id, "endsAt": each.ends_at}
            for each in run.tokens
        ],
        "runs": [],
        "by": by,
    }


def pause_s(tries: int, share: float) -> float:
    """Return for how long to wait after so many failures in a row, with full jitter."""
    return back_off_s(tries, first_s=RETRY_FIRST_S, max_s=RETRY_MAX_S, share=share)


def in_words(counts: Mapping[str, int], size: int) -> str:
    """Return what goes with a run in words, for people and the audit log."""
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items()]
    return ", ".join([*parts, f"{size:,} bytes of files"])
