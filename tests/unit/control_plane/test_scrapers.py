"""Who reads `/metrics` while the store that knows the keys is away."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request

from control_plane.access.auth import Forbidden, Principal
from control_plane.access.key_ring import Unauthorized
from control_plane.access.scrapers import BELIEVED_S, SCRAPERS_MAX, Scrapers
from events.runtime.errors import Transient
from events.testing import ManualClock

READER = Principal("prometheus", frozenset({"read"}))


@dataclass
class Keys:
    """Knows one key as long as its store is there."""

    is_away: bool = False
    known: dict[str, Principal] = field(default_factory=lambda: {"Bearer good": READER})

    async def identify(self, _: str, headers: Any, *rest: Any) -> Principal:
        if self.is_away:
            raise Transient("mongodb_unreachable", "away")
        if headers.get("authorization") not in self.known:
            raise Unauthorized("bad_key", "no")
        return self.known[headers["authorization"]]

    async def mongodb(self) -> str:
        return "unreachable" if self.is_away else "ok"


def asked(keys: Keys, key: str, address: str = "10.0.0.1") -> Request:
    app = SimpleNamespace(state=SimpleNamespace(authenticator=keys))
    headers = [(b"authorization", f"Bearer {key}".encode()), (b"host", b"cp")]
    scope = {
        "type": "http", "method": "GET", "path": "/metrics", "headers": headers, "client": (address, 1),
        "app": app, "query_string": b"", "server": ("cp", 80), "scheme": "http", "path_params": {},
    }  # fmt: skip
    return Request(scope)


async def test_who_was_admitted_within_an_hour_reads_on_and_nobody_else() -> None:
    clock, keys = ManualClock(), Keys()
    scrapers = Scrapers(clock, keys.mongodb)
    assert await scrapers.require(asked(keys, "good")) == READER
    keys.is_away = True
    clock.advance(BELIEVED_S - 1)
    assert await scrapers.require(asked(keys, "good")) == READER
    for stranger in (asked(keys, "other"), asked(keys, "good", "10.0.0.2")):
        with pytest.raises(Transient):
            await scrapers.require(stranger)
    clock.advance(2)
    with pytest.raises(Transient):
        await scrapers.require(asked(keys, "good"))


async def test_while_the_store_answers_it_alone_decides() -> None:
    keys = Keys()
    scrapers = Scrapers(ManualClock(), keys.mongodb)
    await scrapers.require(asked(keys, "good"))
    keys.known.clear()
    with pytest.raises(Unauthorized):
        await scrapers.require(asked(keys, "good"))
    assert not scrapers._admitted, "a key that is revoked reads no more while the store is away either"
    keys.known["Bearer pod"] = Principal("pod", frozenset({"claim"}))
    with pytest.raises(Forbidden):
        await scrapers.require(asked(keys, "pod"))


async def test_so_many_are_remembered() -> None:
    keys = Keys()
    scrapers = Scrapers(ManualClock(), keys.mongodb)
    for number in range(SCRAPERS_MAX + 5):
        await scrapers.require(asked(keys, "good", f"10.0.1.{number}"))
    assert len(scrapers._admitted) == SCRAPERS_MAX
