"""A process that a worker starts, and what it sees of its worker."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import ctypes, os, sys
from pod_worker.isolation.privileges import drop_capabilities
from events.runtime.hiding import hide
who, parent_hides, child_drops, how = sys.argv[1], sys.argv[2] == "hides", sys.argv[3] == "drops", sys.argv[4]
libc = ctypes.CDLL(None)
if who == "somebody" and os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    libc.prctl(4, 1, 0, 0, 0)
if parent_hides:
    hide()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
libc.prctl(4, 1, 0, 0, 0)  # as after an exec
if child_drops:
    if how == "without CAP_SETPCAP":
        head = (ctypes.c_uint32 * 2)(0x20080522, 0)
        halves = (ctypes.c_uint32 * 6)()
        libc.capget(head, halves)
        for place in (0, 1):
            halves[place] &= ~(1 << 8)
        libc.capset(head, halves)
    drop_capabilities()
if how == "after an exec":
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[5], str(os.getppid())])
exec(sys.argv[5], {"parent": os.getppid()})
"""
SEEN = """
import ctypes, os, sys
parent = globals().get("parent") or int(sys.argv[1])
seen = []
for what in ("environ", "mem"):
    try:
        open(f"/proc/{parent}/{what}", "rb").close()
        seen.append(what)
    except OSError:
        pass
try:
    os.readlink(f"/proc/{parent}/fd/1")
    seen.append("descriptors")
except OSError:
    pass
if ctypes.CDLL(None).ptrace(0x4206, parent, 0, 0) == 0:  # PTRACE_SEIZE
    seen.append("trace")
print(*seen)
"""
IS_ROOT = os.getuid() == 0


def seen(who: str, parent: str, child: str, how: str = "") -> set[str]:
    """Return what a child sees of its parent, as `who`."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, who, parent, child, how, SEEN],
        capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[3], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_process_sees_another_one_of_its_user_that_does_not_hide() -> None:
    assert "environ" in seen("somebody", "open", "keeps")


def test_nobody_of_its_user_sees_one_that_hides() -> None:
    assert seen("somebody", "hides", "keeps") == set()
    assert seen("somebody", "hides", "drops") == set()


@pytest.mark.skipif(not IS_ROOT, reason="only root has capabilities to give up")
@pytest.mark.parametrize("how", ["", "after an exec", "without CAP_SETPCAP"])
def test_a_child_of_root_that_gave_up_its_capabilities_sees_nothing(how: str) -> None:
    assert "environ" in seen("root", "hides", "keeps")
    assert seen("root", "hides", "drops", how) == set()


def test_a_worker_hides_before_it_reads_its_settings() -> None:
    code = """
import ctypes, pod_worker.__main__ as program
def read_settings(*_, **__):
    raise SystemExit(10 + ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
program.read_settings = read_settings
program.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=60, cwd=Path(__file__).parents[3], check=False
    )
    assert done.returncode == 10, "dumpable is 1 for one that does not hide"
    assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 1, "and the test's own process does not"
