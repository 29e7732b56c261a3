"""The space of one process of a run: its folders, and a user if the worker can assign one.

Law: after the end of the process none of its folders is left, and no process, file or memory of a user of
its own.
"""

from __future__ import annotations

import ctypes
import grp
import logging
import os
import pwd
import secrets
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.files.tree_removal import remove_tree
from events.runtime.clock import SystemClock
from pod_worker.isolation.leftovers import remove_leftovers

log = logging.getLogger(__name__)

# Between the people of a machine and the ranges of systemd, and below what the smallest containers have.
FIRST_USER: Final = 50_000
USERS: Final = 10_000
TRIES_MAX: Final = 100
CLEAR_S: Final = 20.0
CLEAR_PAUSE_S: Final = 0.005
AT_ONCE_AFTER: Final = 20  # rounds of ending one process after the other
PR_GET_CHILD_SUBREAPER: Final = 37
HELPER_S: Final = 10.0
PIDS_SHOWN: Final = 20
# Ends all processes of a user in one call, as somebody whom they may not end, and who may end nobody else.
AT_ONCE: Final = """
import os, sys
user, helper = map(int, sys.argv[1:])
os.setgroups([])
os.setresgid(helper, helper, helper)
os.setresuid(helper, user, helper)
assert os.getresuid() == (helper, user, helper) and user and helper
assert "CapEff:\\t0000000000000000\\n" in open("/proc/self/status").read()
os.kill(-1, 9)
"""


@dataclass(frozen=True, slots=True)
class ProcessSpace:
    """The folders and the user of one process, from its start to its end; the home is not part of a run."""

    number: int  # of its user, where it has one
    home: Path
    temporary: Path  # elsewhere: the name of a socket has 107 characters at most
    work: Path | None = None  # where its run's folder has to be; None: anywhere, as folders can be given away

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that name its folders."""
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "MPLCONFIGDIR": str(self.home / "matplotlib"),
        }

    def own(self, folder: Path) -> None:
        """Make the process the only owner of a folder with everything in it."""
        if self.work is not None:
            return
        # from below: who owns a folder that is still walked through may put a link in it
        for path, folders, files in os.walk(folder, topdown=False):
            for name in (*folders, *files):
                os.chown(os.path.join(path, name), self.number, self.number, follow_symlinks=False)
        folder.chmod(0o700)
        os.chown(folder, self.number, self.number)

    def clear(self) -> None:
        """Remove its folders except that of its run; first end all processes of its own user."""
        if self.work is None:
            self._end_all()
            remove_leftovers(self.number)
        for folder in (self.home, self.temporary):
            remove_tree(folder)

    def close(self) -> None:
        """Remove the folder of its run, once its files are uploaded or abandoned."""
        if self.work is not None:
            remove_tree(self.work)

    def _end_all(self) -> None:
        """End all processes of the user, also those that left the process group."""
        clock, never = SystemClock(), threading.Event()
        until_s = clock.monotonic_s() + CLEAR_S  # a process in a broken driver goes when that lets it
        rounds = 0
        if _are_orphans_ours() and self._has_only_ended():
            return
        self._end_at_once()  # no list finds for certain who starts the next one and ends, again and again
        while living := [*self._pids()]:
            rounds += 1
            if rounds == AT_ONCE_AFTER:
                self._end_at_once()
            for pid in living:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if clock.monotonic_s() > until_s:
                log.error("child.remains", extra={"user": self.number, "pids": living[:PIDS_SHOWN]})
                break
            clock.wait(never, CLEAR_PAUSE_S)

    def _has_only_ended(self) -> bool:
        """Return whether the process itself is the only one, and has ended; orphans have to be ours.

        Each that ended without a parent waits for us to take its status, so that who starts the next one and
        ends leaves more of them from one look to the next.
        """
        before = self._pids(zombies=True)
        return len(before) <= 1 and not self._pids() and self._pids(zombies=True) == before

    def _pids(self, *, zombies: bool = False) -> set[int]:
        return {pid for pid, user in processes(zombies=zombies) if user == self.number}

    def _end_at_once(self) -> None:
        """End them by one call of the kernel: whoever starts others without end is faster than any list."""
        program = [sys.executable, "-I", "-S", "-c", AT_ONCE]
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*program, str(self.number), str(choose_user())],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=HELPER_S,
                check=False,
            )


def choose_user() -> int:
    """Return the number of an unused user. Raises `OSError` if none is found."""
    for _ in range(TRIES_MAX):
        user = FIRST_USER + secrets.randbelow(USERS)
        if not _is_known(user) and all(user != other for _, other in processes()):
            return user
    raise OSError(f"no user between {FIRST_USER} and {FIRST_USER + USERS} is free")


def _is_known(user: int) -> bool:
    for find in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            find(user)
            return True
    return False


def processes(*, zombies: bool = False) -> list[tuple[int, int]]:
    """Return each living process with its user, from its status: files in /proc may belong to root."""
    over = ("X",) if zombies else ("Z", "X")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, KeyError):
            status = dict(line.split(":\t", 1) for line in _lines(f"/proc/{name}/status") if ":\t" in line)
            if not status["State"].startswith(over):
                found.append((int(name), int(status["Uid"].split()[0])))
    return found


def held_users() -> set[int]:
    """Return the users of processes that stand below another user's, as a pipeline stands below its worker.

    Whoever lost its worker stands below the first process alone.
    """
    above: dict[int, tuple[int, int]] = {}
    for pid, user in processes():
        with suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            above[pid] = user, int(fields[1])
    held = set()
    for user, parent in above.values():
        at = parent
        while at in above and above[at][0] == user:
            at = above[at][1]
        if at > 1 and at in above:
            held.add(user)
    return held


def _are_orphans_ours() -> bool:
    """Say whether processes that lose their parent become children of this one."""
    is_so = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(is_so), 0, 0, 0)
    return bool(is_so.value)


def _lines(path: str) -> list[str]:
    return Path(path).read_text(errors="replace").splitlines()
