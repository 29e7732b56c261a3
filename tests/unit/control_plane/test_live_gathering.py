"""Live text at the control plane: gathered, bounded, and each reader's beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from control_plane.live import live_texts
from control_plane.live.change_feed import topics
from control_plane.live.live_texts import DOCUMENT_CHARS_MAX, HELD_MAX, STREAMS_MAX, LiveTexts
from control_plane.server.api.streams.live_text import (
    LANE_CHARS_MAX,
    LONG_AGO,
    PIECE_CHARS,
    READ_CHARS_MAX,
    Backlog,
    Reader,
    joined,
)
from control_plane.server.api.worker.live_text import LINE_BYTES_MAX, lines, read_piece
from control_plane.store.changes import Change
from control_plane.store.log.live_texts import LiveTextStore, StoredPiece, pieces_of
from events.answers.worker.live_text import TEXT_CHARS_MAX, LivePiece, LiveText
from events.runtime.errors import Rejected, Transient
from events.testing import ManualClock, SeededIds
from events.text.attempt_id import AttemptId

RUN = AttemptId("R", 1)


@dataclass
class Store:
    """Keeps documents, or is away."""

    documents: list[Sequence[StoredPiece]] = field(default_factory=list)
    inserts: int = 0
    is_away: bool = False

    async def add(self, pieces: Mapping[str, Sequence[StoredPiece]], now: datetime) -> None:
        self.inserts += 1
        if self.is_away:
            raise Transient("mongodb_unreachable", "away")
        self.documents += pieces.values()


def gathering() -> tuple[LiveTexts, Store, ManualClock]:
    store, clock = Store(), ManualClock()
    return LiveTexts(cast(LiveTextStore, store), clock, SeededIds()), store, clock


def piece(number: int = 0, text: str = "x", run: str = "R", attempt: int = 1, **more: Any) -> StoredPiece:
    return StoredPiece(run=run, attempt=attempt, lap=1, offset=number, text=text, **more)


def stored(name: str, *pieces: StoredPiece) -> dict[str, Any]:
    topics_of = [topic for each in pieces for topic in each.topics]
    return {"_id": name, "topics": topics_of, "pieces": [msgspec.to_builtins(each) for each in pieces]}


def played(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_all_runs_show_within_a_moment_is_one_insert() -> None:
    async def story() -> None:
        texts, store, _ = gathering()
        loop = asyncio.create_task(texts.run_once())
        for number in range(16):
            with texts.sending(AttemptId(f"R{number}", 1), "G", asyncio.timeout(None)) as sender:
                texts.put(sender, piece(0, run=f"R{number}"))
        while not store.documents:
            await asyncio.sleep(0.001)
        assert (store.inserts, [len(each) for each in store.documents]) == (1, [16])
        loop.cancel()

    played(story)


def test_a_document_is_bounded_and_what_nobody_stores_too() -> None:
    async def story() -> None:
        texts, store, _ = gathering()
        with texts.sending(RUN, None, asyncio.timeout(None)) as sender:
            for number in range(HELD_MAX + 7):
                texts.put(sender, piece(number, "y" * TEXT_CHARS_MAX))
        assert texts.dropped == 7
        loop = asyncio.create_task(texts.run_once())
        while not store.documents:
            await asyncio.sleep(0.001)
        assert {sum(len(each.text) for each in some) <= DOCUMENT_CHARS_MAX for some in store.documents} == {
            True
        }
        assert sum(map(len, store.documents)) == HELD_MAX
        loop.cancel()

    played(story)


def test_a_store_that_is_away_costs_what_it_did_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_texts, "GATHER_S", 0.0)

    async def story() -> None:
        texts, store, _ = gathering()
        store.is_away = True
        with texts.sending(RUN, None, asyncio.timeout(None)) as sender:
            texts.put(sender, piece())
            with pytest.raises(Transient):
                await texts.run_once()
        assert texts.dropped == 1

    played(story)


def test_a_run_shows_so_much_at_once_and_then_so_much_in_a_second() -> None:
    async def story() -> None:
        texts, _, clock = gathering()
        with texts.sending(RUN, None, asyncio.timeout(None)) as sender:
            at_once = [texts.may_take(sender, 824) for _ in range(200)]
            assert (sum(at_once), sender.dropped) == (128, 72)
            clock.advance(1.0)
            assert sum(texts.may_take(sender, 824) for _ in range(200)) == 64
        clock.advance(0.5)
        with texts.sending(RUN, None, asyncio.timeout(None)) as again:
            assert sum(texts.may_take(again, 824) for _ in range(200)) == 32, "a new request is no new budget"

    played(story)


def test_a_newer_request_of_an_attempt_ends_the_older_and_a_server_that_leaves_ends_all() -> None:
    async def story() -> None:
        texts, _, _ = gathering()
        ended: list[str] = []
        begun: asyncio.Queue[str] = asyncio.Queue()

        async def send(name: str, attempt: AttemptId) -> None:
            try:
                async with asyncio.timeout(None) as limit:
                    with texts.sending(attempt, None, limit):
                        begun.put_nowait(name)
                        await asyncio.Event().wait()
            except TimeoutError:
                ended.append(name)

        first = asyncio.create_task(send("first", RUN))
        await begun.get()
        others = [asyncio.create_task(send(name, AttemptId(name, 1))) for name in ("second", "third")]
        again = asyncio.create_task(send("again", RUN))
        for _ in range(3):
            await begun.get()
        await first
        assert (ended, len(texts)) == (["first"], 3)
        texts.close()
        await asyncio.gather(again, *others)
        assert (sorted(ended), len(texts)) == (["again", "first", "second", "third"], 0)
        with pytest.raises(Transient), texts.sending(RUN, None, asyncio.timeout(None)):
            pass

    played(story)


def test_a_process_takes_a_bounded_number_of_requests() -> None:
    async def story() -> None:
        texts, _, _ = gathering()
        open_ones = [
            texts.sending(AttemptId(f"R{n}", 1), None, asyncio.timeout(None)) for n in range(STREAMS_MAX)
        ]
        for each in open_ones:
            each.__enter__()
        with pytest.raises(Transient), texts.sending(RUN, None, asyncio.timeout(None)):
            pass
        open_ones[0].__exit__(None, None, None)
        with texts.sending(RUN, None, asyncio.timeout(None)):
            assert len(texts) == STREAMS_MAX

    played(story)


def read(*chunks: bytes) -> list[bytes]:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def whole() -> list[bytes]:
        return [line async for line in lines(body())]

    return asyncio.run(whole())


def test_lines_come_whole_wherever_the_body_is_cut_and_a_long_one_is_refused() -> None:
    assert read(b'{"a"', b":1}\n", b"\n{}\n{", b"}") == [b'{"a":1}', b"", b"{}", b"{}"]
    assert read(b"x" * LINE_BYTES_MAX, b"\n") == [b"x" * LINE_BYTES_MAX]
    for chunks in ([b"x" * LINE_BYTES_MAX, b"x"], [b"x" * (LINE_BYTES_MAX + 1) + b"\n"]):
        with pytest.raises(Rejected, match="send a text in several pieces"):
            read(*chunks)


@pytest.mark.parametrize(
    "line",
    [
        b"{", b"[]", b"null", b"\xff", b'{"lap":0}', b'{"offset":-1}', b'{"text":3}',
        b'{"values":{"a":1e999}}',
        b'{"values":{"a.b":1}}', b'{"text":"' + b"x" * (TEXT_CHARS_MAX + 1) + b'"}', b'{"a":' + b"[" * 20_000,
    ],
)  # fmt: skip
def test_a_line_that_is_no_piece_is_told_with_its_number(line: bytes) -> None:
    with pytest.raises(Rejected, match=r"line 7 is no piece such as \{"):
        read_piece(line, 7)


def test_a_piece_is_what_its_line_says() -> None:
    whole = LivePiece(lap=2, offset=3, text="é\n", values={"tokens": 4.0})
    assert read_piece('{"lap":2,"offset":3,"text":"é\\n","values":{"tokens":4}}'.encode(), 1) == whole
    assert read_piece(b"{}", 1) == LivePiece()


def test_a_reader_that_comes_later_gets_the_present_attempts_within_bounds() -> None:
    newest_first = [
        piece(4, "new", attempt=2, group="G"), piece(9, "of the dead", group="G"),
        piece(0, "says", attempt=2, group="G"), piece(0, "a stranger's"),
        *(piece(1024 * number, "z" * 1024, run="S", group="G") for number in reversed(range(100))),
    ]  # fmt: skip
    found = Backlog("live/group/G")
    found.add([stored(str(number), each) for number, each in enumerate(newest_first)])
    assert (found.is_full, len(found.documents)) == (False, 104)
    texts = [each for data in found.encoded() for each in msgspec.json.decode(data, type=list[LiveText])]
    assert [(each.text, each.attempt) for each in texts if each.run == "R"] == [("saysnew", 2)]
    long = [each for each in texts if each.run == "S"]
    assert sum(len(each.text) for each in long) == LANE_CHARS_MAX
    assert [each.offset for each in long] == [4 * 1024 * number for number in range(9, 25)]


@pytest.mark.parametrize(
    ("topic", "runs", "chars", "batches_max"),
    [
        ("live/run/R", 1, 1024, LANE_CHARS_MAX // 1024),
        ("live/group/G", 9, 1024, READ_CHARS_MAX // (9 * 1024)),
        ("live/group/G", 9, 0, READ_CHARS_MAX // (9 * PIECE_CHARS) + 1),
    ],
)
def test_no_more_is_read_than_a_reader_can_use(topic: str, runs: int, chars: int, batches_max: int) -> None:
    async def story() -> None:
        batches = 0

        async def latest(*_: object) -> AsyncIterator[list[dict[str, Any]]]:
            nonlocal batches
            while True:
                batches += 1
                some = [piece(0, "x" * chars, run=f"R{each or ''}", group="G") for each in range(runs)]
                yield [stored(f"{batches}/{each.run}", each) for each in some]

        deps: Any = SimpleNamespace(live=SimpleNamespace(store=SimpleNamespace(latest=latest)))
        request: Any = SimpleNamespace(headers={})
        reader = Reader(deps, request, topic, LONG_AGO, asyncio.Semaphore(1))
        texts = "".join([each async for each in _decoded(reader._backlog("place"))])
        assert batches <= batches_max
        assert len(texts) == (runs * LANE_CHARS_MAX if chars else 0)

    played(story)


async def _decoded(events: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for each in events:
        data = each.decode().split("data: ", 1)[1].split("\n", 1)[0]
        for text in msgspec.json.decode(data, type=list[LiveText]):
            yield text.text


def test_pieces_that_follow_each_other_are_joined_and_others_are_not() -> None:
    said = [
        piece(0, "a", values={"n": 1.0}), piece(0, "b", run="S"), piece(1, "c", values={"n": 2.0, "m": 3.0}),
        piece(1, "d", run="S"), piece(9, "gap"), piece(0, "t", attempt=2),
    ]  # fmt: skip
    texts = joined(each.shown for each in said)
    assert [(each.run, each.offset, each.text) for each in texts] == [
        ("R", 0, "ac"), ("R", 9, "gap"), ("R", 0, "t"), ("S", 0, "bd"),
    ]  # fmt: skip
    assert texts[0].values == {"n": 2.0, "m": 3.0}
    long = joined(piece(1_000 * n, "x" * 1_000).shown for n in range(9))
    assert [len(each.text) for each in long] == [4_000, 4_000, 1_000]


@pytest.mark.parametrize(
    "document",
    [
        None, {}, {"topics": "live/run/R"}, {"topics": [3]}, {"topics": ["live/run/R"]},
        {"topics": ["live/run/R"], "pieces": [{"run": "R"}]},
        {"topics": ["live/run/R"], "pieces": [{"run": "R", "attempt": 1, "lap": 1, "offset": 0, "text": 7}]},
        {"topics": ["x" * 1_000], "pieces": []},
    ],
)  # fmt: skip
def test_a_damaged_document_is_nothing_to_any_reader(document: Any) -> None:
    change = Change("82", "live_texts", "D", document=document)
    assert topics(change) in ((), ("live/run/R",))
    assert pieces_of(document, "live/run/R") == []


def test_a_reader_of_one_group_gets_nothing_of_another() -> None:
    pieces = [
        {"run": "R", "attempt": 1, "lap": 1, "offset": 0, "text": "a", "group": "G"},
        {"run": "S", "attempt": 1, "lap": 1, "offset": 0, "text": "b", "group": "H"},
        {"run": "T", "attempt": 1, "lap": 1, "offset": 0, "text": "c"},
    ]
    document = {"topics": ["live/run/R", "live/group/G"], "pieces": pieces}
    assert [each.run for each in pieces_of(document, "live/group/G")] == ["R"]
    assert [each.run for each in pieces_of(document, "live/run/T")] == ["T"]
