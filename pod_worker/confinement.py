"""Gives the process of a run a user of its own, where the worker is root: what is the worker's stays its own.

Law: it counts for what a trial has shown on this machine. Where the trial fails, runs have the worker's user,
and the worker says why. What the user needs below a folder that is closed to others (`/root`) is shown
in a mount namespace, in which nothing else of that folder is left.
"""

from __future__ import annotations

import ctypes
import glob
import grp
import logging
import os
import pwd
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from events.clock import SystemClock
from events.removing import remove_tree
from pod_worker.privileges import become

log = logging.getLogger(__name__)

# Between the people of a machine and the ranges of systemd, and below what the smallest containers have.
FIRST_USER: Final = 50_000
USERS: Final = 10_000
TRIES_MAX: Final = 100
SOURCE: Final = str(Path(__file__).parents[1])
PASS_ONLY: Final = 0o711
OTHERS_PASS: Final = 0o001
OTHERS: Final = 0o007
CLEAR_S: Final = 20.0
CLEAR_PAUSE_S: Final = 0.005
PROBLEM_BYTES_MAX: Final = 4_096
CLONE_NEWNS: Final = 0x20000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 1 << 12, 1 << 14, 1 << 18
GPU_DEVICES: Final = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm")
# Whose user a pipeline has, as a pod tells it.
ITS_OWN: Final = "a user of its own"
THE_WORKERS: Final = "the worker's user"
# Variables whose value names files that a pipeline cannot do without, and those whose files it may want.
NEEDED: Final = (
    "PODFLEET_DATASETS",
    "PODFLEET_PRICES",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
)
WANTED: Final = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_HOME", "HF_HOME")


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a user of its own is made with: the folder of all work, and what else the user must see."""

    work: Path
    places: tuple[str, ...]

    @classmethod
    def of(cls, data: Path, environ: Mapping[str, str]) -> Self:
        """Return the confinement of a worker with this folder and the environment of its pipelines."""
        work = data / "work"
        return cls(work, (str(work), *_places(environ)))

    @property
    def words(self) -> list[str]:
        """Return it as a command line says it."""
        return [f"--work={self.work}", "--places", *self.places]

    def find_gap(self, environ: Mapping[str, str]) -> str | None:
        """Return why no process here can have a user of its own, None where one can.

        Forks, so nobody may have started a thread. Closes the worker's own files to others first.
        """
        if os.getuid() != 0:
            return "the worker is not root"
        try:
            self._close_what_is_ours()
            self._remove_leftovers()
            user = choose_user()
        except OSError as error:
            return f"{error}"
        heard, told = os.pipe()
        pid = os.fork()
        if not pid:
            self._try(told, user, environ)
        os.close(told)
        with os.fdopen(heard, "rb") as trial:
            problem = trial.read(PROBLEM_BYTES_MAX).decode(errors="replace")
        if os.waitpid(pid, 0)[1] == 0:
            return None
        return problem or "the trial of a user of its own was killed"

    def room(self) -> Room:
        """Return a user that nobody has, with its home. Raises `OSError`."""
        room = self.room_of(choose_user())
        for folder in (room.home, room.temporary):
            remove_tree(folder)
            folder.mkdir(mode=0o700)
            os.chown(folder, room.user, room.user)
        return room

    def room_of(self, user: int) -> Room:
        """Return what such a user has, or would have."""
        return Room(user, self.work / f"home-{user}", Path(tempfile.gettempdir()) / f"podfleet-{user}")

    def _close_what_is_ours(self) -> None:
        """Let others pass to the work, and not read the worker's settings."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.work.chmod(PASS_ONLY)
        data = self.work.parent
        data.chmod(data.stat().st_mode & 0o7777 | OTHERS_PASS)
        settings = Path(".env")
        with suppress(FileNotFoundError):
            settings.chmod(settings.stat().st_mode & 0o7777 & ~OTHERS)

    def _remove_leftovers(self) -> None:
        """Remove the folders of users whose worker was killed; one that still runs something keeps them."""
        living = {user for _, user in _processes()}
        for home in self.work.glob("home-*"):
            user = home.name.removeprefix("home-")
            if user.isdecimal() and int(user) not in living:
                self.room_of(int(user)).clear()

    def _try(self, told: int, user: int, environ: Mapping[str, str]) -> None:
        """Be such a process, in a fork that does not return."""
        status = 1
        try:
            worker = os.getppid()
            show(self.places)
            try:
                become(user)
            except OSError as error:  # without CAP_SETUID, or with one user in all
                why = f"the worker may not change users: {error.strerror}; give its container the usual users"
                raise OSError(why) from error
            if problem := _problem(self.work, environ, worker):
                os.write(told, problem.encode())
            else:
                status = 0
        except OSError as error:
            os.write(told, f"{error}".encode()[:PROBLEM_BYTES_MAX])
        finally:
            os._exit(status)


