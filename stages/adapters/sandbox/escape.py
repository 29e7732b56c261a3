"""The program that tries to get out of a sandbox: executed inside each, before any hostile program.

Law: a successful escape is harmless: it aims at decoys of the prober, which the prober checks from outside.
Standard library only; it reads its tasks from its folder.
"""

from __future__ import annotations

import ctypes
import glob
import importlib
import importlib.util
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

QUESTIONS: Final = "questions.json"
ANSWERS: Final = "answers.json"
SECONDS: Final = 1.0
NEW_USER: Final = 0x10000000
NO_NEW_PRIVILEGES: Final = 39
PIDFD_OPEN, PIDFD_SEND_SIGNAL = 434, 424
VSOCK: Final = 40
KERNEL_SETTINGS: Final = (
    *("/proc/sys/kernel/*", "/proc/sys/vm/*", "/proc/irq/*/smp_affinity", "/proc/bus/pci/*/*"),
    *("/proc/sysrq-trigger", "/sys/power/*", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/tasks"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The decoys: none of them is worth anything, each stands for something that is."""

    secret: str  # in the environment of the watch, and in the canary
    canary: str  # a file outside; `given` is one that may be read
    given: str
    plant: tuple[str, ...]  # files to be made
    watch: int
    tcp_port: int  # listeners on loopback
    udp_port: int
    socket_file: str
    abstract: str
    masked: tuple[str, ...]  # folders and files of known data
    modules: tuple[str, ...]

    def encode(self) -> str:
        """Return the questions as text."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Questions:
        """Return the questions of such a text."""
        fields = json.loads(text)
        return cls(**{**fields, **{name: tuple(fields[name]) for name in ("plant", "masked", "modules")}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The results that only the inside can report."""

    worked: dict[str, bool]
    missing: dict[str, str]  # what cannot be imported or read although it must, and why

    def encode(self) -> str:
        """Return the answers as text."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Answers:
        """Return the answers of such a text."""
        return cls(**json.loads(text))


def _environment(questions: Questions) -> bool:
    places = [
        *glob.glob("/proc/*/environ"),
        f"/proc/{questions.watch}/environ",
        f"/proc/{os.getppid()}/environ",
    ]
    return any(_holds(place, questions.secret) for place in places if place != f"/proc/{os.getpid()}/environ")


def _outside(questions: Questions) -> bool:
    roots = ("", *glob.glob("/proc/*/root"), f"/proc/{questions.watch}/root", f"/proc/{os.getppid()}/root")
    return any(_holds(root + questions.canary, questions.secret) for root in roots)


def _holds(path: str, secret: str) -> bool:
    with suppress(OSError):
        return secret.encode() in Path(path).read_bytes()
    return False


def _listing(questions: Questions) -> bool:
    return Path(questions.canary).name in os.listdir(Path(questions.canary).parent)


def _known(questions: Questions) -> bool:
    return any(_reads(path) or any(map(_reads, _files_in(path))) for path in questions.masked)


def _files_in(folder: str) -> list[str]:
    return [os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names]


def _reads(path: str) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return bool(file.read(1))
    return False


def _kernel(_: Questions) -> bool:
    for path in [path for pattern in KERNEL_SETTINGS for path in glob.glob(pattern)]:
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            return True
    return False


def _namespaces(_: Questions) -> bool:
    pid = os.fork()  # what works changes only a child
    if pid == 0:
        os._exit(ctypes.CDLL(None).unshare(NEW_USER) == 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def _privileges(_: Questions) -> bool:
    with suppress(OSError):
        os.setgroups([])
        return True
    return bool(ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 0, 0, 0, 0) != 1)


def _vsock(_: Questions) -> bool:
    socket.socket(VSOCK, socket.SOCK_STREAM).close()
    return True


# What these do is seen from outside.


def _plant(questions: Questions) -> None:
    for path in questions.plant:
        with suppress(OSError):
            Path(path).write_text("planted")


def _change(path: str) -> None:
    target = Path(path)
    for attempt in (
        lambda: target.write_text("changed"),
        lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
        lambda: os.truncate(path, 0),
        lambda: target.chmod(0o640),
        lambda: os.utime(path, (1, 1)),
        lambda: target.rename(f"{path}.moved"),
        lambda: target.unlink(),
    ):
        with suppress(OSError):
            attempt()


def _call_out(questions: Questions) -> None:
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", questions.tcp_port)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", questions.udp_port)),
        (socket.AF_UNIX, socket.SOCK_STREAM, questions.socket_file),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{questions.abstract}"),
    ):
        with suppress(OSError), socket.socket(family, kind) as caller:
            caller.settimeout(SECONDS)
            caller.connect(address)
            caller.send(b"out")
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):  # the second are datagrams by another name
        with suppress(OSError):
            pair, _ = socket.socketpair(socket.AF_UNIX, kind)
            pair.sendto(b"out", questions.socket_file + ".datagrams")


def _signal(questions: Questions) -> None:
    """Send what every program ignores that did not ask for it."""
    for target in (questions.watch, os.getppid(), 0):
        with suppress(OSError):
            os.kill(target, signal.SIGURG)
    call = ctypes.CDLL(None).syscall
    if (handle := call(PIDFD_OPEN, os.getppid(), 0)) >= 0:
        call(PIDFD_SEND_SIGNAL, handle, int(signal.SIGURG), None, 0)


SEEN_INSIDE: Final[dict[str, Callable[[Questions], bool]]] = {
    "environment": _environment,
    "outside": _outside,
    "listing": _listing,
    "known": _known,
    "vsock": _vsock,
    "kernel": _kernel,
    "namespaces": _namespaces,
    "privileges": _privileges,
}


def _worked(attempt: Callable[[Questions], bool], questions: Questions) -> bool:
    try:
        return attempt(questions)
    except OSError:  # refused
        return False


# Loading libraries is what fails in a sandbox; the rest of a long import is Python, the same anywhere.
LIBRARIES: Final = {"torch": "lib/libtorch_python.so"}


def _load(module: str) -> None:
    """Load what a module is made of: its libraries, where that is known to be enough, else all of it."""
    found = importlib.util.find_spec(module)
    if module in LIBRARIES and found is not None and found.origin is not None:
        with suppress(OSError):  # its own code may know how to load them
            ctypes.CDLL(str(Path(found.origin).parent / LIBRARIES[module]))
            return
    importlib.import_module(module)


def _missing(questions: Questions) -> dict[str, str]:
    """Return what ordinary work needs and does not get."""
    missing = {}
    try:
        Path(questions.given).read_bytes()
    except OSError as error:
        missing["what it is given"] = str(error)
    for name in questions.modules:
        try:
            _load(name)
        except (ImportError, OSError) as error:
            missing[name] = str(error)
    return missing


def main() -> None:
    """See whether ordinary work is possible, then try everything."""
    questions = Questions.decode(Path(QUESTIONS).read_text())
    worked = {name: _worked(attempt, questions) for name, attempt in SEEN_INSIDE.items()}
    missing = _missing(questions)
    _signal(questions)
    _call_out(questions)
    _plant(questions)
    _change(questions.given)
    _change(questions.canary)
    Path(ANSWERS).write_text(Answers(worked=worked, missing=missing).encode())


if __name__ == "__main__":
    main()
