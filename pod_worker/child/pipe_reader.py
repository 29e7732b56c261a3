"""Reads a child's pipes: frames, and the lines that it prints.

Law: lines that were printed before a frame are passed on before that frame, and nothing that was written
before the child's end is left unread. Secrets of the child are masked, because error messages of libraries
quote keys, and tracebacks quote those messages.
"""

from __future__ import annotations

import codecs
import os
import selectors
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from events.catalog import ENDS, Level, RunLog, data_of, type_of
from events.delivery.pipe import LINE_MAX_BYTES, BrokenFrame, FactFrame, FromChild, Shown, decode_child
from events.text.mask import Mask
from events.text.secret_names import MASKED_CHARS_MIN

READ_BYTES: Final = 64 * 1024
REST_MAX_BYTES: Final = 1024 * 1024  # the largest pipe that Linux lets a user make
LOG_LINE_MAX: Final = 8_000  # characters; a longer line is told in pieces
HELD_CHARS_MAX: Final = 2_000  # of a live text, until it is known whether they are a secret's
RENEWED_MAX: Final = 16  # values that are masked behind their end, since an error may quote one late
LAST_LINES_MAX: Final = 40
WHY_CHARS_MAX: Final = 300
# Each turn is a transaction of the outbox, which costs a processor almost a millisecond, and wakes a thread,
# for which the writer pays. What is said one by one, a hundred times a second, shares turns.
REST_S: Final = 0.05
FEW_BYTES: Final = 16 * 1024  # a quarter of a pipe: who goes on writing more shall not wait for room

Tell = Callable[[FromChild], None]


class PipeReader:
    """Tells, in the thread that calls `listen`, everything that comes through three pipes.

    The pipes' ends are non-blocking and belong to this object until `close`.
    """

    def __init__(
        self, *, events: int, stdout: int, stderr: int, death: int, secrets: Iterable[str] = ()
    ) -> None:
        self._secrets = tuple(secrets)
        self._renewed: deque[str] = deque(maxlen=RENEWED_MAX)
        self._mask = Mask(self._secrets)
        self._events = events
        self._death = death
        self._printed: dict[int, tuple[Level, LineCutter]] = {
            stdout: ("info", LineCutter()),
            stderr: ("warning", LineCutter()),
        }
        self._stderr = stderr
        self._frames = FrameCutter()
        self._begun = Shown(lap=1, offset=0)  # the end of a live text that may be the beginning of a secret
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES_MAX)
        self._selector = selectors.DefaultSelector()
        for fd in (events, stdout, stderr, death):
            self._selector.register(fd, selectors.EVENT_READ)
        self._dying = selectors.DefaultSelector()
        self._dying.register(death, selectors.EVENT_READ)

    @property
    def last_words(self) -> str:
        """The last lines on standard error."""
        return "\n".join(self._last_lines)

    def hide(self, values: Iterable[str]) -> None:
        """Mask these values too, each line of theirs by itself, except those that are short as words.

        Called before the child has them.
        """
        if hidden := _parts_of(values):
            self._secrets += hidden
            self._mask_all()

    def hide_renewed(self, values: Iterable[str]) -> None:
        """Mask these values too, which take the place of earlier ones; of those, the last few stay masked."""
        if hidden := _parts_of(values):
            self._renewed.extend(hidden)
            self._mask_all()

    def listen(self, tell: Tell) -> None:
        """Tell what comes until `death` is closed at its other end, and then what is left.

        After a few words it rests for a moment: not after what somebody waits for, not while the child dies.
        """
        while self._death not in (ready := {key.fd for key, _ in self._selector.select()}):
            chunk = self._take(self._events) if self._events in ready else b""
            printed = {fd: self._take(fd) for fd in self._printed}  # after the frames: all that precedes them
            for fd, lines in printed.items():
                self._tell_printed(tell, fd, lines)
            frames = self._frames_in(chunk)
            for frame in frames:
                tell(frame)
            if all(map(is_patient, frames)) and len(chunk) + sum(map(len, printed.values())) < FEW_BYTES:
                self._dying.select(REST_S)
        self._tell_rest(tell)

    def close(self) -> None:
        """Close the pipes; a writer that still runs gets a broken pipe."""
        self._selector.close()
        self._dying.close()
        for fd in (self._events, *self._printed, self._death):
            os.close(fd)

    def _tell_rest(self, tell: Tell) -> None:
        """Read what is left in the pipes after every process of the child has ended."""
        for fd, (level, cutter) in self._printed.items():
            for chunk in self._rest_of(fd):
                self._tell_printed(tell, fd, chunk)
            self._tell_lines(tell, level, [self._mask.text(line) for line in cutter.flush()])
        for chunk in self._rest_of(self._events):
            for frame in self._frames_in(chunk):
                tell(frame)
        if self._frames.is_inside:
            tell(log_frame("the pipeline's process ended in the middle of a frame", "warning"))

    def _mask_all(self) -> None:
        hidden = (*self._secrets, *self._renewed)
        mask = Mask(hidden)
        for _, cutter in self._printed.values():
            cutter.hide(mask.known, max(map(len, hidden)))
        self._mask = mask

    def _rest_of(self, fd: int) -> Iterator[bytes]:
        taken_bytes = 0
        # The bound is for a daemon that escaped and prints for ever.
        while taken_bytes < REST_MAX_BYTES and (chunk := self._take(fd)):
            taken_bytes += len(chunk)
            yield chunk

    def _take(self, fd: int) -> bytes:
        """Return what is there now, possibly nothing."""
        if fd not in self._selector.get_map():
            return b""
        try:
            chunk = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return b""
        if not chunk:  # all writers are gone; select would report this for ever
            self._selector.unregister(fd)
        return chunk

    def _frames_in(self, chunk: bytes) -> list[FromChild]:
        return [self._frame(line) for line in self._frames.feed(chunk)]

    def _frame(self, line: bytes | None) -> FromChild:
        if line is None:
            return log_frame(f"a frame of more than {LINE_MAX_BYTES} bytes was dropped", "warning")
        try:
            return self._without_secrets(decode_child(line))
        except (BrokenFrame, RecursionError) as error:
            why = self._mask.known(str(error)[:WHY_CHARS_MAX])
            return log_frame(f"a frame could not be read and was dropped: {why}", "warning")

    def _tell_printed(self, tell: Tell, fd: int, chunk: bytes) -> None:
        level, cutter = self._printed[fd]
        lines = [self._mask.text(line) for line in cutter.feed(chunk)]
        if fd == self._stderr:
            self._last_lines.extend(lines)
        self._tell_lines(tell, level, lines)

    def _without_secrets(self, frame: FromChild) -> FromChild:
        match frame:
            case FactFrame(type=name, data=data):
                return FactFrame(name, self._masked(data))
            case Shown():
                return self._shown(frame)
            case _:
                return frame

    def _shown(self, frame: Shown) -> Shown:
        """Return a piece of a live text with stars for what is secret, which may be cut by its pieces.

        What may be the beginning of a secret goes out with the next piece, or never. The length stays: a
        place in the text is a number of characters.
        """
        lap, offset, text, begun = frame.lap, frame.offset, frame.text, self._begun
        if (lap, offset) == (begun.lap, begun.offset + len(begun.text)):
            offset, text = begun.offset, begun.text + text
        text = self._mask.stars(text)
        held = self._mask.begun(text)
        if held > HELD_CHARS_MAX:  # so much of a secret is one
            text, held = text[:-held] + "*" * held, 0
        end = len(text) - held
        self._begun = Shown(lap=lap, offset=offset + end, text=text[end:])
        return Shown(lap=lap, offset=offset, text=text[:end], values=frame.values)

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return self._mask.known(value)
            case dict():
                return {name: self._masked(each) for name, each in value.items()}
            case list():
                return [self._masked(each) for each in value]
            case _:
                return value

    def _tell_lines(self, tell: Tell, level: Level, lines: list[str]) -> None:
        for line in lines:
            tell(log_frame(line, level))


