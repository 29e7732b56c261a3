"""What is said one by one is taken together; what somebody waits for, at once."""

from __future__ import annotations

import pytest

from events.catalog import RunCompleted, RunLog
from events.outgoing import said
from events.pipe import Checkpoint, Made, Said
from events.testing import ManualClock
from pod_worker.inbox import GATHER_S, HEARD_MAX, Inbox

WORD = said(RunLog(message="a word"))
MADE = Made("file", "file", "text/plain")


def test_words_are_gathered_for_a_moment() -> None:
    clock = ManualClock()
    inbox = Inbox(clock)
    inbox.put(WORD)
    assert (inbox.take(500, wait_s=1.0), clock.monotonic_s()) == ([WORD], GATHER_S)


@pytest.mark.parametrize("frame", [said(RunCompleted()), MADE, Checkpoint(1, "node", [MADE])])
def test_what_somebody_waits_for_is_taken_at_once_with_the_words_before_it(frame: Said | Made) -> None:
    clock = ManualClock()
    inbox = Inbox(clock)
    inbox.put(WORD)
    inbox.put(frame)
    assert (inbox.take(500, wait_s=1.0), clock.monotonic_s()) == ([WORD, frame], 0.0)
    inbox.put(WORD)
    inbox.take(500, wait_s=1.0)
    assert clock.monotonic_s() == GATHER_S  # the hurry is over


def test_many_words_are_taken_at_once() -> None:
    clock = ManualClock()
    inbox = Inbox(clock)
    for _ in range(HEARD_MAX):
        inbox.put(WORD)
    assert [len(inbox.take(400, wait_s=1.0)) for _ in range(3)] == [400, 400, 200]
    assert clock.monotonic_s() == 0.0
