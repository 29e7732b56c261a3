"""The HTTP client of ingest: one request, and the verdict for each line."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx
import msgspec

from events.delivery.sender import AttemptName, Barred, Declined, Rejection, Taken
from events.runtime.clock import Clock
from events.runtime.errors import Transient

CALL_TIMEOUT_S: Final = 30.0
RETRY_AFTER_MAX_S: Final = 300.0
ANSWER_BYTES_MAX: Final = 8 << 20


def control_plane_client(url: str, api_key: str | None) -> httpx.Client:
    """Return a client of the control plane that sends the key; give each base URL one of its own."""
    return httpx.Client(base_url=url, headers=bearer(api_key) if api_key else {}, timeout=CALL_TIMEOUT_S)


def bearer(key: str) -> dict[str, str]:
    """Return the headers by which a request shows a key."""
    return {"Authorization": f"Bearer {key}"}


class _Line(msgspec.Struct, frozen=True):
    line: int
    code: str = "refused"
    message: str = ""
    id: str | None = None


class _Problem(msgspec.Struct, frozen=True):
    rejected: list[_Line]


class _Verdicts(_Problem, frozen=True):
    accepted: int
    duplicates: int
    fenced: list[str] = []
    canceling: list[str] = []
    steered: list[str] = []


@dataclass(frozen=True, slots=True)
class HttpIngest:
    """Ingest over HTTP: gzipped NDJSON to the control plane."""

    client: httpx.Client
    clock: Clock

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        """Send one request and read its verdicts; the time limit holds for the whole answer."""
        body = gzip.compress(b"\n".join(lines), compresslevel=1, mtime=0)
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip", **bearer(token)}
        deadline_s = self.clock.monotonic_s() + timeout_s
        try:
            with self.client.stream(
                "POST", "/api/ingest/events", content=body, headers=headers, timeout=timeout_s
            ) as response:
                text = self._read(response, deadline_s)
        except httpx.HTTPError as error:
            raise Transient("INGEST_UNREACHABLE", f"no answer: {type(error).__name__}: {error}") from error
        return read_answer(response, text, lines=len(lines), now=self.clock.now())

    def _read(self, response: httpx.Response, deadline_s: float) -> bytes:
        text = bytearray()
        for chunk in response.iter_bytes():
            text += chunk
            if len(text) > ANSWER_BYTES_MAX or self.clock.monotonic_s() > deadline_s:
                raise Transient("INGEST_ANSWER_ODD", "the answer is endless")
        return bytes(text)


def read_answer(response: httpx.Response, body: bytes, *, lines: int, now: datetime) -> Taken | Declined:
    """Return the verdicts of an answer to `lines` lines. Raises `Transient` where it has none."""
    match response.status_code:
        case 202 | 207:
            return _verdicts(body, lines)
        case 422:
            return _all_rejected(body, lines)
        case 400 | 413 | 415 as status:
            return Declined(f"http_{status}", _shown(body), is_too_large=status == 413)
        case 401 | 403 as status:
            raise Barred("INGEST_BARRED", f"the control plane answers {status}: {_shown(body)}")
        case status:
            raise Transient(
                "INGEST_UNAVAILABLE",
                f"the control plane answers {status}: {_shown(body)}",
                retry_after_s=retry_after_s(response.headers.get("Retry-After"), now),
            )


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, bounded; None where it makes no sense."""
    if header is None:
        return None
    try:
        seconds = float(header) if header.strip().isdigit() else _seconds_until(header, now)
    except (ValueError, TypeError):
        return None
    return min(RETRY_AFTER_MAX_S, max(0.0, seconds))


def _seconds_until(header: str, now: datetime) -> float:
    return (parsedate_to_datetime(header) - now).total_seconds()


def _verdicts(body: bytes, lines: int) -> Taken:
    try:
        verdicts = msgspec.json.decode(body, type=_Verdicts)
    except msgspec.MsgspecError as error:
        raise Transient("INGEST_ANSWER_ODD", f"the answer is no verdict: {error}") from error
    rejected = _rejections(verdicts)
    total = verdicts.accepted + verdicts.duplicates + len(rejected)
    if total != lines:
        raise Transient("INGEST_ANSWER_ODD", f"{total} verdicts for {lines} lines")
    return Taken(
        rejected,
        frozenset(_names(verdicts.fenced)),
        frozenset(_names(verdicts.canceling)),
        frozenset(_names(verdicts.steered)),
    )


def _all_rejected(body: bytes, lines: int) -> Taken | Declined:
    try:
        rejected = _rejections(msgspec.json.decode(body, type=_Problem))
    except msgspec.MsgspecError:
        rejected = ()
    if {rejection.line for rejection in rejected} == set(range(1, lines + 1)):
        return Taken(rejected)
    return Declined("http_422", _shown(body))


def _rejections(problem: _Problem) -> tuple[Rejection, ...]:
    return tuple(Rejection(line.line, line.code, line.message, line.id) for line in problem.rejected)


def _names(fenced: Sequence[str]) -> list[AttemptName]:
    pairs = (name.rpartition("/") for name in fenced)
    return [(run_id, int(attempt)) for run_id, _, attempt in pairs if run_id and attempt.isdigit()]


def _shown(body: bytes) -> str:
    return body[:500].decode(errors="replace")