def _parts_of(values: Iterable[str]) -> tuple[str, ...]:
    """Return what is masked of values: each line by itself, except those that are short as words."""
    parts = {part for value in values for part in (value, *value.splitlines())}
    return tuple(each for each in parts if len(each) >= MASKED_CHARS_MIN)


def is_patient(frame: FromChild) -> bool:
    """Say whether a frame may wait: a fact that is not the end event."""
    return isinstance(frame, FactFrame) and frame.type not in ENDS


def log_frame(message: str, level: Level) -> FactFrame:
    """Return one line of the run's log as if the child had said it."""
    return FactFrame(type_of(RunLog), data_of(RunLog(message=message, level=level)))


class FrameCutter:
    """Cuts a stream of bytes into lines of at most `LINE_MAX_BYTES`."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_too_long = False

    @property
    def is_inside(self) -> bool:
        """Whether the stream stands in the middle of a line."""
        return self._is_too_long or bool(self._rest)

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yield each line that `chunk` completes; None for one that was too long to keep."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = bytes(self._rest) + end
            is_too_long = self._is_too_long or len(line) >= LINE_MAX_BYTES
            self._rest.clear()
            self._is_too_long = False
            yield None if is_too_long else line
        self._rest += rest
        if len(self._rest) >= LINE_MAX_BYTES:
            self._rest.clear()
            self._is_too_long = True


class LineCutter:
    """Cuts what a program prints into lines for people.

    Undecodable bytes are replaced, empty lines left out, lines of more than `LOG_LINE_MAX`
    characters told in pieces. As on a terminal, text before a carriage return was written
    over: of a progress bar only its last state is told. What is hidden is hidden before a line is cut.
    """

    def __init__(self) -> None:
        self._hidden: Callable[[str], str] = str
        self._kept = 1  # characters of an unfinished line that may be the beginning of what is hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def hide(self, hidden: Callable[[str], str], longest: int) -> None:
        """Hide something in each line from now on: texts of `longest` characters at most."""
        self._hidden, self._kept = hidden, max(1, longest)

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that `chunk` completes."""
        *whole, rest = (self._rest + self._decoder.decode(chunk)).split("\n")
        lines = [piece for line in whole for piece in _pieces(self._hidden(_visible(line)))]
        if len(rest) >= LOG_LINE_MAX + self._kept:
            rest = self._hidden(_visible(rest))
            end = max(0, len(rest) - self._kept) // LOG_LINE_MAX * LOG_LINE_MAX
            lines += _pieces(rest[:end])
            rest = rest[end:]
        self._rest = rest
        return lines

    def flush(self) -> list[str]:
        """Return the last line, which has no line end."""
        rest, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        return _pieces(self._hidden(_visible(rest)))


def _visible(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def _pieces(line: str) -> list[str]:
    if not line.strip():
        return []
    return [line[start : start + LOG_LINE_MAX] for start in range(0, len(line), LOG_LINE_MAX)]
