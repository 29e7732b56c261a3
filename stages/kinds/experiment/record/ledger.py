"""The results of earlier attempts of a run, and their form in checkpoints.

Law: a finished stage is used whole only behind stages that were used whole; a finished node, or the result
of a unit, only for the very program that it was measured with. Everything else is measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from events.files.paths import SafeName
from events.kinds.space.data_sets import DataSet
from events.kinds.space.effect import Direction, EffectKind
from events.kinds.space.sentences.grammar import CLAIMS_MAX
from stages.bounds import (
    NODES_MAX,
    SEEDS_MAX,
    Count,
    Line,
    Notes,
    Ordinal,
    Scores,
    Seed,
    Spread,
    Text,
    Unreadable,
    Word,
    read_state,
)
from stages.context import Context
from stages.kinds.experiment.record.record import Curve, Setting, StageRecord
from stages.kinds.experiment.record.reviews import ENSEMBLE, Review
from stages.kinds.experiment.statistics.validation import Reading
from stages.kinds.experiment.tree import Node
from stages.ports.checkpoints import Restored
from stages.ports.literature import Work

COMPLETE: Final = "is_complete"
FOUND: Final = "found"
FILES_MAX: Final = 50
UNTRACED_MAX: Final = 100
UNTOUCHED: Final = 2  # the number of the tuned baseline, behind those of both arms

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tried:
    """A finished node with its curve, and the attempt that trained it."""

    node: Node
    curve: Curve | None
    attempt: Ordinal


@dataclass(frozen=True, slots=True)
class EffectState:
    """What is claimed of a measure, by its name."""

    metric: Word
    direction: Direction
    kind: EffectKind = "superior"
    margin: Spread = 0.0
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class ClaimState:
    """What the first attempt chose to measure."""

    subject: Line
    effects: Annotated[tuple[EffectState, ...], Meta(min_length=1, max_length=CLAIMS_MAX)]
    data: DataSet
    train_examples: Count | None
    notes: Notes


@dataclass(frozen=True, slots=True)
class SearchState:
    """A stage of the search so far, from the program `root` on; `record` once it is finished.

    `begun` are the nodes of the round under way, in their order, whether they are tried by now or not;
    `judge` is the mark of the secret by which all of it was measured.
    """

    tried: Annotated[tuple[Tried, ...], Meta(max_length=NODES_MAX)] = ()
    begun: Annotated[tuple[Node, ...], Meta(max_length=NODES_MAX)] = ()
    record: StageRecord | None = None
    claim: ClaimState | None = None
    root: Text | None = None
    judge: Word = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the unit of a seed gave for one arm, by its number in `UnitsState.arms`, or for the untouched baseline.

    `answers` is the digest of the answers that count, `references` the quality of the reference models there.
    """

    arm: Annotated[int, Meta(ge=0, le=UNTOUCHED)]
    seed: Seed
    reading: Reading
    answers: Word = ""
    references: Scores = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitsState:
    """Validation so far: both programs, what was measured for them, and the mark of the secret behind it.

    `rows` and `test_rows` are those of a unit; `earlier` verdicts on these rows were known when it began.
    `untouched` is the tuned baseline, where it was run beside both.
    """

    arms: tuple[Text, Text]
    rows: Count
    test_rows: Count
    measured: Annotated[tuple[Measured, ...], Meta(max_length=3 * SEEDS_MAX)] = ()
    judge: Word = ""
    earlier: Count | None = None
    untouched: Text = ""


@dataclass(frozen=True, slots=True)
class PaperState:
    """A finished paper: what of the record only its own attempt knew, and what reviewers read."""

    title: Line
    author: Line
    text: Text
    pages: Count
    level: Word
    setting: Setting
    works: Annotated[tuple[Work, ...], Meta(max_length=100)]
    files: Annotated[tuple[SafeName, ...], Meta(max_length=FILES_MAX)]


@dataclass(frozen=True, slots=True)
class ReviewState:
    """What a review found; the verdict follows from it and from the measurement."""

    traced: Count
    untraced: Annotated[tuple[Line, ...], Meta(max_length=UNTRACED_MAX)]
    reviews: Annotated[tuple[Review, ...], Meta(max_length=ENSEMBLE)]


@dataclass(slots=True)
class Past:
    """The checkpoints of earlier attempts, read in the order of the stages.

    `is_used` is whether this attempt rests on any, `others` are the other pods that may have had a part in those.
    """

    context: Context
    is_whole: bool = True
    is_used: bool = False
    others: set[str] = field(default_factory=set)

    def left(self, stage: str) -> Restored | None:
        """Return what earlier attempts left of a stage, unless a later one has set it aside."""
        found = self.context.restored(stage)
        return found if found is not None and found.state else None

    def set_aside(self, stages: Iterable[str]) -> bool:
        """Let the next attempt begin anew; False where earlier ones left nothing, or storage does not take it.

        What a run takes from the run that it repeats is judged the same way.
        """
        left = [name for name in stages if self.left(name) is not None]
        are_safe = [self.context.checkpoint(name, {}) for name in left]
        return bool(left) and all(are_safe)

    def finished(self, stage: str) -> Restored | None:
        """Return the checkpoint of a stage that need not run again, and log it."""
        found = self.left(stage)
        self.is_whole = self.is_whole and found is not None and bool(found.state.get(COMPLETE))
        if not self.is_whole or found is None:
            return None
        run = f" of run {found.from_run}" if found.from_run else ""
        made_by = f"the checkpoint of attempt {found.attempt}{run}"
        self.context.log(f"{stage} is finished: resuming after it, from {made_by}")
        return found

    def peek(self, stage: str, kind: type[T]) -> T | None:
        """Return what a checkpoint holds, finished or not, without taking it for the run's next step."""
        found = self.left(stage)
        try:
            return None if found is None else self._taken(found, read_state(found.state.get(FOUND), kind))
        except Unreadable:
            return None  # whoever takes the step reads it again, and says so

    def read(
        self,
        found: Restored | None,
        kind: type[T],
        problem_of: Callable[[T], str | None] = lambda state: None,
    ) -> T | None:
        """Return a checkpoint's state in types, judged by `problem_of`.

        One of another version, or one that does not fit together, is no checkpoint: it is logged, and the
        stage begins anew.
        """
        if found is None:
            return None
        left = f"a checkpoint of attempt {found.attempt}"
        try:
            state = read_state(found.state.get(FOUND), kind)
        except Unreadable as error:
            self._refuse(f"{left} cannot be read: {error}")
            return None
        if (problem := problem_of(state)) is not None:
            self._refuse(f"{left} is not used: {problem}")
            return None
        return self._taken(found, state)

    def _taken(self, found: Restored, state: T) -> T:
        """Remember whose word this is."""
        self.is_used = True
        self.others |= {*found.pods} - ({self.context.pod} if self.context.pod else set())
        return state

    def _refuse(self, why: str) -> None:
        self.is_whole = False
        self.context.log(why, "warning")


def state_of(found: Any, *, is_complete: bool) -> dict[str, Any]:
    """Return the state of a checkpoint that keeps `found`: one of the states above, or a list of them."""
    return {COMPLETE: is_complete, FOUND: msgspec.to_builtins(found, enc_hook=str)}
