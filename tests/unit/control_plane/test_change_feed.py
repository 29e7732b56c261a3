"""The ring of changes: places in it, slow readers, and what is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from control_plane.live import change_feed
from control_plane.live.broadcaster import BATCH_MAX, KNOWN_MAX, Broadcaster, Message
from control_plane.live.change_feed import READERS_MAX, ChangeFeed, News, topics
from control_plane.live.watcher import LogWatcher
from control_plane.server.api.streams import changes as stream
from control_plane.server.api.streams.changes import encoded
from control_plane.store.changes import Change, Changes, Step
from control_plane.store.reads import RunReads
from events.runtime.errors import Transient

ALL = frozenset({"runs"})
PAUSE_S, IDLE_S = 0.0, 60.0


def token(number: int) -> str:
    return f"82{number:08X}"


def step(number: int, collection: str = "runs", identity: str = "") -> Step:
    return Step(token(number - 1), token(number), Change(token(number), collection, identity or f"R{number}"))


def played(story: Callable[[ChangeFeed], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story(ChangeFeed()))


async def next_news(reader: Any) -> News:
    return await asyncio.wait_for(anext(reader), 60)


def ids(news: News) -> list[str]:
    return [each.id for each in news.changes]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change("t", "events", "R1/abc"), ("log/R1",)),
        (Change("t", "runs", "R1"), ("runs", "run/R1")),
        (Change("t", "ideation_requests", "I1"), ("runs", "run/I1")),
        (Change("t", "pods", "p/1"), ("pods", "pod/p/1")),
        (Change("t", "hypotheses", "H1"), ("hypotheses", "hypothesis/H1")),
    ],
)
def test_a_change_belongs_to_its_list_and_to_itself(change: Change, expected: tuple[str, ...]) -> None:
    assert topics(change) == expected


def test_a_reader_hears_at_once_where_it_is_and_then_only_of_its_topics() -> None:
    async def story(feed: ChangeFeed) -> None:
        feed.publish(step(1))
        reader = feed.follow(ALL, None, pause_s=PAUSE_S, idle_s=IDLE_S)
        first = await next_news(reader)
        assert (ids(first), first.token, first.is_reset) == ([], token(1), False)
        for number in (2, 3, 4):
            feed.publish(step(number, "pods" if number == 3 else "runs"))
        assert ids(await next_news(reader)) == ["R2", "R4"]

    played(story)


def test_a_reader_that_comes_back_hears_what_it_missed_once() -> None:
    async def story(feed: ChangeFeed) -> None:
        for number in range(1, 8):
            feed.publish(step(number))
        reader = feed.follow(ALL, token(4), pause_s=PAUSE_S, idle_s=IDLE_S)
        assert ids(await next_news(reader)) == ["R5", "R6", "R7"]
        feed.publish(step(8))
        assert ids(await next_news(reader)) == ["R8"]

    played(story)


def test_a_place_before_the_ring_or_before_a_break_is_told_to_look_anew() -> None:
    async def story(feed: ChangeFeed) -> None:
        feed.kept_max = 10
        slow = feed.follow(ALL, None, pause_s=PAUSE_S, idle_s=IDLE_S)
        feed.publish(step(1))
        assert not (await next_news(slow)).is_reset
        for number in range(2, 40):
            feed.publish(step(number))
        assert (await next_news(slow)).is_reset, "the ring went past it"
        late = feed.follow(ALL, token(5), pause_s=PAUSE_S, idle_s=IDLE_S)
        assert (await next_news(late)).is_reset
        for foreign in ("", "zzzz", "82FFFFFFFF00000001", token(39 + change_feed.AHEAD_MAX_S + 1)):
            lost = feed.follow(ALL, foreign, pause_s=PAUSE_S, idle_s=IDLE_S)
            assert (await next_news(lost)).is_reset, foreign
        ahead = feed.follow(ALL, token(41), pause_s=PAUSE_S, idle_s=IDLE_S)
        first = await next_news(ahead)
        assert (first.is_reset, first.token) == (False, token(41)), "another replica has read further"
        known = feed.follow(ALL, token(37), pause_s=PAUSE_S, idle_s=IDLE_S)
        assert ids(await next_news(known)) == ["R38", "R39"]
        for number in (40, 41, 42):
            feed.publish(step(number))
        assert ids(await next_news(ahead)) == ["R42"], "nothing twice"
        feed.forget()
        feed.publish(step(90))
        again = await next_news(known)
        assert again.is_reset
        assert again.token == token(90)

    played(story)


def test_a_reader_that_was_away_for_long_hears_everything_in_parts_that_it_may_come_back_to() -> None:
    class Log:
        async def events_of_ids(self, ids: Sequence[str]) -> list[dict[str, Any]]:
            assert len(ids) <= BATCH_MAX
            fields = ("runId", "position", "ceId", "source", "type", "time", "attempt", "data", "receivedAt")
            return [dict.fromkeys(fields) | {"_id": each, "ceId": each} for each in ids]

    async def story(_: ChangeFeed) -> None:
        broadcaster = Broadcaster(cast("RunReads", Log()))
        changes = [Change(token(number), "events", f"R/{number}") for number in range(KNOWN_MAX + 700)]
        for _again in range(2):  # the second time the first are forgotten again, and the last are known
            batches = [each async for each in broadcaster.batches(News(changes, "end"))]
            heard = [message.data.id for batch in batches for message in batch.messages]
            assert heard == [each.id for each in changes]
            assert [each.place for each in batches[:2]] == [token(BATCH_MAX - 1), token(2 * BATCH_MAX - 1)]
            assert batches[-1].place == "end"

    played(story)


def test_a_burst_wakes_readers_once_and_the_end_of_the_server_ends_them() -> None:
    async def story(feed: ChangeFeed) -> None:
        feed.publish(step(1))
        reader = feed.follow(ALL, None, pause_s=PAUSE_S, idle_s=IDLE_S)
        await next_news(reader)
        heard = asyncio.ensure_future(next_news(reader))
        await asyncio.sleep(0)
        for number in range(2, 102):
            feed.publish(step(number))
        assert len((await heard).changes) == 100
        ending = asyncio.ensure_future(next_news(reader))
        await asyncio.sleep(0)
        feed.close()
        with pytest.raises(StopAsyncIteration):
            await ending

    played(story)


def test_a_change_that_comes_alone_is_told_without_waiting_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(feed: ChangeFeed) -> None:
        reader = feed.follow(ALL, None, pause_s=PAUSE_S, idle_s=IDLE_S)
        first = asyncio.ensure_future(next_news(reader))
        await asyncio.sleep(0)
        feed.publish(step(1))
        assert (await first).token == token(1)

    monkeypatch.setattr(change_feed, "GATHER_S", 60.0)
    played(story)


def test_what_many_pages_hear_is_looked_up_and_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []
    shown: list[str] = []

    class Log:
        async def of_ids(self, ids: Sequence[str], _: Sequence[str]) -> list[dict[str, Any]]:
            asked.append(ids)
            return [{"_id": each} for each in ids]

    def show(message: Message) -> str:
        shown.append(message.data.id)
        return message.text

    async def story(feed: ChangeFeed) -> None:
        deps: Any = SimpleNamespace(feed_of=lambda _: feed, broadcaster=Broadcaster(cast("RunReads", Log())))
        pages = [
            encoded(deps, cast("Any", SimpleNamespace(headers={})), ALL, token(1), show) for _ in range(100)
        ]
        for number in range(2, 5):
            feed.publish(step(number))
        texts = await asyncio.gather(*map(anext, pages))
        assert (len(set(texts)), texts[0].count(b"event: run")) == (1, 3)
        feed.publish(step(5))
        assert len(set(await asyncio.gather(*map(anext, pages)))) == 1
        assert asked == [["R2", "R3", "R4"], ["R5"]]
        assert shown == ["R2", "R3", "R4", "R5"]

    async def admitted(*_: object) -> bool:
        return True

    monkeypatch.setattr(stream, "is_still_admitted", admitted)
    played(story)


def test_one_reader_too_many_is_refused_for_now() -> None:
    feed = ChangeFeed(readers=READERS_MAX)
    with pytest.raises(Transient) as refused:
        feed.require_capacity()
    assert refused.value.code == "too_many_readers"


class Log:
    """A log of changes that counts how often it is opened."""

    opened = 0

    async def steps(self, since: str | None, back_s: int) -> AsyncGenerator[Step]:
        self.opened += 1
        number = 0
        while True:
            number += 1
            yield step(number, "events")
            await asyncio.sleep(0)


def test_every_event_is_followed_only_while_somebody_reads_a_log() -> None:
    async def story(feed: ChangeFeed) -> None:
        log = Log()
        watching = asyncio.create_task(LogWatcher(cast("Changes", log), feed, linger_s=0.0).run_once())
        await asyncio.sleep(0.01)
        assert (log.opened, feed.token) == (0, None)
        reader = feed.follow(ALL, None, pause_s=PAUSE_S, idle_s=IDLE_S)
        await anext(reader)
        assert log.opened == 1
        await reader.aclose()
        await asyncio.wait_for(watching, 60)
        assert feed.token is None

    played(story)