@dataclass(frozen=True, slots=True)
class Room:
    """One user for one process, from its start to its end; its folders are for what belongs to no run."""

    user: int
    home: Path
    temporary: Path  # elsewhere: the name of a socket has 107 characters at most

    @property
    def variables(self) -> dict[str, str]:
        """Return what the environment says of it."""
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "MPLCONFIGDIR": str(self.home / "matplotlib"),
        }

    def own(self, folder: Path) -> None:
        """Give a folder, and all that we put into it, to the user, and to nobody else."""
        for path, folders, files in os.walk(folder):
            for name in (*folders, *files):
                os.chown(os.path.join(path, name), self.user, self.user, follow_symlinks=False)
        folder.chmod(0o700)
        os.chown(folder, self.user, self.user)

    def clear(self) -> None:
        """End every process of the user, also one that left its group, and remove its folders."""
        clock, never = SystemClock(), threading.Event()
        until_s = clock.monotonic_s() + CLEAR_S  # a process in a broken driver goes when that lets it
        while living := [pid for pid, user in _processes() if user == self.user]:
            for pid in living:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if clock.monotonic_s() > until_s:
                log.error("child.remains", extra={"user": self.user, "pids": living})
                break
            clock.wait(never, CLEAR_PAUSE_S)
        for folder in (self.home, self.temporary):
            remove_tree(folder)


def choose_user() -> int:
    """Return the number of a user that nobody has. Raises `OSError` where none is found."""
    for _ in range(TRIES_MAX):
        user = FIRST_USER + secrets.randbelow(USERS)
        if not _is_known(user) and all(user != other for _, other in _processes()):
            return user
    raise OSError(f"no user between {FIRST_USER} and {FIRST_USER + USERS} is free")


def show(places: Sequence[str]) -> None:
    """Let any user reach `places`: each folder on the way that is closed to others gives way to an empty one.

    Changes nothing where none is closed. Raises `OSError` where this process may not do it.
    """
    places = [place for place in places if not _is_closed(Path(place))]  # to show what is closed helps nobody
    closed = _closed(places)
    if not closed:
        return
    told = f"others cannot enter {', '.join(sorted(closed))}, below which lies {closed.popitem()[1][0]}"
    try:
        _call("unshare", CLONE_NEWNS)
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        handles = {place: os.open(place, os.O_PATH | os.O_CLOEXEC) for place in places}
        while closed := _closed(places):  # what is shown may have another closed folder inside
            for folder, below in closed.items():
                _mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
                for place in sorted(below):
                    if not os.path.lexists(place):  # else it lies in one that is shown already
                        _bind(handles[place], place)
        for handle in handles.values():
            os.close(handle)
    except PermissionError as error:
        raise PermissionError(
            f"{told}: keep it elsewhere (--data names the folder of the work), or run chmod o+x on them"
        ) from error


def _bind(handle: int, place: str) -> None:
    target = Path(place)
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(f"/proc/self/fd/{handle}"):
        target.mkdir()
    else:
        target.touch()
    _mount(f"/proc/self/fd/{handle}", place, None, MS_BIND | MS_REC)


def _closed(places: Sequence[str]) -> dict[str, list[str]]:
    """Return the outermost folders that others cannot enter, with those of `places` that lie below each."""
    found: dict[str, list[str]] = {}
    for place in places:
        folder = next((each for each in reversed(Path(place).parents) if _is_closed(each)), None)
        if folder is not None:
            found.setdefault(str(folder), []).append(place)
    return found


def _is_closed(path: Path) -> bool:
    return path.is_dir() and not path.stat().st_mode & OTHERS_PASS


def _problem(work: Path, environ: Mapping[str, str], worker: int) -> str | None:
    """Return what is wrong with this process, which has the user by now."""
    needed = [
        str(Path(sys.executable).resolve()),
        SOURCE,
        sys.prefix,
        sys.base_prefix,
        *_named(environ, NEEDED),
    ]
    for place in needed:
        if not os.access(place, os.R_OK | (os.X_OK if os.path.isdir(place) else 0)):
            return f"others cannot read {place}: run chmod -R o+rX on it"
    for device in (each for pattern in GPU_DEVICES for each in glob.glob(pattern)):
        if not os.access(device, os.R_OK | os.W_OK):
            return f"others cannot use {device}"
    for folder in (work, tempfile.gettempdir()):
        if not os.access(folder, os.X_OK):
            return f"others cannot enter {folder}: run chmod o+x on it"
    try:
        os.kill(worker, 0)
    except PermissionError:
        return None
    return "another user can send signals to the worker"


def _places(environ: Mapping[str, str]) -> list[str]:
    """Return what Python and the pipelines' settings name, each path as it is written and as it resolves."""
    own = (tempfile.gettempdir(), sys.prefix, sys.base_prefix, SOURCE, *sys.path)
    named = [*own, *_named(environ, (*NEEDED, *WANTED))]
    paths = [os.path.abspath(each) for each in named if each]
    return [each for each in dict.fromkeys((*paths, *map(os.path.realpath, paths))) if os.path.exists(each)]


def _named(environ: Mapping[str, str], names: Iterable[str]) -> list[str]:
    values = (environ.get(name, "").split(os.pathsep) for name in names)
    return [each for value in values for each in value if os.path.exists(each)]


def _is_known(user: int) -> bool:
    for find in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            find(user)
            return True
    return False


def _processes() -> list[tuple[int, int]]:
    """Return each living process with its user; what hides belongs to root in /proc, but tells its user."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, KeyError):
            told = dict(line.split(":\t", 1) for line in _lines(f"/proc/{name}/status") if ":\t" in line)
            if not told["State"].startswith(("Z", "X")):
                found.append((int(name), int(told["Uid"].split()[0])))
    return found


def _lines(path: str) -> list[str]:
    return Path(path).read_text(errors="replace").splitlines()


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if each is None else os.fsencode(each) for each in (source, target, kind, options)]
    _call("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
