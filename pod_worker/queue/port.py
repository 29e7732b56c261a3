"""The port of the queue: claim, find a claim again, renew, settle. It has two adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from events.queue.claims import Claim, Orders
from events.queue.matching import Seeker, WaitingClass
from events.queue.settlement import End


class Queue(Protocol):
    """Any place where runs wait. Every method raises `Transient` when it cannot know."""

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        """Take the first run that the pod can serve; None where there is none.

        In the classes `known` a run waits, as the pod has just heard: it need not look for one first.
        May wait a little for one. A token that took nothing may be used again.
        """
        ...

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find the claim that was made with `token`; None when it never happened or is over."""
        ...

    def renew(self, claim: Claim) -> Orders:
        """Extend the lease. Raises `LeaseLost`."""
        ...

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        """End the attempt, whose last sequence is `last`; again is the same. Raises `LeaseLost`."""
        ...
