"""The HTTP client of a model's SDK, and the meaning of the SDK's failures.

Law: an answer is bounded in bytes and uncompressed. No redirect is followed, so no key and no prompt goes
to another address, and only allowed addresses are connected to. Proxies are those of the
environment, or none.
"""

from __future__ import annotations

import functools
import json
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

import httpx2
import msgspec

from events.runtime.allowed_addresses import AddressRefused, Guard
from events.runtime.egress_policy import EgressPolicy
from stages.adapters.models.retrier import TryFailed
from stages.models.model import Usage
from stages.models.retrying import retry_after_of, trouble_of

ANSWER_BYTES_MAX: Final = 8 << 20
MESSAGE_CHARS_MAX: Final = 500
CONNECT_MAX_S: Final = 15.0
KEPT_MAX: Final = 256  # connections without a request
KEPT_S: Final = 4.0  # shorter than servers keep one, so that none is used while its server closes it
KEY: Final = re.compile(r"\b(?:sk|pk|key)-[\w*.-]{4,}")
# These happen before the request has left: nothing can have been billed.
NOT_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)

Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]  # of tokens, as a server may state it

S = TypeVar("S")


class AnswerTooLong(httpx2.TransportError):  # the SDKs pass on what breaks a connection
    """The answer has more bytes than any answer needs, or is compressed to hide them."""


@dataclass(slots=True)
class _Bounded(httpx2.AsyncByteStream):
    """An answer's bytes, up to the limit."""

    stream: httpx2.AsyncByteStream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self.stream:
            size += len(chunk)
            if size > ANSWER_BYTES_MAX:
                raise AnswerTooLong(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self.stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise AnswerTooLong("the answer is compressed, which was not asked for")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return whom every request trusts: to read that takes longer than a request does."""
    return httpx2.create_ssl_context()


def client(egress: EgressPolicy, *, is_direct: bool = False) -> httpx2.AsyncClient:
    """Return a client for many requests, each with a limit of its own, that connects within `egress`.

    `is_direct` asks no proxy, whatever the environment names. Connections are kept for the next request.
    """
    return httpx2.AsyncClient(
        trust_env=not is_direct,
        verify=_trusted(),
        limits=httpx2.Limits(
            max_connections=None, max_keepalive_connections=KEPT_MAX, keepalive_expiry=KEPT_S
        ),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [Guard(egress)], "response": [_bound]},
        follow_redirects=False,
    )


def limits_of(seconds: float) -> httpx2.Timeout:
    """Return the limits of one request that takes at most `seconds`."""
    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_MAX_S))


def refusal(status: int, response: httpx2.Response, words: str, *, setting: str, now: datetime) -> TryFailed:
    """Return what an answer without success means; `setting` names the variable that holds the key."""
    trouble = trouble_of(status, words)
    place = f"{response.request.url.host} answers {status}"
    shown_words = shown(words)
    match trouble:
        case "unauthorised":  # not in the server's words: they like to quote the key
            message = f"{place}: it does not accept the key; check {setting}"
        case "quota":
            message = f"{place}: the account has no money or quota left ({shown_words})"
        case "refused" if response.has_redirect_location:
            message = f"{place}: it has moved to {_place(response)}; name that address in the settings"
        case _:
            message = f"{place}: {shown_words}"
    return TryFailed(trouble, message, retry_after_s=retry_after_of(response.headers, now))


def words_of(body: object, instead: str) -> str:
    """Return the code and the message of an error's body, else what stands `instead` of them."""
    inner = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(inner, dict):
        return instead
    named = dict.fromkeys(str(inner[name]) for name in ("code", "type", "message") if inner.get(name))
    return ": ".join(named) or instead


def no_answer(cause: BaseException, lost: Usage) -> TryFailed:
    """Return what a broken connection means; `lost` is the bill that may come for a request that had left."""
    if isinstance(cause, AddressRefused):
        return TryFailed("refused", f"the model is not asked: {cause}")
    if isinstance(cause, AnswerTooLong):
        return TryFailed("unreachable", f"what answers is no server of models: {cause}", usage=lost)
    reason = f"{type(cause).__name__}: {shown(str(cause))}"
    if isinstance(cause, NOT_SENT):
        return TryFailed("unreachable", f"no connection to the model ({reason})")
    if isinstance(cause, httpx2.TimeoutException | TimeoutError):
        return TryFailed("timed_out", f"no answer from the model within {lost.seconds:.0f} s", usage=lost)
    return TryFailed("unreachable", f"the connection to the model broke ({reason})", usage=lost)


def decoded(content: bytes, kind: type[S], lost: Usage) -> S:
    """Return a body as `kind`. Raises `TryFailed` for one that is something else.

    Then no model has answered, but whatever stands in its place: that is a fault outside, and not the run's.
    """
    try:
        found: Any = json.loads(content)
        return msgspec.convert(found, kind)
    except (ValueError, RecursionError) as error:
        raise TryFailed(
            "unreachable", f"the answer is no completion: {shown(str(error))}", usage=lost
        ) from error


def text_of(text: str) -> str:
    """Return a model's text as the rest of the program can carry it: no lone surrogate, no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def shown(words: str) -> str:
    """Return a server's words for people: one line, short, without what looks like a key."""
    line = " ".join(text_of(words[: 4 * MESSAGE_CHARS_MAX]).split())
    return KEY.sub("(a key)", line)[:MESSAGE_CHARS_MAX] or "no reason given"


def _place(response: httpx2.Response) -> str:
    return shown(response.headers.get("location", ""))
