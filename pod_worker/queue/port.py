"""The port of the queue: claim, find a claim again, renew, settle. It has two adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from events.queue.claims import Claim, Orders
from events.queue.matching import Seeker, WaitingClass
from events.queue.settlement import End


class Queue(Protocol):
    """The port of the queue. Every method raises `Transient` if the result is unknown."""

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        """Take the first run that the pod can serve; None where there is none.

        `known` are classes in which a run waits, by a notification: they are tried without a look.
        May wait a little for one. A token that claimed nothing may be used again.
        """
        ...

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find the claim that was made with `token`; None if it was not made or is over."""
        ...

    def renew(self, claim: Claim) -> Orders:
        """Extend the lease. Raises `LeaseLost`."""
        ...

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        """End the attempt, whose last sequence is `last`. Idempotent. Raises `LeaseLost`."""
        ...
