"""Which processes of a session have not ended, their memory, and who listens at a port of loopback."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
PROC: Final = Path("/proc")
TABLES: Final = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
RESIDENT: Final = ("RssAnon:", "RssShmem:")
PROPORTIONAL: Final = ("Pss_Anon:", "Pss_Shmem:")
LISTENING: Final = "0A"
PAUSE_S: Final = 0.05
GONE: Final = ("Z", "X")  # ended, and not collected yet by whose child it is


def living(session: int) -> list[int]:
    """Return the processes of a session, or of the group that began it, that have not ended."""
    found = []
    for name in filter(str.isdigit, os.listdir(PROC)):
        with suppress(OSError, ValueError, IndexError):
            fields = Path(PROC, name, "stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] not in GONE and session in (int(fields[2]), int(fields[3])):
                found.append(int(name))
    return found


def descendants(ancestor: int) -> dict[int, int]:
    """Return the session of each process below one; of those that have ended, too."""
    above: dict[int, tuple[int, int]] = {}
    for name in filter(str.isdigit, os.listdir(PROC)):
        with suppress(OSError, ValueError, IndexError):
            fields = Path(PROC, name, "stat").read_text(errors="replace").rpartition(")")[2].split()
            above[int(name)] = int(fields[1]), int(fields[3])
    found: dict[int, int] = {}
    front = {ancestor}
    while front:
        front = {pid for pid, (parent, _) in above.items() if parent in front and pid not in found}
        found |= {pid: above[pid][1] for pid in front}
    return found


def memory_bytes(session: int, most: int) -> int:
    """Return the memory of the processes of a session that the kernel cannot take back, without files.

    What several of them share counts once where that decides about `most`.
    """
    pids = living(session)
    found = sum(map(_resident_bytes, pids))
    return found if found <= most else sum(map(_proportional_bytes, pids))


def tells_memory() -> bool:
    """Return whether the kernel says of a process what `memory_bytes` counts."""
    return _field_bytes("self/status", RESIDENT) is not None


def end_session(session: int, within_s: float) -> list[int]:
    """Kill the processes of a session, and those that they start meanwhile; return which have not ended.

    The one that calls is spared.
    """
    never, left = threading.Event(), living(session)
    for _ in range(max(1, round(within_s / PAUSE_S))):
        left = [each for each in living(session) if each != os.getpid()]
        if not left:
            break
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        never.wait(PAUSE_S)
    return left


def free_port() -> int:
    """Return a port of loopback that nobody listens at now."""
    with socket.socket() as tried:
        tried.bind((LOOPBACK, 0))
        port: int = tried.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Return whether nobody listens at a port, by the kernel's own list: to connect could meet a stranger."""
    return not any(_listens(line, port) for table in TABLES for line in _lines(table))


def is_listened_by(session: int, port: int) -> bool:
    """Return whether somebody listens at a port, and all who do are processes of a session."""
    sockets = {
        f"socket:[{line.split()[9]}]" for table in TABLES for line in _lines(table) if _listens(line, port)
    }
    return bool(sockets) and sockets <= {held for pid in living(session) for held in _held(pid)}


def _resident_bytes(pid: int) -> int:
    return _field_bytes(f"{pid}/status", RESIDENT) or 0


def _proportional_bytes(pid: int) -> int:
    """Return the memory of a process, its share of what others have, too; all of that before Linux 5.4."""
    found = _field_bytes(f"{pid}/smaps_rollup", PROPORTIONAL)
    return _resident_bytes(pid) if found is None else found


def _field_bytes(path: str, names: tuple[str, ...]) -> int | None:
    """Return the sum of some fields, in kB, of what the kernel says of a process; None without them."""
    found: list[int] = []
    with suppress(OSError), open(PROC / path, encoding="ascii", errors="replace") as file:
        found = [int(line.split()[1]) * 1024 for line in file if line.startswith(names)]
    return sum(found) if found else None


def _held(pid: int) -> Iterator[str]:
    """Yield what the open files of a process are; nothing of one that has ended, or is another user's."""
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield os.readlink(entry.path)


def _listens(line: str, port: int) -> bool:
    fields = line.split()
    return fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port


def _lines(table: str) -> list[str]:
    """Return the lines below the heading; none where the kernel has no such protocol."""
    with suppress(FileNotFoundError):
        return Path(table).read_text().splitlines()[1:]
    return []
