"""The supervisor's rules that need no process."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from events.runtime.errors import ConfigError
from podfleet.embedded.data_lock import held
from podfleet.embedded.interrupts import interrupts
from podfleet.embedded.stack import Options


def test_all_wrong_options_are_named_together() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        problems = Options(port=port, workers=-1, labels=("rack=a4", "gpu=h100")).problems()
    assert len(problems) == 3
    assert "--workers" in problems[0]
    assert problems[1] == "--label: 'gpu' is said by the pod itself, and cannot be set"
    assert str(port) in problems[2]
    assert "--port" in problems[2]


def test_a_data_directory_has_one_holder_and_is_free_afterwards(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(ConfigError, match=str(os.getpid())), held(tmp_path):
        pytest.fail("held twice")
    with held(tmp_path):
        assert (tmp_path / "up.lock").stat().st_mode & 0o777 == 0o600


def test_interrupts_are_counted_and_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interrupts() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.count == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_ignored_hang_up_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts() as asked:
            os.kill(os.getpid(), signal.SIGHUP)
            assert asked.count == 0
    finally:
        signal.signal(signal.SIGHUP, before)
