"""Sends a request to the control plane: the answer is read within bounds, a failure raises an error.

Law: an answer that is truncated, late, too long or of another shape has no effect. It raises `Transient`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import httpx
import msgspec

from events.queue.claims import Claim
from events.runtime.clock import Clock
from events.runtime.errors import Barred, LeaseLost, Transient

CALL_S: Final = 30.0
RETRY_AFTER_MAX_S: Final = 300.0
# The longest: checkpoints of twenty runs, a thousand files each, with their URLs.
ANSWER_BYTES_MAX: Final = 32 << 20
SHOWN_CHARS_MAX: Final = 300
BARRED_STATUSES: Final = frozenset({401, 403})

T = TypeVar("T")


def control_plane_client(url: str, api_key: str | None) -> httpx.Client:
    """Return a client of the control plane that sends the key; give each base URL one of its own."""
    return httpx.Client(base_url=url, headers=bearer(api_key) if api_key else {}, timeout=CALL_S)


def bearer(key: str) -> dict[str, str]:
    """Return the headers that authenticate a request with a key."""
    return {"Authorization": f"Bearer {key}"}


class _Problem(msgspec.Struct, frozen=True):
    detail: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer of the control plane."""

    status: int
    body: bytes = b""
    retry_after_s: float | None = None

    def read(self, what: type[T], claim: Claim | None = None) -> T:
        """Return the body as `what`.

        Raises `LeaseLost` where it is a conflict about this claim, `Barred`, or `Transient`.
        """
        if self.status == httpx.codes.CONFLICT and claim is not None:
            raise LeaseLost(claim.attempt_id)
        if not 200 <= self.status < 300:
            raise self.error()
        try:
            return msgspec.json.decode(self.body, type=what)
        except msgspec.MsgspecError as error:
            raise odd(str(error)) from error

    def error(self) -> Transient:
        """Return what an answer means that is no success: `Barred` where the key or token opens nothing."""
        message = f"the control plane answers {self.status}: {self.shown()}"
        if self.status in BARRED_STATUSES:
            return Barred("control_plane_barred", message)
        return Transient("control_plane_refuses", message, retry_after_s=self.retry_after_s)

    def shown(self) -> str:
        """Return the beginning of what it says for people, if only by a proxy's word."""
        try:
            text = msgspec.json.decode(self.body, type=_Problem).detail
        except msgspec.MsgspecError:
            text = self.body.decode(errors="replace")
        return text[:SHOWN_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The control plane at the base URL of a client."""

    client: httpx.Client
    clock: Clock

    def send(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float = CALL_S,
        step_s: float | None = None,
        **request: Any,
    ) -> Answer:
        """Send what httpx takes as a request; the time limit holds for each read, and for the whole body.

        `step_s` is the limit of each read and write where the request itself takes its time. Raises
        `Transient` where there is no whole answer.
        """
        deadline_s = self.clock.monotonic_s() + timeout_s
        try:
            with self.client.stream(method, path, timeout=step_s or timeout_s, **request) as response:
                body = self._body(response, deadline_s)
        except httpx.HTTPError as error:
            message = f"no answer from {address_of(self.client.base_url)}: {type(error).__name__}: {error}"
            raise Transient("control_plane_unreachable", message) from error
        asked_s = retry_after_s(response.headers.get("Retry-After"), self.clock.now())
        return Answer(response.status_code, body, asked_s)

    def _body(self, response: httpx.Response, deadline_s: float) -> bytes:
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > ANSWER_BYTES_MAX or self.clock.monotonic_s() > deadline_s:
                raise odd("it is endless")
        return bytes(body)


def address_of(url: httpx.URL) -> str:
    """Return an address for a log: without the user, password and query that it may hold."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}{url.path}".rstrip("/")


def odd(why: str) -> Transient:
    """Return the error for an answer that does not fit the request."""
    return Transient("control_plane_odd", f"the answer is malformed: {why}")


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, bounded; None where it makes no sense."""
    if header is None:
        return None
    try:
        is_number = header.strip().isdigit()
        seconds = float(header) if is_number else (parsedate_to_datetime(header) - now).total_seconds()
    except (ValueError, TypeError):
        return None
    return min(RETRY_AFTER_MAX_S, max(0.0, seconds))
