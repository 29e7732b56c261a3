"""Asks for the access token of a run's user again before it ends, beside the attempt.

Law: a token is kept in memory until the child has it, and is in no log, error or file.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Final

from events.queue.claims import Claim
from events.runtime.clock import Clock
from events.runtime.errors import LeaseLost
from events.runtime.loops import Threads, run_every
from events.text.secret_names import USER_TOKEN
from pod_worker.attempt.secret_values import Secrets

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
LEAST_S: Final = 2.0  # between two questions, whatever an answer says
BACK_OFF_S: Final = 5.0  # after one that came to nothing


@dataclass(slots=True)
class TokenRenewal:
    """Renews the token of one attempt in a thread of its own; the attempt takes what is new."""

    secrets: Secrets
    claim: Claim
    clock: Clock
    due_s: float  # when a newer one is to be asked for
    is_over: bool = False  # the user is signed out: there will be none
    _new: str | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self, threads: Threads) -> None:
        """Renew until `stop`."""
        threads(f"token-{self.claim.run_id}", self._work)

    def stop(self) -> None:
        """Stop renewing; a question in flight is harmless."""
        self._stop.set()

    def take(self) -> str | None:
        """Return the token that has come since the last call; None where none has."""
        with self._lock:
            new, self._new = self._new, None
        return new

    def run_once(self) -> None:
        """Ask where it is time. Raises `Transient`, after which it is asked again soon."""
        now_s = self.clock.monotonic_s()
        if now_s < self.due_s or self.is_over:
            return
        self.due_s = now_s + BACK_OFF_S
        try:
            found = self.secrets.renewed(self.claim)
        except LeaseLost:  # the heartbeat says so to the attempt
            self.stop()
            return
        token = found.values.get(USER_TOKEN)
        if token is None or found.renew_in_s is None:
            log.warning("user_token.over", extra={"run": self.claim.run_id})
            self.is_over = True
            return
        self.due_s = self.clock.monotonic_s() + max(LEAST_S, found.renew_in_s)
        with self._lock:
            self._new = token

    def _work(self) -> None:
        run_every(LOOK_EVERY_S, self.run_once, stop=self._stop, clock=self.clock)
