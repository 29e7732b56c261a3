"""Ctrl-C while a command waits for a server."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import pytest

from events.runtime.clock import SystemClock
from podfleet.client.interrupts import interruptible

LONG_S = 60.0


def _lose_an_interrupt_and_wait() -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    SystemClock().wait(threading.Event(), LONG_S)
    raise AssertionError("nobody was interrupted")


def test_an_interrupt_that_is_lost_comes_again_and_afterwards_nothing_is_changed() -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)]
    with pytest.raises(KeyboardInterrupt), interruptible():
        _lose_an_interrupt_and_wait()
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)] == handlers


def test_a_command_that_nobody_interrupts_waits_as_long_as_it_wants() -> None:
    with interruptible():
        SystemClock().wait(threading.Event(), 2.5)


def test_who_ignores_interrupts_is_not_interrupted() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
