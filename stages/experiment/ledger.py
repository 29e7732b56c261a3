"""What earlier attempts of a run found out, and how checkpoints keep it.

Law: a finished stage is taken over whole only behind stages that were taken over whole; a
finished node, or a fresh seed, only for the very recipe that it was measured with. Whatever
does not fit is measured again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

import msgspec

from stages.checkpoints import Restored
from stages.context import Context
from stages.experiment.recipe import Value
from stages.experiment.record import Curve, StageRecord
from stages.experiment.tree import Node

Scores = Mapping[str, float]
Measured = tuple[Scores | None, Scores | None]

COMPLETE: Final = "is_complete"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tried:
    """A finished node with its curve, and the attempt that trained it."""

    node: Node
    curve: Curve | None
    attempt: int


@dataclass(frozen=True, slots=True)
class SearchState:
    """A stage of the search so far; `record` once it is finished."""

    tried: tuple[Tried, ...] = ()
    record: StageRecord | None = None


@dataclass(frozen=True, slots=True)
class FreshState:
    """Validation so far: both recipes, and what each fresh seed gave for them."""

    arms: tuple[Mapping[str, Value], Mapping[str, Value]]
    measured: tuple[tuple[int, Measured], ...] = ()


@dataclass(frozen=True, slots=True)
class FigureState:
    """A finished figure: the names of its files, and the sentence below it."""

    name: str
    image: str
    table: str
    caption: str


@dataclass(slots=True)
class Past:
    """The checkpoints of earlier attempts, read in the order of the stages."""

    context: Context
    is_whole: bool = True

    def finished(self, stage: str) -> Restored | None:
        """Return the checkpoint of a stage that need not run again; the log says that it does not."""
        found = self.context.restored(stage)
        self.is_whole = self.is_whole and found is not None and bool(found.state.get(COMPLETE))
        if not self.is_whole or found is None:
            return None
        made_by = f"the checkpoint of attempt {found.attempt}"
        self.context.log(f"{stage} is finished: resuming after it, from {made_by}")
        return found

    def read(self, found: Restored | None, kind: type[T]) -> T | None:
        """Return a checkpoint's state in types; one that another version wrote is no checkpoint."""
        if found is None:
            return None
        try:
            return msgspec.convert(found.state["found"], kind)
        except (KeyError, msgspec.ValidationError) as error:
            self.is_whole = False
            self.context.log(f"a checkpoint of attempt {found.attempt} cannot be read: {error}", "warning")
            return None


def state_of(found: Any, *, is_complete: bool) -> dict[str, Any]:
    """Return the state of a checkpoint that keeps `found`: one of the states above, or a list of them."""
    plain = [asdict(each) for each in found] if isinstance(found, Sequence) else asdict(found)
    return {COMPLETE: is_complete, "found": plain}
