"""The HTTP client of ingest: one request, and the verdict for each line."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from events.delivery.control_plane_client import Answer, ControlPlane, bearer, odd
from events.delivery.sender import Declined, Rejection, Taken
from events.text.attempt_id import AttemptId


class _RejectedLine(msgspec.Struct, frozen=True):
    line: int
    code: str = "refused"
    message: str = ""
    id: str | None = None


class _Problem(msgspec.Struct, frozen=True):
    rejected: list[_RejectedLine]


class _Verdicts(_Problem, frozen=True):
    accepted: int
    duplicates: int
    fenced: list[str] = []
    canceling: list[str] = []
    steered: list[str] = []


@dataclass(frozen=True, slots=True)
class HttpIngest:
    """Ingest over HTTP: gzipped NDJSON to the control plane."""

    control_plane: ControlPlane

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        """Send one request and read its verdicts; the time limit holds for the whole answer."""
        body = gzip.compress(b"\n".join(lines), compresslevel=1, mtime=0)
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip", **bearer(token)}
        answer = self.control_plane.send(
            "POST", "/api/ingest/events", content=body, headers=headers, timeout_s=timeout_s
        )
        return read_answer(answer, lines=len(lines))


def read_answer(answer: Answer, *, lines: int) -> Taken | Declined:
    """Return the verdicts of an answer to `lines` lines. Raises `Transient` where it has none."""
    match answer.status:
        case 202 | 207:
            return _verdicts(answer, lines)
        case 422:
            return _all_rejected(answer, lines)
        case 400 | 413 | 415 as status:
            return Declined(f"http_{status}", answer.shown(), is_too_large=status == 413)
        case _:
            raise answer.error()


def _verdicts(answer: Answer, lines: int) -> Taken:
    verdicts = answer.read(_Verdicts)
    rejected = _rejections(verdicts)
    total = verdicts.accepted + verdicts.duplicates + len(rejected)
    if total != lines:
        raise odd(f"{total} verdicts for {lines} lines")
    return Taken(
        rejected,
        _names(verdicts.fenced),
        _names(verdicts.canceling),
        _names(verdicts.steered),
    )


def _all_rejected(answer: Answer, lines: int) -> Taken | Declined:
    try:
        rejected = _rejections(msgspec.json.decode(answer.body, type=_Problem))
    except msgspec.MsgspecError:
        rejected = ()
    if {rejection.line for rejection in rejected} == set(range(1, lines + 1)):
        return Taken(rejected)
    return Declined("http_422", answer.shown())


def _rejections(problem: _Problem) -> tuple[Rejection, ...]:
    return tuple(Rejection(line.line, line.code, line.message, line.id) for line in problem.rejected)


def _names(texts: Sequence[str]) -> frozenset[AttemptId]:
    return frozenset(name for text in texts if (name := AttemptId.read(text)) is not None)
