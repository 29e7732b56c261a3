"""Admits scrapers of `/metrics`, also while the store that knows their keys is away.

Who was admitted in the last hour is told the numbers of this process then; anybody else is told to try again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from fastapi import Request

from control_plane.access.auth import Principal, address_of, require
from events.runtime.clock import Clock
from events.runtime.errors import Rejected, Transient
from events.text.key_text import digest

BELIEVED_S: Final = 3600.0
SCRAPERS_MAX: Final = 100
AWAY_S: Final = 0.1  # what is judged without the store takes less
NAMING: Final = ("authorization", "cookie", "host")


@dataclass(frozen=True, slots=True)
class Scrapers:
    """Those who read `/metrics`; `mongodb` tells how the store is."""

    clock: Clock
    mongodb: Callable[[], Awaitable[str]]
    _admitted: OrderedDict[str, tuple[float, Principal]] = field(default_factory=OrderedDict)

    async def require(self, request: Request) -> Principal:
        """Return the principal of a request that may read. Raises `Transient`, and as `require` does."""
        sender = digest("\n".join([address_of(request), *(request.headers.get(name, "") for name in NAMING)]))
        judging = asyncio.ensure_future(require("read")(request))
        try:
            await asyncio.wait({judging}, timeout=AWAY_S)
            if not judging.done() and await self.mongodb() != "ok":
                return self._known(sender)
            found = await judging
        except Transient:
            return self._known(sender)
        except Rejected:  # as a key that was revoked meanwhile
            self._admitted.pop(sender, None)
            raise
        finally:
            judging.cancel()
        self._note(sender, found)
        return found

    def _known(self, sender: str) -> Principal:
        admitted_s, known = self._admitted.get(sender, (-BELIEVED_S, None))
        if known is None or self.clock.monotonic_s() - admitted_s >= BELIEVED_S:
            raise Transient("mongodb_unreachable", "MongoDB does not answer; try again")
        return known

    def _note(self, sender: str, found: Principal) -> None:
        self._admitted[sender] = (self.clock.monotonic_s(), found)
        self._admitted.move_to_end(sender)
        while len(self._admitted) > SCRAPERS_MAX:
            self._admitted.popitem(last=False)
