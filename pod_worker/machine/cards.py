"""Who computes on whose card: a run on one that is not its slot's, and others on its own.

Law: only what a look has seen that began after the attempt is charged to it, and a process that nobody can
assign is nobody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from events.catalog import RunFailed, RunLog
from events.kinds.declaring.fact import Fact
from events.lifecycle import Fault
from events.queue.faults import blame_of

StrayUse = Literal["log", "end"]  # what is done where a run computes on a card that is not its slot's
STRAYS_TOLD_MAX: Final = 16  # of an attempt
NOT_OWN: Final = "GPU_NOT_OWN"
DISTURBED: Final = "GPU_DISTURBED"


@dataclass(frozen=True, slots=True)
class CardLook:
    """One look: processes of this worker on cards that are not its own, and of other slots on its own."""

    number: int = 0
    strays: tuple[str, ...] = ()
    intruders: tuple[str, ...] = ()


@dataclass(slots=True)
class CardWatch:
    """The newest look, which the thread of the reports makes, and attempts read."""

    last: CardLook = field(default_factory=CardLook)

    def see(self, strays: Sequence[str], intruders: Sequence[str]) -> None:
        """Note what a look has seen."""
        self.last = CardLook(self.last.number + 1, tuple(strays), tuple(intruders))


@dataclass(slots=True)
class CardUse:
    """What one attempt has to do with cards: its own strays, and who was on its cards meanwhile."""

    watch: CardWatch
    stray_use: StrayUse = "log"
    _seen: int = field(init=False)
    _told: set[str] = field(default_factory=set)
    offence: RunFailed | None = None
    intruder: str | None = None

    def __post_init__(self) -> None:
        self._seen = self.watch.last.number + 1  # a look may be on its way, and have begun before

    def turn(self) -> list[Fact]:
        """Return what the log of the run is told of the newest look."""
        look = self.watch.last
        if look.number <= self._seen:
            return []
        self._seen = look.number
        if look.intruders and self.intruder is None:
            self.intruder = look.intruders[0]
        told: list[Fact] = []
        for each in look.strays:
            advice = "use the cards that CUDA_VISIBLE_DEVICES names at its start"
            told += self._once(f"the run computes on a GPU that is not its own: {each}; {advice}")
            if self.stray_use == "end" and self.offence is None:
                message = f"the run computed on a GPU that is not its own, and was ended: {each}; {advice}"
                self.offence = RunFailed(code=NOT_OWN, message=message, retryable=False)
        for each in look.intruders:
            told += self._once(f"another run computes on a GPU of this one: {each}")
        return told

    def judged(self, fact: Fact) -> Fact:
        """Return the end of the attempt: a failure while another run was on its cards is not its own."""
        if self.intruder is None or not isinstance(fact, RunFailed):
            return fact
        if fact.code == NOT_OWN or blame_of(fact.code).fault is not Fault.RUN:
            return fact
        message = f"{fact.message} ({fact.code}); another run computed on its GPU: {self.intruder}"
        return RunFailed(
            code=DISTURBED, message=message, stage=fact.stage, traceback=fact.traceback, retryable=True
        )

    def _once(self, text: str) -> list[Fact]:
        if text in self._told or len(self._told) >= STRAYS_TOLD_MAX:
            return []
        self._told.add(text)
        return [RunLog(message=text, level="warning")]
