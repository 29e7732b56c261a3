"""Which runs a rule of retention takes, and what of them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from control_plane.model.groups.members import COUNTED_AS
from events.lifecycle import FINAL

CHECKPOINTS: Final = "checkpoints"
FILES: Final = "files"
RUNS: Final = "runs"
WHAT: Final = (CHECKPOINTS, FILES, RUNS)
_ENDED: Final = frozenset(status.value for status in FINAL)
# A run that failed is run again from its checkpoints, however late somebody comes to it.
_SUCCEEDED: Final = frozenset(s.value for s, counted in COUNTED_AS.items() if counted == "succeeded")


@dataclass(frozen=True, slots=True)
class Rule:
    """What is taken of runs so many days after their end: of a kind, or with a label, where it says so.

    Without `days` it takes nothing. `checkpoints` are taken of runs that have succeeded, `files` are all
    others that a run has registered, `runs` go as by a deletion.
    """

    id: str
    what: str
    days: int | None
    kind: str | None = None
    label: str | None = None

    def ended_before(self, now: datetime) -> datetime | None:
        """Return the moment before which a run has to have ended; None where nothing is taken."""
        return None if self.days is None else now - timedelta(days=self.days)

    def takes(self, run: Mapping[str, Any]) -> bool:
        """Say whether the rule takes something of a run, as it is stored, that ended long enough ago."""
        status, labels = run.get("status"), run.get("labelList")
        if not isinstance(status, str) or not isinstance(run.get("_id"), str):
            return False  # a damaged run, which is left to people
        if status not in (_SUCCEEDED if self.what == CHECKPOINTS else _ENDED) or run.get("logOpen"):
            return False
        if self.kind is not None and run.get("kind") != self.kind:
            return False
        if self.label is not None and not (isinstance(labels, list) and self.label in labels):
            return False
        return not is_taken(run, self.what, whole=True)


def is_taken(run: Mapping[str, Any], what: str, *, whole: bool = False) -> bool:
    """Say whether something of a run was taken, or is being; with `whole` only where all of it is gone."""
    taken = run.get("taken")
    mark = taken.get(what) if isinstance(taken, Mapping) else None
    return isinstance(mark, Mapping) and (not whole or mark.get("removedAt") is not None)


DEFAULTS: Final = (Rule("checkpoints", CHECKPOINTS, 30),)


def effective(stored: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """Return the rules that hold: the stored ones, and the defaults in whose place none is stored."""
    found = [
        Rule(each["_id"], each["what"], each.get("days"), each.get("kind"), each.get("label"))
        for each in stored
    ]
    names = {each.id for each in found}
    return sorted([*found, *(each for each in DEFAULTS if each.id not in names)], key=lambda each: each.id)
