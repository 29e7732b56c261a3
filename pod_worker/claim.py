"""What a pod learns from the queue: which classes wait, which run is its own, what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from events.pipe import Note
from events.settlement import End


@dataclass(frozen=True, slots=True)
class WaitingClass:
    """A class in which at least one run waits, with the priority of its head."""

    collection: str
    class_key: str
    priority: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that is ours: the attempt is our term, the token our proof.

    `from_stage` is where a retry of a part begins; `paused` and `notes` are what people wanted
    of the run before this attempt; `traceparent` is the context of this attempt in the run's trace.
    """

    collection: str
    run_id: str
    attempt: int
    token: str
    kind: str
    spec: Mapping[str, Any]
    hypothesis_id: str | None
    from_stage: str | None = None
    paused: bool = False
    notes: tuple[Note, ...] = ()
    traceparent: str | None = None

    @property
    def has_past(self) -> bool:
        """Return whether somebody may have left checkpoints to go on from."""
        return self.attempt > 1 or self.from_stage is not None


@dataclass(frozen=True, slots=True)
class Orders:
    """What people want of the owner of a run; `notes` are all of them, the oldest first."""

    cancel: bool = False
    paused: bool = False
    notes: tuple[Note, ...] = ()


class Queue(Protocol):
    """Any place where runs wait. Every method raises `Transient` when it cannot know."""

    def waiting(self, collections: Sequence[str]) -> list[WaitingClass]: ...

    def claim(self, wanted: WaitingClass, *, token: str, pod: str) -> Claim | None:
        """Take the head of a class; None when it is empty by now."""
        ...

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find the claim that was made with `token`; None when it never happened or is over."""
        ...

    def renew(self, claim: Claim) -> Orders:
        """Extend the lease. Raises `LeaseLost`."""
        ...

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float) -> None:
        """End the attempt, whose last sequence is `last`; again is the same. Raises `LeaseLost`."""
        ...
