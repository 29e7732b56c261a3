"""Ends an idle worker's pause early, after a notification of the control plane.

Law: a wake-up is a hint. A pod that receives none polls all the same. One that receives one in vain has
made one request too many.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from events.answers.worker.claims import Wakeup
from events.delivery.control_plane_client import ControlPlane
from events.queue.matching import Named, WaitingClass
from events.runtime.clock import Clock
from events.runtime.errors import Transient

log = logging.getLogger(__name__)

ASK_S: Final = 20.0  # for one answer; the control plane gives it at once when a run comes
ANSWER_S: Final = 5.0
LOOK_S: Final = 0.2  # within this an idle worker notices that it shall stop
RETRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Polls:
    """No wake-ups: the queue waits for a run itself, or there is no notifier."""

    clock: Clock

    def pause(self, sought: Named, seconds: float, stop: threading.Event) -> Sequence[WaitingClass]:
        """Wait, until told to stop."""
        self.clock.wait(stop, seconds)
        return ()


@dataclass(slots=True)
class Wakeups:
    """Asks the control plane in a thread of its own, and only while its worker is idle."""

    control_plane: ControlPlane
    clock: Clock
    _sought: Named = field(default_factory=lambda: Named(()))
    _known: Sequence[WaitingClass] = ()
    _idle: threading.Event = field(default_factory=threading.Event)
    _rung: threading.Event = field(default_factory=threading.Event)

    def pause(self, sought: Named, seconds: float, stop: threading.Event) -> Sequence[WaitingClass]:
        """Wait until a run of these classes may be waiting, at most `seconds`, or until the stop."""
        self._sought, self._known = sought, ()
        self._idle.set()
        until_s = self.clock.monotonic_s() + seconds
        while not stop.is_set() and (left_s := until_s - self.clock.monotonic_s()) > 0:
            if self.clock.wait(self._rung, min(left_s, LOOK_S)):
                break
        self._rung.clear()
        return self._known

    def run(self, quiet: threading.Event) -> None:
        """Wait for notifications while the worker pauses, until `quiet`."""
        while not quiet.is_set():
            if self.clock.wait(self._idle, LOOK_S):
                self._idle.clear()
                self._ask(quiet)

    def _ask(self, quiet: threading.Event) -> None:
        sought = self._sought
        wanted: dict[str, list[str] | str | float] = {
            "class": list(sought.classes),
            "label": [f"{name}={value}" for name, value in sought.labels.items()],
            "wait_s": ASK_S,
        }
        if sought.pod is not None:
            wanted["pod"] = sought.pod
        try:
            answer = self.control_plane.send("GET", "/api/wakeups", params=wanted, timeout_s=ASK_S + ANSWER_S)
            heard = answer.read(Wakeup)
        except Transient as error:
            log.info("wakeups.missing", extra={"why": error.message})
            self.clock.wait(quiet, RETRY_S)
            return
        if heard.waiting:
            self._known = [
                WaitingClass(each.collection, each.class_key, each.priority) for each in heard.classes
            ]
            self._rung.set()
