"""Fetches a listing of models: from an allowed address only, bounded in bytes and time, without any key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import httpx

from events.runtime.allowed_addresses import AddressRefused, Guard
from events.runtime.egress_policy import EgressPolicy
from events.runtime.errors import Rejected, Transient

LISTING_BYTES_MAX: Final = 4 << 20
TIME_MAX_S: Final = 15.0
HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "podfleet"}


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Asks servers that an administrator named; a redirect is followed nowhere."""

    egress: EgressPolicy = field(default_factory=EgressPolicy)
    time_max_s: float = TIME_MAX_S

    async def fetch(self, url: str) -> bytes:
        """Return the body at `url`. Raises `Rejected`, or `Transient` where another time may do."""
        try:
            async with asyncio.timeout(self.time_max_s):
                return await self._request(url)
        except AddressRefused as error:
            raise Rejected("address_refused", str(error)) from error
        except TimeoutError as error:
            message = f"the listing was not there within {self.time_max_s:.0f} s"
            raise Transient("listing_unreachable", message) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise Transient("listing_unreachable", f"the listing cannot be reached ({why})") from error

    async def _request(self, url: str) -> bytes:
        async with (
            httpx.AsyncClient(
                timeout=self.time_max_s, event_hooks={"request": [Guard(self.egress)]}, follow_redirects=False
            ) as client,
            client.stream("GET", url, headers=HEADERS) as response,
        ):
            status = response.status_code
            if status >= 500 or status == httpx.codes.TOO_MANY_REQUESTS:
                raise Transient("listing_unreachable", f"the server answers {status}: try again later")
            if status != httpx.codes.OK:
                hint = "; a listing that needs a key cannot be read" if status in (401, 403) else ""
                raise Rejected("bad_listing", f"the server answers {status}{hint}")
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise Rejected("bad_listing", "the answer is compressed, which was not asked for")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > LISTING_BYTES_MAX:
                    raise Rejected("bad_listing", f"the listing has more than {LISTING_BYTES_MAX} bytes")
            return bytes(body)
