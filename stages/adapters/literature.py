"""Looks up publications in an index with the Graph API of Semantic Scholar.

Law: it returns within its time limit; any answer that is not as documented is a `LookUpFailed`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from events.runtime.allowed_addresses import AddressRefused, Guard
from events.runtime.clock import Clock, Ids
from events.runtime.egress_policy import EgressPolicy
from events.runtime.errors import PipelineError
from stages.adapters.time_limit import run_within
from stages.models.retrying import retry_after_of
from stages.ports.literature import Literature, LookUpFailed, Work

TIME_MAX_S: Final = 10.0  # of one request
WAIT_MAX_S: Final = 5.0  # before the only second one
WAIT_S: Final = 1.0
ANSWER_BYTES_MAX: Final = 2 << 20
QUERY_CHARS_MAX: Final = 300
LIMIT_MAX: Final = 100
TEXT_CHARS_MAX: Final = 5_000
LINE_CHARS_MAX: Final = 500
AUTHORS_MAX: Final = 100
FIELDS: Final = "title,authors,year,venue,url,abstract"


class _Author(msgspec.Struct):
    name: str | None = None


class _Paper(msgspec.Struct):
    title: str | None = None
    authors: list[_Author] | None = None
    year: int | None = None
    venue: str | None = None
    url: str | None = None
    abstract: str | None = None


class _Found(msgspec.Struct):
    data: list[_Paper] | None = None  # an index that finds nothing may leave it out


@dataclass(frozen=True, slots=True)
class _Busy:
    """The index cannot answer now; `wait_s` is its own retry time, where it sent one."""

    status: int
    wait_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphIndex:
    """One index at `base_url`, for any number of threads."""

    base_url: str
    clock: Clock
    ids: Ids
    stop: threading.Event = field(default_factory=threading.Event)
    egress: EgressPolicy = field(default_factory=EgressPolicy)

    def search(self, query: str, limit: int) -> list[Work]:
        """Return at most `limit` works, the best match first. Raises `LookUpFailed`."""
        words = " ".join(_clean(query, QUERY_CHARS_MAX).split())
        if not words or limit < 1:
            return []
        wanted = min(limit, LIMIT_MAX)
        answer = self._get(words, wanted)
        if isinstance(answer, _Busy):
            wait_s = WAIT_S * (1 + self.ids.fraction()) if answer.wait_s is None else answer.wait_s
            if wait_s > WAIT_MAX_S or self.clock.wait(self.stop, wait_s):
                raise LookUpFailed(f"the index answers {answer.status}")
            answer = self._get(words, wanted)
        if isinstance(answer, _Busy):
            raise LookUpFailed(f"the index answers {answer.status}, twice")
        return list(_works(answer))[:wanted]

    def _get(self, query: str, limit: int) -> bytes | _Busy:
        try:
            return run_within(TIME_MAX_S, partial(self._request, query, limit), self.stop)
        except TimeoutError as error:
            raise LookUpFailed(f"the index did not answer within {TIME_MAX_S:.0f} s") from error
        except AddressRefused as error:
            raise LookUpFailed(f"the index is not asked: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LookUpFailed(f"the index cannot be reached: {type(error).__name__}: {error}") from error

    async def _request(self, query: str, limit: int) -> bytes | _Busy:
        url = f"{self.base_url.rstrip('/')}/paper/search"
        parameters = {"query": query, "limit": str(limit), "fields": FIELDS}
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx.AsyncClient(timeout=TIME_MAX_S, event_hooks={"request": [Guard(self.egress)]}) as client,
            client.stream("GET", url, params=parameters, headers=headers) as response,
        ):
            status = response.status_code
            if status == httpx.codes.TOO_MANY_REQUESTS or status >= 500:
                return _Busy(status, retry_after_of(response.headers, self.clock.now()))
            if status != httpx.codes.OK:
                raise LookUpFailed(f"the index answers {status}")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise LookUpFailed(f"the index's answer has more than {ANSWER_BYTES_MAX} bytes")
            return bytes(body)


def open_literature(
    url: str | None, *, clock: Clock, ids: Ids, egress: EgressPolicy, stop: threading.Event | None = None
) -> Literature | None:
    """Return the index at `url`, None where none is named; nothing is asked yet.

    Raises `PipelineError` with the code CONFIG for what is no address.
    """
    if not url or not url.strip():
        return None
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = "PODFLEET_LITERATURE_URL has to be an address that begins with http:// or https://"
        raise PipelineError("CONFIG", message)
    if objection := egress.early_objection(parts.hostname):
        raise PipelineError("CONFIG", f"PODFLEET_LITERATURE_URL: {objection}")
    return GraphIndex(
        base_url=url.strip(), clock=clock, ids=ids, stop=stop or threading.Event(), egress=egress
    )


def _works(body: bytes) -> Iterator[Work]:
    try:
        found = msgspec.convert(json.loads(body), _Found)
    except (ValueError, RecursionError) as error:
        raise LookUpFailed(
            f"the index's answer is no list of publications: {_clean(str(error), 200)}"
        ) from error
    for paper in found.data or []:
        title = _line(paper.title)
        if title:
            names = (_line(author.name) for author in (paper.authors or [])[:AUTHORS_MAX])
            yield Work(
                title=title,
                authors=tuple(name for name in names if name),
                year=paper.year if paper.year is not None and 0 < paper.year < 10_000 else None,
                venue=_line(paper.venue),
                url=_line(paper.url) if _is_web(paper.url) else "",
                abstract=_clean(paper.abstract or "", TEXT_CHARS_MAX).strip(),
            )


def _is_web(url: str | None) -> bool:
    """Return whether a link may stand in a paper: no script, no file."""
    return (url or "").strip().lower().startswith(("http://", "https://"))


def _line(text: str | None) -> str:
    return " ".join(_clean(text or "", LINE_CHARS_MAX).split())


def _clean(text: str, limit: int) -> str:
    """Return text that every later step can carry: bounded, no surrogates or control characters."""
    sound = text[:limit].encode("utf-8", "replace").decode()
    return "".join(char if char.isprintable() or char in "\n\t " else " " for char in sound)
