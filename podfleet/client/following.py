"""Follows a run as it changes: by the live stream, resumed after a cut, or by polling.

Law: a reader gets `Look` first, and again whenever changes may have been missed; then it reads the run.
Nothing is lost, and a reader that remembers what it printed prints nothing twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from events.answers.logs import LoggedEvent
from events.answers.runs import Run, RunRow
from events.runtime.clock import Clock, SystemClock
from podfleet.client import endpoints
from podfleet.client.call import LINE_BYTES_MAX, Call, Lines, Malformed, decoded, refused
from podfleet.client.problems import Unreachable
from podfleet.client.transport import Target

A = TypeVar("A")

POLL_S: Final = 1.0
SILENT_S: Final = 30.0  # the server says where it is every ten
AGAIN_FIRST_S: Final = 0.5
AGAIN_MAX_S: Final = 5.0
PATIENCE_S: Final = 300.0
LOG: Final = "ai.run.log"
ANSWERED: Final = "ai.run.note_answered"
# The server has no such route, or no room on it: what it tells of can be asked for as well.
NO_STREAM: Final = frozenset({404, 405, 503})


@dataclass(frozen=True, slots=True)
class Look:
    """Changes may have been missed: read the run again."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The run as it is now, without the documents beside it."""

    run: RunRow


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the run's log."""

    event: LoggedEvent


News = Look | Changed | Happened


@dataclass(slots=True)
class Message:
    """One server-sent event, built from its lines."""

    name: str = "message"
    data: list[str] = field(default_factory=list)
    id: str | None = None
    size: int = 0  # of the data, in characters

    def take(self, line: str) -> bool:
        """Read a line; True at the empty one that ends the event."""
        if not line:
            return True
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self.name = value
            case "data":
                self.data.append(value)
                self.size += len(value) + 1
                if self.size > LINE_BYTES_MAX:
                    raise Malformed(f"a message of the live stream has more than {LINE_BYTES_MAX} bytes")
            case "id":
                self.id = value
        return False

    def news(self) -> Iterator[News]:
        """Yield the changes of the run in it, or `Look` if it cannot be read."""
        kinds: dict[str, Any] = {"run": (RunRow, Changed), "event": (LoggedEvent, Happened)}
        if self.name not in kinds:
            return
        answer, news = kinds[self.name]
        try:
            yield news(decoded("\n".join(self.data), answer))
        except Malformed:
            yield Look()


def _lines(response: Any) -> Iterator[str]:
    lines = Lines()
    for piece in response.iter_bytes():
        yield from lines.of(piece)


class _Broken(Exception):
    """The stream ended; `why` says how."""

    def __init__(self, why: Unreachable) -> None:
        super().__init__(str(why))
        self.why = why


class _NoStream(Exception):
    """The control plane offers no stream."""


class Asker(Protocol):
    """Sends requests to one control plane."""

    @property
    def target(self) -> Target: ...

    def ask(self, call: Call[A]) -> A: ...

    def sent(
        self, call: Call[Any], headers: Mapping[str, str] | None = None, timeout_s: float | None = None
    ) -> AbstractContextManager[Any]: ...


