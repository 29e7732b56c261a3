"""Runs the real command line: as a child process in a pipe or on a terminal, or within this process."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer.testing import CliRunner

from podfleet.main import app
from tests.fork_server import run_program

PROGRAM = ("-c", "import sys; from podfleet.main import main; sys.exit(main())")
PATIENCE_S = 90


def seen(url: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return what a command sees of the control plane at `url`, and of its terminal."""
    return {"CONTROL_PLANE_URL": url, "COLUMNS": "120", "TERM": "xterm-256color", **more}


def command(url: str, arguments: Sequence[str], **more: str) -> list[str]:
    """Return the command line with what a child of the tests sees: the control plane at `url`."""
    values = (f"{name}={value}" for name, value in seen(url, more).items())
    return ["env", "-u", "NO_COLOR", "-u", "FORCE_COLOR", *values, sys.executable, *PROGRAM, *arguments]


def podfleet(
    url: str, *arguments: str, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with its output in pipes."""
    environment = {**seen(url, more), "PATH": os.defpath}
    return run_program([*PROGRAM, *arguments], env=environment, cwd=cwd or Path.cwd(), limit_s=PATIENCE_S)


def within(
    url: str, *arguments: str, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command without a process of its own, where that is not the point: it is three times as fast."""
    variables = {"CONTROL_PLANE_URL": url, "COLUMNS": "120", **more}
    with contextlib.chdir(cwd or Path.cwd()):
        result = CliRunner().invoke(app, list(arguments), env=variables)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    gc.collect()  # an exception's frames may still hold the connection
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


def started(url: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """Start a command whose output is read while it goes on; leaving its block waits for its end."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(url, arguments, **more), stdout=pipe, stderr=pipe, text=True)


def on_terminal(url: str, *arguments: str, **more: str) -> tuple[int, str]:
    """Run a command on a terminal; return its status and everything that it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(url, arguments, **more), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    while piece := _read(ours):
        written += piece
    os.close(ours)
    return process.wait(PATIENCE_S), written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError as error:
        if error.errno != errno.EIO:  # how Linux says that nobody has the terminal open any more
            raise
        return b""
