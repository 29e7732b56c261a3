"""What tests start by the fork server is what they would have started by `python`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import fork_server
from tests.fork_server import run_program, start_program

SHOW = """
import json, os, random, sys
print(json.dumps([sys.argv, dict(os.environ), os.getcwd(), __name__]))
sys.stderr.write(str(random.getrandbits(64)))
"""


def test_a_program_has_its_own_arguments_environment_folder_and_streams(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SHOW)
    for arguments in (["-c", SHOW, "a", "b c"], [str(script), "a", "b c"]):
        done = run_program(arguments, env={"NAME": "value"}, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        argv, environment, folder, name = json.loads(done.stdout)
        assert argv[1:] == ["a", "b c"]
        assert {key: environment[key] for key in environment if key != "LC_CTYPE"} == {"NAME": "value"}
        assert (folder, name) == (str(tmp_path), "__main__")


def test_no_two_programs_draw_the_same(tmp_path: Path) -> None:
    drawn = {run_program(["-c", SHOW], env={}, cwd=tmp_path).stderr for _ in range(3)}
    assert len(drawn) == 3


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no such thing')", 1, "no such thing"),
        ("import sys; sys.exit(None)", 0, ""),
        ("raise ValueError('odd')", 1, "ValueError: odd"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
        ("import atexit, sys; atexit.register(sys.stderr.write, 'bye')", 0, "bye"),
        ("import os, threading; threading.Thread(target=os.write, args=(2, b'late')).start()", 0, "late"),
    ],
)  # fmt: skip
def test_a_program_ends_as_the_interpreter_would_end_it(
    tmp_path: Path, code: str, status: int, words: str
) -> None:
    forked = run_program(["-c", code], env={}, cwd=tmp_path)
    executed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert forked.returncode == executed.returncode == status
    assert words in forked.stderr
    assert words in executed.stderr


def test_signals_reach_the_program_itself(tmp_path: Path) -> None:
    program = start_program(["-c", "import time; time.sleep(600)"], env={}, cwd=tmp_path)
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.05)
    program.terminate()
    assert program.wait(60) == -signal.SIGTERM
    program.kill()  # it is over: nobody else gets it
    assert program.poll() == -signal.SIGTERM


def test_a_module_is_run_anew(tmp_path: Path) -> None:
    done = run_program(["-m", "control_plane", "--help"], env={}, cwd=tmp_path)
    assert (done.returncode, "serve" in done.stdout) == (0, True), done.stderr
    assert "Warning" not in done.stderr


FORGETFUL = """
import os, signal, sys
from pathlib import Path
from tests import fork_server
fork_server.PRELOADED = ()
for address in sys.argv[1:]:
    fork_server.join(address)
code = "import signal; print('up', flush=True); signal.pause()"
program = fork_server.start_program(["-c", code], env={}, cwd=Path())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("is_common", [False, True], ids=["a server of its own", "a common server"])
def test_a_program_that_a_test_forgot_ends_with_the_test_process(
    monkeypatch: pytest.MonkeyPatch, is_common: bool
) -> None:
    """Its standard output is the test's own: whoever reads that to its end would wait for ever."""
    monkeypatch.setattr(fork_server, "PRELOADED", ())
    with ExitStack() as stack:
        addresses = [stack.enter_context(fork_server.common_server())] if is_common else []
        for _ in range(2):  # nobody's end is that of the common server
            done = subprocess.run(
                [sys.executable, "-c", FORGETFUL, *addresses], cwd=Path(__file__).parents[2],
                stdout=subprocess.PIPE, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == -signal.SIGKILL


class Unstarted:
    """A server that does nothing."""

    def wait(self, timeout: float | None = None) -> None: ...
    def kill(self) -> None: ...


@pytest.mark.parametrize("is_common", [False, True], ids=["a server of its own", "a common server"])
def test_messages_that_nobody_has_read_yet_stay_apart(
    monkeypatch: pytest.MonkeyPatch, is_common: bool
) -> None:
    given: list[socket.socket] = []

    def keep(way: socket.socket) -> Unstarted:
        given.append(way.dup())
        return Unstarted()

    def answer(way: socket.socket, requests: list[bytes], fds: list[int]) -> None:
        """Ask twice before the server reads, and tell number and end before the client does."""
        way.send(b"one")
        way.send(b"two")
        with socket.socket(fileno=os.dup(fds[-1])) as report:
            report.send(b"123")
            report.send(b"256")

    monkeypatch.setattr(fork_server, "_way", [])
    monkeypatch.setattr(fork_server, "_start", keep)
    monkeypatch.setattr(fork_server.atexit, "register", lambda *_: None)
    monkeypatch.setattr(fork_server.socket, "send_fds", answer)
    with ExitStack() as stack:
        if is_common:
            fork_server.join(stack.enter_context(fork_server.common_server()))
        program = start_program(["-c", ""], env={}, cwd=Path())
        server = stack.enter_context(given[0].accept()[0] if is_common else given[0])
        stack.enter_context(fork_server._way[0])
        assert (program.pid, program.wait(1)) == (123, 1)
        assert [server.recv(fork_server.REQUEST_BYTES) for _ in range(2)] == [b"one", b"two"]
        given[0].close()
