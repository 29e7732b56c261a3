"""What was heard is taken in its order, and no more is kept than there is room for."""

from __future__ import annotations

from events.catalog import RunLog
from events.delivery.event_encoder import fact_frame
from events.testing import ManualClock
from pod_worker.attempt.inbox import HEARD_MAX, Inbox

WORD = fact_frame(RunLog(message="a word"))


def test_many_words_are_taken_at_once() -> None:
    clock = ManualClock()
    inbox = Inbox(clock)
    for _ in range(HEARD_MAX):
        inbox.put(WORD)
    assert [len(inbox.take(400, wait_s=1.0)) for _ in range(3)] == [400, 400, 200]
    assert clock.monotonic_s() == 0.0


def test_nothing_comes_where_nothing_is_said() -> None:
    clock = ManualClock()
    assert (Inbox(clock).take(500, wait_s=1.0), clock.monotonic_s()) == ([], 1.0)
