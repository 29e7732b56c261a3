"""How a worker is gone in time, whatever hangs."""

from __future__ import annotations

import threading

from events.testing import ManualClock
from pod_worker.program import LEAVE_S, World, _leave_in_time


def test_a_worker_that_was_told_to_stop_is_gone_before_a_provider_kills_its_pod() -> None:
    clock, stop, left = ManualClock(), threading.Event(), list[int]()
    stop.set()
    begun_s = clock.monotonic_s()
    _leave_in_time(World(clock=clock, stop=stop, leave=left.append))
    assert left == [0]
    assert clock.monotonic_s() - begun_s == LEAVE_S
    assert LEAVE_S < 5.0, "one provider gives a pod five seconds"
