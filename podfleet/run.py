"""What a program tells the run that it is part of: metrics, results, progress, files, checkpoints.

    from podfleet import run

    with run.stage("train"):
        for step, batch in enumerate(batches):
            run.log({"loss": train(batch)}, step)
    run.summary({"accuracy": 0.93})

Law: it needs the standard library alone, and does nothing outside of a fleet. A call costs microseconds and
never waits for the fleet: a thread writes what was said into a pipe, in order. What the thread cannot write
in time is dropped and counted. Any process below the program may say something, also one that was forked.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import math
import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, SupportsFloat

PIPE: Final = "PODFLEET_RUN_PIPE"  # a named pipe that the run reads
CHECKPOINTS: Final = "PODFLEET_RUN_CHECKPOINTS"  # a folder for what `checkpoint` copies
RESTORED: Final = "PODFLEET_RUN_RESTORED"  # a folder with what an earlier attempt left
NOTES: Final = "PODFLEET_RUN_NOTES"  # a file, each line a note as JSON

HELD_MAX: Final = 50_000  # calls that wait to be written; newer ones are dropped
LINE_BYTES_MAX: Final = 128 * 1024
WRITE_BYTES: Final = 32 * 1024
GATHER_S: Final = 0.05
LAST_S: Final = 5.0  # at the end of the program, for what was said last

Number = SupportsFloat
Value = str | bool | int | float | None


class Note(NamedTuple):
    """A note that a person wrote to the run: which one, from 1 on, who, and what."""

    number: int
    by: str
    text: str


def is_active() -> bool:
    """Say whether somebody hears what is said."""
    return _writer.is_open()


def log(values: Mapping[str, Number], step: int | None = None) -> None:
    """Report numbers of this step, such as a loss; they become the run's metrics.

    What is not finite is told in the run's log instead. Raises `TypeError` for what is no number.
    """
    if _writer.is_open():
        _writer.say(
            {"do": "log", "values": {str(name): _number(each) for name, each in values.items()}}, step
        )


def summary(values: Mapping[str, Value]) -> None:
    """Set headline numbers and texts of the run; a name that is said again has its newer value."""
    _writer.say({"do": "summary", "values": dict(values)})


def result(
    set: str, key: str, values: Mapping[str, Value], status: str | None = None, detail: str | None = None
) -> None:
    """Record a row of a table of the run; the same key again replaces it. `detail` names a saved file."""
    _writer.say(
        {"do": "result", "set": set, "key": key, "values": dict(values), "status": status, "detail": detail}
    )


def progress(fraction: float, activity: str = "") -> None:
    """Report how far the present stage is, from 0 to 1, and what it does."""
    _writer.say({"do": "progress", "fraction": _number(fraction), "activity": activity})


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name the part of the program that runs within the block; blocks do not nest."""
    _writer.say({"do": "stage", "name": name})
    yield
    _writer.say({"do": "stage", "name": None})


