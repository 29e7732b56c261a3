"""Engines that attack who started them: by answers that drip, and by what they do to their own log."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from events.models.rows.command import commanded
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import PipelineError
from stages.engines import readiness
from stages.engines.failure import EngineFailed
from stages.engines.running import ServingLimits
from stages.engines.serving import serve

CLOCK, IDS = SystemClock(), SystemIds()
# Answers a byte at a time, each soon enough for the limit of one read.
DRIPS = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    taken, _ = listener.accept()
    try:
        taken.sendall(sys.argv[2].encode().decode("unicode_escape").encode())
        while True:
            taken.sendall(b"x")
            time.sleep(0.1)
    except OSError:
        taken.close()
"""
HEADS = {
    "body": r"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "head": r"HTTP/1.1 200 OK\r\nX-Long: ",
}
# What an engine does with the file that its output goes to, before it ends.
LOGS = {
    "gone": "os.unlink('engine.log')",
    "fifo": "os.unlink('engine.log'); os.mkfifo('engine.log')",
    "link": "os.unlink('engine.log'); os.symlink('/etc/hostname', 'engine.log')",
    "folder": "os.unlink('engine.log'); os.mkdir('engine.log')",
}


def failing(
    command: str, folder: Path, limits: ServingLimits, environment: dict[str, str] | None = None
) -> EngineFailed:
    """Return how an engine fails to start, within a minute."""
    found: list[PipelineError] = []

    def start() -> None:
        try:
            with serve(
                commanded(command),
                "m",
                {},
                name="m",
                folder=folder,
                clock=CLOCK,
                ids=IDS,
                limits=limits,
                environment=environment,
            ):
                pytest.fail("nothing was served")
        except PipelineError as error:
            found.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits without end"
    assert [type(each) for each in found] == [EngineFailed]
    assert isinstance(found[0], EngineFailed)
    return found[0]


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_an_answer_that_drips_is_no_longer_waited_for_than_the_limit(
    head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "ASK_S", 0.5)
    (tmp_path / "drips.py").write_text(DRIPS)
    command = f"{{python}} -I {tmp_path}/drips.py {{port}} '{head}' {{alias}}"
    assert failing(command, tmp_path, ServingLimits(ready_s=0.5)).is_late


@pytest.mark.parametrize("what", LOGS.values(), ids=LOGS.keys())
def test_an_engine_that_takes_its_log_away_has_failed_as_any_other(what: str, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(f"import os; print('bye', flush=True); {what}; raise SystemExit(7)")
    failed = failing(f"{{python}} -I {tmp_path}/ends.py {{port}}", tmp_path, ServingLimits())
    assert "status 7" in failed.message
    assert "bye" in failed.message
    assert failed.log.read_text() == "bye\n", "the log is what it wrote"
    assert not failed.log.is_symlink()


def test_the_log_of_an_engine_that_does_not_end_has_no_secret_either(tmp_path: Path) -> None:
    lines = (
        "import os, socket, sys, time; print(os.environ['HF_TOKEN'], flush=True)",
        "held = socket.create_server(('127.0.0.1', int(sys.argv[1])))",
        "left, right = os.pipe()",
        "if os.fork(): os.read(left, 1); raise SystemExit",
        "os.setsid(); print(os.getpid(), file=open(sys.argv[2], 'w')); os.write(right, b'.'); time.sleep(60)",
    )
    (tmp_path / "stays.py").write_text("\n".join(lines))
    command = f"{{python}} -I {tmp_path}/stays.py {{port}} {tmp_path}/pid"
    limits = ServingLimits(term_s=0.1, kill_s=0.2)
    failed = failing(command, tmp_path, limits, {"HF_TOKEN": "hf_abcdefghijklmnop"})
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert "who listens at port" in failed.message
    assert failed.log.read_text() == "***\n"