@dataclass(slots=True)
class Follower:
    """Follows one run until its reader stops."""

    client: Asker
    run_id: str
    clock: Clock = field(default_factory=SystemClock)
    on_silence: Callable[[bool], None] = lambda _: None
    _place: str | None = None
    _never: threading.Event = field(default_factory=threading.Event)
    _heard_s: float = 0.0

    def news(self) -> Iterator[News]:
        """Yield the changes of the run. Raises `Unreachable` after `PATIENCE_S` without an answer."""
        self._heard_s = self.clock.monotonic_s()
        again_s = AGAIN_FIRST_S
        while True:
            heard_s = self._heard_s
            try:
                yield from self._stream()
            except _NoStream:
                yield from self._poll()
            except _Broken as broken:
                self._be_patient(broken.why)
            again_s = AGAIN_FIRST_S if self._heard_s > heard_s else min(2 * again_s, AGAIN_MAX_S)
            self.clock.wait(self._never, again_s)

    def look(self, call: Call[A]) -> A:
        """Return the answer to a separate request; repeat it while the control plane does not answer."""
        again_s = AGAIN_FIRST_S
        while True:
            try:
                answer = self.client.ask(call)
            except Unreachable as error:
                self._be_patient(error)
                self.clock.wait(self._never, again_s)
                again_s = min(2 * again_s, AGAIN_MAX_S)
                continue
            self._hear()
            return answer

    def _stream(self) -> Iterator[News]:
        headers = {} if self._place is None else {"Last-Event-ID": self._place}
        is_resumed = self._place is not None
        try:
            with self.client.sent(endpoints.stream(self.run_id), headers, SILENT_S) as response:
                self._require_stream(response)
                if is_resumed:
                    self._hear()
                message = Message()
                has_looked = is_resumed
                for line in _lines(response):
                    if not message.take(line):
                        continue
                    self._hear()
                    if message.id:
                        self._place = message.id
                    # Its first word says that from now on nothing is missed.
                    if message.name == "reset" or not has_looked:
                        has_looked = True
                        yield Look()
                    yield from message.news()
                    message = Message()
        except Unreachable as error:
            raise _Broken(error) from error
        except Malformed as error:
            raise _Broken(self.client.target.foreign(error)) from error
        raise _Broken(Unreachable(f"{self.client.target.shown} ended the live stream"))

    def _require_stream(self, response: Any) -> None:
        """Raise `_NoStream` or `_Broken` if the answer is no stream, `Refused` without permission."""
        if response.status_code in NO_STREAM:
            raise _NoStream
        if response.status_code >= 500:
            raise _Broken(Unreachable(f"{self.client.target.shown} answers {response.status_code}"))
        if response.is_error:
            try:
                raise refused(response.status_code, self.client.target.whole(response))
            except Malformed as error:
                raise self.client.target.foreign(error) from error
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise _NoStream

    def _poll(self) -> Iterator[News]:
        while True:
            yield Look()
            self.clock.wait(self._never, POLL_S)

    def _hear(self) -> None:
        self._heard_s = self.clock.monotonic_s()
        self.on_silence(False)

    def _be_patient(self, why: Unreachable) -> None:
        if self.clock.monotonic_s() - self._heard_s > PATIENCE_S:
            raise Unreachable(
                f"{why}\nthe run goes on without us: `podfleet runs show {self.run_id}`"
            ) from why
        self.on_silence(True)


@dataclass(slots=True)
class Log:
    """The log of a run as it grows: every event that fits once, in the order of arrival."""

    follower: Follower
    fits: Callable[[LoggedEvent], bool]
    wanted: Mapping[str, Any] = field(default_factory=dict)  # of `endpoints.events`
    _seen: set[str] = field(default_factory=set)
    _floor: str = ""  # what lies before it is as good as known

    def begin(self, last: int | None) -> Iterator[LoggedEvent]:
        """Yield the last `last` events there are (None: all of them)."""
        found: list[LoggedEvent] = []
        for event in self._newest_first():
            self._floor = event.position
            if self._is_new(event) and self.fits(event) and (last is None or len(found) < last):
                found.append(event)
            if last is not None and len(found) >= last and len(self._seen) >= endpoints.PAGE:
                break
        else:
            self._floor = ""
        yield from reversed(found)

    def more(self) -> Iterator[LoggedEvent]:
        """Yield all new events, also those before the newest known one.

        Read from the newest back until a whole page is known: an event may come to light behind a later one.
        """
        found: list[LoggedEvent] = []
        known = 0
        for event in self._newest_first():
            is_new = event.position > self._floor and self._is_new(event)
            known = 0 if is_new else known + 1
            if is_new and self.fits(event):
                found.append(event)
            if known >= endpoints.PAGE or event.position <= self._floor:
                break
        yield from reversed(found)

    def hear(self, event: LoggedEvent) -> Iterator[LoggedEvent]:
        """Yield an event of the stream, unless it is known."""
        if self._is_new(event) and self.fits(event):
            yield event

    def _newest_first(self) -> Iterator[LoggedEvent]:
        after: str | None = None
        while True:
            page = self.follower.look(endpoints.events(self.follower.run_id, after=after, **self.wanted))
            yield from page.items
            after = page.next
            if after is None:
                return

    def _is_new(self, event: LoggedEvent) -> bool:
        identity = f"{event.source} {event.id}"
        if identity in self._seen:
            return False
        self._seen.add(identity)
        return True


def is_over(run: Run) -> bool:
    """Say whether a run has ended and its log is complete."""
    # A decision stands in the journal until the log has it.
    return run.finished_at is not None and not run.log_open and not run.journal
