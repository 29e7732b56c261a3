"""What was read is believed for a moment, and for as many names as fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from control_plane.access.auth import is_still_admitted
from control_plane.access.key_ring import Unauthorized
from control_plane.concurrency.cache import BELIEVED_S, NAMES_MAX, Cache
from events.runtime.errors import Transient
from events.testing import ManualClock


async def test_a_name_is_read_again_when_its_moment_is_over_or_it_is_forgotten() -> None:
    clock = ManualClock()
    believed: Cache[int] = Cache(clock)
    reads: list[int] = []

    async def read() -> int:
        reads.append(0)
        return len(reads)

    assert [await believed.get("a", read) for _ in range(3)] == [1, 1, 1]
    clock.advance(BELIEVED_S + 0.1)
    assert await believed.get("a", read) == 2
    believed.forget("a")
    assert await believed.get("a", read) == 3
    for number in range(NAMES_MAX):
        await believed.get(str(number), read)
    assert await believed.get("a", read) == NAMES_MAX + 4


async def test_a_stream_ends_with_its_key_and_not_with_an_outage() -> None:
    class Away:
        def __init__(self, error: Exception) -> None:
            self.error = error

        async def identify(self, *_: Any) -> None:
            raise self.error

    def request(error: Exception) -> Any:
        app = SimpleNamespace(state=SimpleNamespace(authenticator=Away(error)))
        return SimpleNamespace(app=app, method="GET", headers={}, client=None, scope={})

    assert await is_still_admitted(request(Transient("mongodb_unreachable", "away")), {}, "read")
    assert not await is_still_admitted(request(Unauthorized("key_over", "revoked")), {}, "read")
