"""How a control plane is, told within a second, whatever its dependencies do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from minio.error import S3Error

from control_plane.config import read_storage
from control_plane.files.blobs import open_blobs
from control_plane.server.dependencies import FRESH_S, LIMIT_S, Dependencies
from control_plane.server.readiness import States, word
from control_plane.store import schema
from events.runtime.clock import SystemClock
from events.runtime.errors import ConfigError, Transient
from events.testing import ManualClock
from tests.unit.control_plane.test_blobs import NOWHERE

AWAY = Transient("storage_unreachable", "no answer")


class Store:
    """A database whose `ping` is `answer`."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def command(self, _: str) -> None:
        await self.answer()


class Objects:
    """A storage that answers a ping, and to a small object what it is told to."""

    def __init__(self, refusal: Transient | None = None) -> None:
        self.refusal, self.put = refusal, 0
        self.is_away = False

    async def ping(self) -> None:
        if self.is_away:
            raise AWAY

    async def try_put(self) -> None:
        self.put += 1
        if self.refusal is not None:
            raise self.refusal


async def at_once() -> None:
    """Answer."""


async def never() -> None:
    await asyncio.sleep(3600)


def dependencies(answer: Any = at_once, blobs: Any = None) -> Dependencies:
    store: Any = Store(answer)
    return Dependencies(lambda: store, blobs or Objects(), SystemClock(), limit_s=0.05)


@pytest.fixture(autouse=True)
def indexes(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What is wrong with the indexes."""
    found = SimpleNamespace(problems=[])

    async def verify(_: object) -> None:
        if found.problems:
            raise ConfigError(found.problems)

    monkeypatch.setattr(schema, "verify", verify)
    return found


@pytest.mark.parametrize(
    ("states", "is_ready", "works"),
    [
        (("ok", "ok", "ok"), True, ["api", "ingest", "claims", "downloads", "uploads"]),
        (("ok", "ok", "unreachable"), True, ["api", "ingest", "claims"]),
        (("ok", "ok", "full"), True, ["api", "ingest", "claims", "downloads"]),
        (("ok", "ok", "unwritable"), True, ["api", "ingest", "claims", "downloads"]),
        (("unreachable", "ok", "ok"), False, []),
        (("ok", "incomplete", "ok"), False, []),
    ],
)
def test_a_balancer_is_sent_away_only_where_the_api_does_not_work(
    states: tuple[str, str, str], is_ready: bool, works: list[str]
) -> None:
    found = States(*states)
    assert (found.is_ready, found.works) == (is_ready, works)


async def test_who_does_not_answer_is_told_of_in_time_and_asked_once_for_all() -> None:
    asked = 0

    async def silent() -> None:
        nonlocal asked
        asked += 1
        await never()

    one = dependencies(silent)
    async with asyncio.timeout(30):
        found = await asyncio.gather(*(one.look() for _ in range(50)))
    assert {each.mongodb for each in found} == {"unreachable"}
    assert {each.storage for each in found} == {"ok"}
    assert asked == 1
    assert LIMIT_S < 1


async def test_one_that_did_not_answer_a_moment_ago_is_left_alone_and_then_asked_again() -> None:
    asked = 0

    async def away() -> None:
        nonlocal asked
        asked += 1
        raise Transient("mongodb_unreachable", "no answer")

    one = dependencies(away)
    one.clock = clock = ManualClock()
    assert [await one.mongodb(), await one.mongodb()] == ["unreachable"] * 2
    assert asked == 1
    clock.advance(FRESH_S)
    await one.mongodb()
    assert asked == 2


async def test_a_stall_of_this_process_says_nothing_of_a_dependency() -> None:
    clock, answers = ManualClock(), [at_once]

    async def stalled() -> None:
        clock.advance(1.0)
        await never()

    async def answer() -> None:
        await answers[0]()

    one = dependencies(answer)
    one.clock = clock
    assert await one.mongodb() == "ok"
    answers[0] = stalled
    assert await one.mongodb() == "ok"
    answers[0] = never
    assert await one.mongodb() == "unreachable"


async def test_a_full_storage_is_noticed_by_a_small_object_and_forgotten_when_it_takes_one_again() -> None:
    objects = Objects(Transient("storage_full", "no room"))
    one = dependencies(blobs=objects)
    await one.run_once()
    assert await one.look() == States("ok", "ok", "full")
    objects.refusal = None
    one._known.clear()
    await one.run_once()
    assert await one.look() == States("ok", "ok", "ok")
    await one.run_once()
    assert objects.put == 2, "one that takes it is asked once a minute"


async def test_a_storage_that_answers_and_takes_nothing_is_neither_away_nor_well() -> None:
    objects = Objects(AWAY)
    one = dependencies(blobs=objects)
    await one.run_once()
    assert (await one.look()).storage == "unwritable"
    objects.is_away = True
    await one.run_once()
    assert (await one.look()).storage == "unreachable"
    objects.is_away, put = False, objects.put
    one._known.clear()
    assert (await one.look()).storage == "ok"
    await one.run_once()
    assert objects.put == put + 1, "it is tried as soon as it answers again"


async def test_an_index_that_is_gone_is_told_of(indexes: SimpleNamespace) -> None:
    one = dependencies()
    indexes.problems = ["collection runs lacks the index"]
    await one.run_once()
    assert (await one.look()).indexes == "incomplete"
    indexes.problems = []
    await one.run_once()
    assert (await one.look()).is_ready


@pytest.mark.parametrize(
    ("code", "status", "message", "state"),
    [
        ("XMinioStorageFull", 507, "Storage backend has reached its minimum free drive threshold", "full"),
        ("InternalError", 500, "write /data/x: no space left on device", "full"),
        ("InternalError", 500, "We encountered an internal error", "unreachable"),
    ],
)
async def test_what_a_full_storage_says_is_known(code: str, status: int, message: str, state: str) -> None:
    class Client:
        def put_object(self, *_: object) -> None:
            answer: Any = SimpleNamespace(status=status)
            raise S3Error(answer, code, message, None, None, None)

    real = open_blobs(read_storage(NOWHERE))
    client: Any = Client()
    with pytest.raises(Transient) as refused:
        await replace(real, client=client).try_put()
    assert word(refused.value.code) == state


async def test_a_check_that_runs_is_ended_before_its_connection_is_closed() -> None:
    told: list[str] = []
    begun = asyncio.Event()

    async def silent() -> None:
        begun.set()
        try:
            await never()
        finally:
            told.append("check ended")

    async def closed() -> None:
        told.append("connection closed")

    store: Any = Store(silent)
    store.client = SimpleNamespace(close=closed)
    one = Dependencies(lambda: store, Objects(), SystemClock(), limit_s=60.0)
    looking = asyncio.create_task(one.mongodb())
    await begun.wait()
    await one.close()
    assert told == ["check ended", "connection closed"]
    with pytest.raises(asyncio.CancelledError):
        await looking
