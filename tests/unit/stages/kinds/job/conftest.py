"""Jobs in the process of a test, which other tests share."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from events.runtime.clock import SystemClock
from events.runtime.errors import Canceled
from stages.kinds.job import pipeline
from stages.testing import RecordingLiveView

CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the process of the tests as it is: a pipeline hides its own, for good."""
    monkeypatch.setattr(pipeline, "hide", lambda: None)


@pytest.fixture
def canceled() -> Callable[[RecordingLiveView], AbstractContextManager[None]]:
    """Return what cancels a job once it has printed that it is ready."""
    return _canceled_when_ready


@contextmanager
def _canceled_when_ready(live: RecordingLiveView) -> Iterator[None]:
    def cancel(*_: object) -> None:
        raise Canceled("stop")

    is_over = threading.Event()

    def when_ready() -> None:
        while "ready\n" not in live.text():
            if CLOCK.wait(is_over, 0.05):
                return
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, cancel)
    thread = threading.Thread(target=when_ready)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
