"""Signals to processes that may end at any moment."""

from __future__ import annotations

import signal
import subprocess

from testing.chaos.system.programs import signal_all


def test_a_process_that_ended_before_its_signal_keeps_it_from_nobody_else() -> None:
    over = subprocess.Popen(["true"])
    over.wait()
    with subprocess.Popen(["sleep", "60"]) as living:
        signal_all([over.pid, living.pid], signal.SIGTERM)
    assert living.returncode == -signal.SIGTERM