def save(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Hand over a finished file, which is not written to any more; it is kept with the run as `name`."""
    _writer.say({"do": "save", "path": os.path.abspath(path), "name": name or os.path.basename(path)})


def checkpoint(path: str | os.PathLike[str]) -> None:
    """Keep a copy of a file or a folder, from which a later attempt goes on; it replaces the last one.

    Returns once it is copied: the program may write to the path again.
    """
    folder = os.environ.get(CHECKPOINTS)
    if folder is None or not _writer.is_open():
        return
    source, made = Path(path), Path(folder, f"{time.time_ns()}.{os.getpid()}")
    if source.is_dir():
        shutil.copytree(source, made / source.name)
    else:
        made.mkdir()
        shutil.copyfile(source, made / source.name)
    _writer.say({"do": "checkpoint", "path": str(made)})


def restored() -> Path | None:
    """Return the copy that an earlier attempt kept, a file or folder with the name it had; None without."""
    folder = os.environ.get(RESTORED)
    found = sorted(Path(folder).iterdir()) if folder and os.path.isdir(folder) else []
    return found[0] if found else None


def notes() -> list[Note]:
    """Return what people have written to the run so far, the oldest first."""
    found: list[Note] = []
    with suppress(KeyError, OSError):
        for line in Path(os.environ[NOTES]).read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, TypeError):
                found.append(Note(**json.loads(line)))
    return found


def flush(within_s: float = LAST_S) -> bool:
    """Wait until what was said is written; False where that takes longer."""
    return _writer.flush(within_s)


def _number(value: Number) -> float | int | str:
    number = value if type(value) in (int, float) else float(value)
    return number if math.isfinite(number) else str(number)  # type: ignore[return-value] # int or float


class _PipeWriter:
    """The queue of this process, and the thread that empties it into the pipe."""

    def __init__(self) -> None:
        self._path = os.environ.get(PIPE)
        self._pipe: int | None = None
        self._held: deque[dict[str, Any]] = deque()
        self._dropped = 0
        self._came = threading.Event()
        self._idle = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._idle.set()
        os.register_at_fork(after_in_child=self._forked)

    def is_open(self) -> bool:
        return self._path is not None

    def say(self, message: dict[str, Any], step: int | None = None) -> None:
        if self._path is None:
            return
        if step is not None:
            message["step"] = int(step)
        if len(self._held) >= HELD_MAX:
            self._dropped += 1
            return
        self._held.append(message)  # before the looks at the events, whose changes cost more than these
        if self._idle.is_set():
            self._idle.clear()
        if self._thread is None:
            self._begin()
        if not self._came.is_set():
            self._came.set()

    def flush(self, within_s: float) -> bool:
        return self._path is None or self._idle.wait(within_s)

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and self._path is not None:
                self._thread = threading.Thread(target=self._write_all, name="podfleet-run", daemon=True)
                self._thread.start()
                atexit.register(self.flush, LAST_S)

    def _write_all(self) -> None:
        try:
            self._pipe = os.open(str(self._path), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.set_blocking(self._pipe, True)
            while True:
                self._came.wait()
                self._came.clear()
                while self._held:
                    self._write()
                self._idle.set()
                if self._held:
                    self._idle.clear()
                time.sleep(GATHER_S)
        except OSError:  # nobody reads: the run is over
            self._path = None
            self._held.clear()
            self._idle.set()

    def _write(self) -> None:
        """Write what waits, up to some kilobytes: whole lines, which no other process's lines interrupt."""
        lines, size = [], 0
        while self._held and size < WRITE_BYTES:
            line = _line(self._held.popleft())
            lines.append(line)
            size += len(line)
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(_line({"do": "dropped", "count": dropped}))
        assert self._pipe is not None
        data = memoryview(b"".join(lines))
        fcntl.flock(self._pipe, fcntl.LOCK_EX)
        try:
            while data:
                data = data[os.write(self._pipe, data) :]
        finally:
            fcntl.flock(self._pipe, fcntl.LOCK_UN)

    def _forked(self) -> None:
        """Begin anew in a forked process: the thread, and what waits, is its parent's."""
        self._held = deque()
        self._thread, self._pipe, self._dropped = None, None, 0
        self._came, self._idle, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._idle.set()


def _line(message: dict[str, Any]) -> bytes:
    try:
        line = _encode(message).encode() + b"\n"
    except (TypeError, ValueError) as error:
        line = json.dumps({"do": "wrong", "why": f"{message.get('do')}: {error}"[:500]}).encode() + b"\n"
    if len(line) > LINE_BYTES_MAX:
        why = f"{message.get('do')}: {len(line):,} bytes, and {LINE_BYTES_MAX:,} are allowed"
        return _line({"do": "wrong", "why": why})
    return line


def _plain(value: object) -> object:
    """Return what JSON can say of a number of another library."""
    return _number(value)  # type: ignore[arg-type] # what is no number raises


_encode: Final = json.JSONEncoder(allow_nan=False, default=_plain, separators=(",", ":")).encode
_writer: Final = _PipeWriter()


if __name__ == "__main__":
    sys.exit(
        "podfleet.run is for programs: `from podfleet import run`; `podfleet run -- COMMAND` submits one"
    )
