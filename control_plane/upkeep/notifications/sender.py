"""Posts deliveries to receivers: to allowed addresses only, bounded in bytes and time.

Law: a redirect is followed nowhere, and of an answer only its status and `Retry-After` count.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import httpx

from control_plane.upkeep.notifications.retrying import Answer, read_retry_after
from events.runtime.allowed_addresses import AddressRefused, Guard
from events.runtime.egress_policy import EgressPolicy

TIME_MAX_S: Final = 15.0
CONNECT_MAX_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 16 * 1024  # are read, so that a receiver can end in order, and dropped
ANSWER_MAX_S: Final = 1.0
PROBLEM_CHARS_MAX: Final = 300


@dataclass(slots=True)
class Sender:
    """Posts to receivers that people named."""

    egress: EgressPolicy = field(default_factory=EgressPolicy)
    time_max_s: float = TIME_MAX_S
    _trusted: ssl.SSLContext | None = None

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Send a body; return how that ended. Raises nothing that a receiver could cause."""
        try:
            async with asyncio.timeout(self.time_max_s):
                return await self._posted(url, headers, content)
        except AddressRefused as error:
            return Answer(0, str(error)[:PROBLEM_CHARS_MAX])
        except TimeoutError:
            return Answer(0, f"no answer within {self.time_max_s:.0f} s")
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, UnicodeError) as error:
            words = f"{type(error).__name__}: {error}".replace(url, "the URL")
            return Answer(0, words[:PROBLEM_CHARS_MAX])

    async def _posted(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        if self._trusted is None:
            self._trusted = httpx.create_ssl_context()
        limits = httpx.Timeout(self.time_max_s, connect=min(CONNECT_MAX_S, self.time_max_s))
        async with (
            httpx.AsyncClient(
                timeout=limits,
                verify=self._trusted,
                event_hooks={"request": [Guard(self.egress)]},
                follow_redirects=False,
            ) as client,
            client.stream("POST", url, headers=dict(headers), content=content) as response,
        ):
            await _drop(response)
            return _answer(response)


async def _drop(response: httpx.Response) -> None:
    """Read a little of an answer, so that the receiver is not cut off while it writes."""
    read = 0
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(ANSWER_MAX_S):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > ANSWER_BYTES_MAX:
                    return


def _answer(response: httpx.Response) -> Answer:
    status = response.status_code
    if 200 <= status < 300:
        return Answer(status)
    hint = "; redirects are not followed" if 300 <= status < 400 else ""
    after_s = read_retry_after(response.headers.get("retry-after"))
    return Answer(status, f"the receiver answers {status}{hint}", after_s)
