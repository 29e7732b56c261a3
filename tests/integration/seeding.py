"""Filling a store by `python -m testing.seed`, as a person would."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.fork_server import run_program

ROOT = Path(__file__).resolve().parents[2]
RUNS, EVENTS, LINES = 300, 3_600, 400
UNTIL = "2026-03-01T12:00:00Z"


def seed(url: str, *options: str, runs: int = RUNS) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    size = ("--runs", str(runs), "--events", str(EVENTS), "--long-log", str(LINES), "--until", UNTIL)
    command = ["-m", "testing.seed", *size, "--processes", "2", "--url", url, *options]
    return run_program(command, env={"PATH": ""}, cwd=ROOT)
