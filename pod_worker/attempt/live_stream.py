"""Sends what an attempt shows to the control plane, while it shows it: one request with a body that goes on.

Law: it costs the attempt nothing. It takes pieces without waiting, and drops the oldest where nobody takes
them. A control plane that is away, slow or says no is the matter of a thread of its own, which ends soon
after the attempt. Nothing of it is stored on the pod.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import httpx
import msgspec

from events.answers.worker.live_text import LivePiece, LiveTaken
from events.delivery.control_plane_client import Answer, ControlPlane, bearer
from events.delivery.pipe import Shown
from events.queue.claims import Claim
from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock
from events.runtime.errors import Barred, LeaseLost, Transient
from events.runtime.loops import Threads

log = logging.getLogger(__name__)

HELD_MAX: Final = 500  # pieces that wait for the control plane; older ones are dropped
HELD_CHARS_MAX: Final = 64 * 1024
# A request ends before the control plane's limits on any body: 30 s and 2 MiB.
REQUEST_S: Final = 20.0
FIRST_S: Final = 2.0  # the first one, and one after a failure: an answer that says no is read at its end
REQUEST_BYTES_MAX: Final = 1 << 20
STEP_S: Final = 5.0  # for each write, and for the answer
SILENCE_S: Final = 5.0  # then an empty line, so that whoever is gone is noticed
BACK_OFF_FIRST_S: Final = 0.5
BACK_OFF_MAX_S: Final = 10.0
LAST_S: Final = 2.0  # after the attempt, for what it showed last


class LivePort(Protocol):
    """Where live text goes."""

    def post(self, claim: Claim, lines: Iterable[bytes]) -> None:
        """Send the lines as they come, until there are no more.

        Raises `Transient` where that may work later, `Barred` or `LeaseLost` where it will not.
        """
        ...


@dataclass(frozen=True, slots=True)
class HttpLive:
    """Sends to the control plane."""

    control_plane: ControlPlane

    def post(self, claim: Claim, lines: Iterable[bytes]) -> None:
        """Send one request, whose body is these lines."""
        headers = {"Content-Type": "application/x-ndjson", **bearer(claim.run_token)}
        answer = self.control_plane.send(
            "POST", f"/api/runs/{claim.run_id}/live", content=lines, headers=headers,
            timeout_s=REQUEST_S + 2 * STEP_S, step_s=STEP_S,
        )  # fmt: skip
        if httpx.codes.is_client_error(answer.status) and answer.status not in _LATER:
            raise LeaseLost(claim.attempt_id) if answer.status == httpx.codes.CONFLICT else _barred(answer)
        answer.read(LiveTaken)


_LATER: Final = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)


def _barred(answer: Answer) -> Barred:
    return Barred("live_text_refused", answer.error().message)


@dataclass(slots=True)
class LiveStream:
    """The live text of one attempt; what never shows anything never starts a thread."""

    port: LivePort | None
    claim: Claim
    clock: Clock
    threads: Threads
    _pieces: deque[Shown] = field(default_factory=deque)
    _chars: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _came: threading.Event = field(default_factory=threading.Event)
    _stopped_s: float | None = None
    _has_begun: bool = False
    _is_over: bool = False
    _request_s: float = FIRST_S

    def put(self, piece: Shown) -> None:
        """Take a piece; returns at once."""
        if self.port is None or self._is_over or self._stopped_s is not None:
            return
        with self._lock:
            self._pieces.append(piece)
            self._chars += len(piece.text)
            while len(self._pieces) > HELD_MAX or self._chars > HELD_CHARS_MAX:
                self._chars -= len(self._pieces.popleft().text)
        self._came.set()
        if not self._has_begun:
            self._has_begun = True
            self.threads(f"live-{self.claim.run_id}", self.run)

    def stop(self) -> None:
        """Send what is left, for a moment, and end; returns at once."""
        if self._stopped_s is None:
            self._stopped_s = self.clock.monotonic_s()
            self._came.set()

    def run(self) -> None:
        """Send until the attempt is over, or nobody takes it any more."""
        failures = 0
        while not self._ends():
            begun_s = self.clock.monotonic_s()
            try:
                assert self.port is not None, "a piece was taken"
                self.port.post(self.claim, self._lines())
            except (Barred, LeaseLost) as error:
                log.info("live.refused", extra={"run": self.claim.run_id, "why": error.message})
                break
            except Transient as error:
                took_s = self.clock.monotonic_s() - begun_s
                failures = 1 if took_s > BACK_OFF_MAX_S else failures + 1
                log.info("live.retried", extra={"run": self.claim.run_id, "why": error.message})
                self._request_s = FIRST_S
                self._rest(back_off_s(failures, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S))
            else:
                failures, self._request_s = 0, REQUEST_S
        self._is_over = True
        with self._lock:
            self._pieces.clear()

    def _rest(self, seconds: float) -> None:
        """Wait; pieces that come meanwhile do not shorten it, the end of the attempt does."""
        until_s = self.clock.monotonic_s() + seconds
        while self._stopped_s is None and (left_s := until_s - self.clock.monotonic_s()) > 0:
            self._came.clear()
            self.clock.wait(self._came, min(left_s, 1.0))

    def _ends(self) -> bool:
        if self._stopped_s is None:
            return False
        return not self._pieces or self.clock.monotonic_s() - self._stopped_s > LAST_S

    def _lines(self) -> Iterator[bytes]:
        """Yield what there is to send, each time all of it, until the request is long enough."""
        until_s, left_bytes = self.clock.monotonic_s() + self._request_s, REQUEST_BYTES_MAX
        while left_bytes > 0 and not self._ends():
            pieces = self._take()
            if not pieces and self._stopped_s is not None:
                return
            chunk = b"".join(_line(each) for each in pieces)
            if chunk:
                left_bytes -= len(chunk)
                yield chunk
            left_s = until_s - self.clock.monotonic_s()
            if left_s <= 0:
                return
            if not self.clock.wait(self._came, min(left_s, SILENCE_S)):
                yield b"\n"

    def _take(self) -> list[Shown]:
        with self._lock:
            self._came.clear()
            pieces, self._chars = list(self._pieces), 0
            self._pieces.clear()
        return pieces


def _line(shown: Shown) -> bytes:
    piece = LivePiece(lap=shown.lap, offset=shown.offset, text=shown.text, values=shown.values)
    return msgspec.json.encode(piece) + b"\n"
