"""What earlier attempts of a run found out, and how checkpoints keep it.

Law: a finished stage is taken over whole only behind stages that were taken over whole; a
finished node, or a fresh seed, only for the very program that it was measured with. Whatever
does not fit is measured again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

import msgspec

from stages.checkpoints import Restored
from stages.context import Context
from stages.experiment.record import Curve, Setting, StageRecord
from stages.experiment.tree import Node
from stages.experiment.verdict import Verdict
from stages.literature import Work
from stages.space.claim import Direction
from stages.space.data_sets import DataSet

Scores = Mapping[str, float]

COMPLETE: Final = "is_complete"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tried:
    """A finished node with its curve, and the attempt that trained it."""

    node: Node
    curve: Curve | None
    attempt: int


@dataclass(frozen=True, slots=True)
class ClaimState:
    """What the first attempt chose to measure; the metric by its name."""

    subject: str
    metric: str
    direction: Direction
    data: DataSet
    train_examples: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchState:
    """A stage of the search so far, from the program `root` on; `record` once it is finished.

    `begun` are the nodes of the round under way, in their order, whether they are tried by now or not.
    """

    tried: tuple[Tried, ...] = ()
    begun: tuple[Node, ...] = ()
    record: StageRecord | None = None
    claim: ClaimState | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a fresh seed gave for one arm, by its number in `FreshState.arms`; None where it failed."""

    arm: int
    seed: int
    scores: Scores | None


@dataclass(frozen=True, slots=True)
class FreshState:
    """Validation so far: both programs, what was measured for them, and the mark of the secret behind it."""

    arms: tuple[str, str]
    measured: tuple[Measured, ...] = ()
    judge: str = ""


@dataclass(frozen=True, slots=True)
class FigureState:
    """A finished figure: the names of its files, and the sentence below it."""

    name: str
    images: tuple[str, ...]
    table: str
    caption: str


@dataclass(frozen=True, slots=True)
class PaperState:
    """A finished paper: what of the record only its own attempt knew, and what reviewers read."""

    title: str
    author: str
    text: str
    pages: int
    level: str
    setting: Setting
    works: tuple[Work, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewState:
    """The verdict of a review that is over."""

    verdict: Verdict


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
        run = f" of run {found.from_run}" if found.from_run else ""
        made_by = f"the checkpoint of attempt {found.attempt}{run}"
        self.context.log(f"{stage} is finished: resuming after it, from {made_by}")
        return found

    def peek(self, stage: str, kind: type[T]) -> T | None:
        """Return what a checkpoint holds, finished or not, without taking it for the run's next step."""
        found = self.context.restored(stage)
        try:
            return None if found is None else msgspec.convert(found.state["found"], kind)
        except (KeyError, msgspec.ValidationError):
            return None  # whoever takes the step reads it again, and says so

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
