"""Renews the lease of one claim, and receives the orders in the answers."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from events.queue.claims import Claim, Node, Orders
from events.queue.lease_times import RENEW_EVERY_S
from events.queue.notes import Note
from events.runtime.clock import Clock, instant
from events.runtime.errors import LeaseLost
from events.runtime.loops import Threads, run_every
from events.runtime.measured_clock import MeasuredClock
from pod_worker.attempt.lease import Lease, grant, lose

log = logging.getLogger(__name__)


class Renewals(Protocol):
    """The port of the queue that a heartbeat needs."""

    def renew(self, claim: Claim) -> Orders: ...


@dataclass(frozen=True, slots=True)
class Pulse:
    """The result of the last renewal, which took `took_s`; None before the first one."""

    lease: Lease
    cancel: bool = False
    paused: bool = False
    notes: tuple[Note, ...] = ()
    start_at: datetime | None = None
    node: Node | None = None
    preempt: bool = False
    took_s: float | None = None


@dataclass(slots=True)
class Heartbeat:
    """Renews the lease in a thread of its own, which a busy child or a slow disk cannot delay.

    An answer that tells the store's moment measures the clock `stores`.
    """

    claim: Claim
    renewals: Renewals
    clock: Clock
    pulse: Pulse
    every_s: float = RENEW_EVERY_S
    stores: MeasuredClock | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _hurry: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, threads: Threads) -> None:
        """Renew until `stop`."""
        threads(f"lease-{self.claim.run_id}", self._beat)

    def stop(self) -> None:
        """Stop renewing; a renewal in flight is harmless."""
        self._stop.set()
        self._hurry.set()

    def hurry(self) -> None:
        """Renew now, since an order may wait."""
        self._hurry.set()

    def run_once(self) -> Pulse:
        """Renew once; on `Transient` it is not known whether the lease was extended."""
        requested_at = instant(self.clock)
        try:
            orders = self.renewals.renew(self.claim)
        except LeaseLost:
            log.warning("lease.lost", extra={"run": self.claim.run_id, "attempt": self.claim.attempt})
            self.lose()
        else:
            if orders.now is not None and self.stores is not None:
                self.stores.note(orders.now, asked_s=requested_at.monotonic_s)
            took_s = self.clock.monotonic_s() - requested_at.monotonic_s
            with self._lock:
                lease = self.pulse.lease
                if not lease.is_lost:
                    lease = grant(requested_at=requested_at, ttl_s=self.claim.lease_s)
                cancel = self.pulse.cancel or orders.cancel
                self.pulse = Pulse(
                    lease,
                    cancel=cancel,
                    paused=orders.paused,
                    notes=orders.notes,
                    start_at=orders.start_at,
                    node=orders.node,
                    preempt=self.pulse.preempt or orders.preempt,
                    took_s=took_s,
                )
        return self.pulse

    def lose(self) -> None:
        """Note that the lease belongs to another attempt."""
        with self._lock:
            self.pulse = replace(self.pulse, lease=lose(self.pulse.lease))

    def _beat(self) -> None:
        self.clock.wait(self._hurry, self.every_s)  # the claim was the first
        self._hurry.clear()
        run_every(self.every_s, self.run_once, stop=self._stop, clock=self.clock, hurry=self._hurry)
