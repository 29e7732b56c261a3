"""A pipeline that goes for its worker, and then does honest work: run as what a worker starts for its runs.

It is told nothing but its folder: where a worker keeps what, every pipeline can read in our source.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from events.files.open_beneath import read_beneath
from events.files.paths import SafeName
from events.runtime.clock import SystemClock
from pod_worker.child import fork_server_main, main
from stages.adapters.sandbox import kernel, sandbox
from stages.context import Context
from stages.isolation.levels import BUBBLEWRAP, LANDLOCK
from stages.isolation.sandbox import Job

LIMIT_S = 20.0
MEMORY_KEY = 0x18B0  # of memory that System V keeps, whoever ends
TO_ALL = "sh -c 'umount -l {0}; mount -o remount,rw {0}; cat {0}/outbox.db && touch {0}/mine'"


def got(what: str, attempt: Callable[[], object]) -> list[str]:
    """Return what was got, if it was: that it worked, or a secret that it returned."""
    try:
        return [what] if attempt() not in (b"", False) else []
    except (OSError, subprocess.SubprocessError):
        return []


def spoil(path: Path) -> None:
    """Change what a path leads to; whether the worker's own file changed is for the test to see."""
    for attempt in (
        lambda: path.write_text("spoilt"),
        lambda: os.truncate(path, 0),
        lambda: path.with_name("mine").write_text(""),
        lambda: path.with_name("mine too").mkdir(),
        lambda: path.rename(path.with_name("moved")),
        path.unlink,
    ):
        with suppress(OSError):
            attempt()


def ran(*command: str) -> None:
    """Run a program that has to end well."""
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)


def through_a_link(workspace: Path, target: Path) -> bytes:
    """Read by a link in the own folder."""
    link = workspace / f"link-to-{target.name}"
    link.symlink_to(target)
    return link.read_bytes()


def wins(data: Path, workspace: Path) -> list[str]:
    """Return which attacks worked."""
    outbox, worker, elsewhere = data / "outbox.db", os.getppid(), data.parent
    other = data / "work" / "run-1" / "other-a1"
    packages = Path(kernel.__file__).parents[1]
    files = {
        "outbox": outbox,
        "token": data / "claim.token",
        "key": elsewhere / ".podfleet" / "access.json",
        "settings": elsewhere / ".env",
        "settings right here": Path(".env"),
        "a key at home": elsewhere / "home" / ".ssh" / "key",
        "another run": other / "secret",
        "another run's temporary file": Path(f"/tmp/podfleet-1-{elsewhere.name}/secret"),
        "shared memory": Path("/dev/shm", f"podfleet-secret-{elsewhere.name}"),
    }
    found = []
    for what, path in files.items():
        found += got(what, path.read_bytes)
        found += got(f"{what}, by a link", lambda path=path: through_a_link(workspace, path))
        spoil(path)
    for what in ("environ", "mem", f"root{outbox}", "cwd/.env"):
        found += got(f"the worker's {what}", lambda what=what: Path(f"/proc/{worker}/{what}").read_bytes())
    for what in ("environ", f"root{outbox}"):
        for each in filter(str.isdigit, os.listdir("/proc")):
            if int(each) != os.getpid():
                found += got(f"{what} of {each}", Path(f"/proc/{each}/{what}").read_bytes)
    return [
        *found,
        *got("names of runs", lambda: "run-1" in os.listdir(data / "work")),
        *got("source", lambda: (packages / "mine.py").write_text("")),
        *got("packages", lambda: Path(tempfile.__file__).with_name("mine.py").write_text("")),
        *got("a program", lambda: ran("/bin/cat", str(outbox))),
        *got("below a cover", lambda: ran("/usr/bin/unshare", "-Urm", *TO_ALL.format(data).split(" ", 2))),
        *(got("abstract socket", lambda: called(elsewhere.name)) if kernel.landlock_abi() >= 6 else []),
        *(got("signal", lambda: os.kill(worker, signal.SIGCONT)) if kernel.landlock_abi() >= 6 else []),
    ]


def called(name: str) -> None:
    """EgressPolicy a program of the worker by a socket that has no file."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(f"\0{name}")


def ran_in_sandbox(workspace: Path) -> str:
    """Run a program of a model; return what held it, with what became of it."""
    sandbox.known_data = lambda _: ()  # looked for on the whole machine, which takes seconds
    folder = workspace / "program"
    folder.mkdir()
    (folder / "program.py").write_text("open('made', 'w').write('by the program')")
    held = sandbox.LocalSandbox(clock=SystemClock(), candidates=(BUBBLEWRAP, replace(LANDLOCK, name="fence")))
    ended = held.run(Job(folder=folder, script="program.py"))
    return f"{held.isolation().name.split()[0]}, {ended.how}, {(folder / 'made').read_text()}"


def run(context: Context) -> None:
    """Attack, then work."""
    workspace = context.workspace
    data = next(each for each in workspace.parents if each.name == "data")
    context.log(f"wins: {wins(data, workspace)}")
    status = Path("/proc/self/status").read_text()
    signs = ("NoNewPrivs:\t1", *(f"{name}:\t{0:016}" for name in ("CapPrm", "CapEff")))
    context.log(f"no way back: {all(sign in status for sign in signs)}")
    with read_beneath(workspace / "restored", SafeName("old")) as old:
        context.log(f"restored: {old.read().decode()}")
    for folder in (tempfile.gettempdir(), os.path.expanduser("~")):
        Path(folder, "mine").write_text("")
    context.log(f"memory: {ctypes.CDLL(None).shmget(MEMORY_KEY, 4096, 0o1600) >= 0}")
    if os.environ.get("PYTHONSANDBOX"):
        context.log("sandbox: " + ran_in_sandbox(workspace))
    (workspace / "made").write_text("whole")
    context.keep(workspace / "made")


if __name__ == "__main__":
    program = fork_server_main if any("--socket" in each for each in sys.argv) else main
    main.leave(program.main(sys.argv[1:], lambda kinds: {"probe": run}))
