"""Live text on the pod: pieces soon, nobody waits, and no secret leaves."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.delivery.pipe import SHOWN_CHARS_MAX, BrokenFrame, Shown, decode_child, encode
from events.queue.claims import Claim
from events.runtime.clock import SystemClock
from events.runtime.errors import Barred, LeaseLost, Transient
from events.testing import ManualClock
from pod_worker.attempt import live_stream
from pod_worker.attempt.live_stream import HELD_CHARS_MAX, HELD_MAX, LiveStream
from pod_worker.child.live_view import ChildLiveView, FlushRule, flush_rule
from pod_worker.child.main import Interruption, PipeReporter
from pod_worker.child.pipe_reader import PipeReader

CLAIM = Claim("runs", "R", 2, "token", "probe", {}, None)
SECRET = "sk-0123456789abcdef"
SOON_S = 30.0


@dataclass
class Shows:
    """A view whose clock a test turns; nothing is late by itself."""

    clock: ManualClock = field(default_factory=ManualClock)
    pieces: list[Shown] = field(default_factory=list)

    def view(self, monkeypatch: pytest.MonkeyPatch, rule: FlushRule | None = None) -> ChildLiveView:
        monkeypatch.setattr(ChildLiveView, "_wake_timer", lambda _: None)
        return ChildLiveView(self.pieces.append, self.clock, rule or FlushRule())

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.pieces]


def test_a_piece_goes_at_once_then_by_length_line_time_lap_or_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shows = Shows()
    view = shows.view(monkeypatch)
    view.show("first", 1, {})
    view.show("a", 1, {})
    view.show("b", 1, {"tokens": 1.0})
    assert shows.texts == ["first"]
    view.show("c" * 62, 1, {"tokens": 2.0})
    assert shows.texts[1:] == ["ab" + "c" * 62]
    view.show("line\n", 1, {})
    view.show("d", 1, {})
    shows.clock.advance(0.11)
    view.show("e", 1, {})
    view.show("f", 1, {})
    view.show("other lap", 2, {})
    view.flush()
    assert shows.texts[2:] == ["line\n", "de", "f", "other lap"]
    assert [(each.lap, each.offset) for each in shows.pieces] == [
        *((1, 0), (1, 5), (1, 69), (1, 74), (1, 76)),
        (2, 0),
    ]
    assert shows.pieces[1].values == {"tokens": 2.0}


@given(st.lists(st.tuples(st.text(max_size=900), st.integers(1, 3)), max_size=20))
def test_the_pieces_of_a_lap_are_its_text_whatever_it_is(shown: list[tuple[str, int]]) -> None:
    pieces: list[Shown] = []
    view = ChildLiveView(pieces.append, ManualClock(), FlushRule(seconds=0.0))
    for text, lap in shown:
        view.show(text, lap, {"n": 1.0})
    view.flush()
    for lap in (1, 2, 3):
        text = ""
        for piece in (each for each in pieces if each.lap == lap):
            assert piece.offset == len(text)
            text += piece.text
        assert text == "".join(each for each, of in shown if of == lap)
    for piece in pieces:
        assert len(encode(piece)) <= 4096
        assert decode_child(encode(piece)) == piece


def test_what_can_be_shown_nowhere_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shows = Shows()
    view = shows.view(monkeypatch, FlushRule(seconds=0.0))
    many = {f"v{number}": 1.0 for number in range(40)}
    odd = {"nan": float("nan"), "inf": float("-inf"), "Upper": 1.0, "a.b": 1.0, "": 1.0, "x" * 41: 1.0}
    view.show("half \ud83d", 1, cast(Any, {**odd, "huge": 10**400, "text": "many", "good": 3}))
    view.show("never", 0, {})
    view.show("never", cast(Any, "1"), {})
    view.show("", 1, many)
    assert [each.text for each in shows.pieces] == ["half ?", ""]
    assert shows.pieces[0].values == {"good": 3.0}
    assert len(shows.pieces[1].values) == 16
    assert [decode_child(encode(each)) for each in shows.pieces] == shows.pieces


def test_what_is_late_goes_by_itself() -> None:
    told: queue.SimpleQueue[Shown] = queue.SimpleQueue()
    view = ChildLiveView(told.put, SystemClock(), FlushRule(seconds=0.01))
    view.show("first", 1, {})
    view.show(" second", 1, {})
    assert [told.get(timeout=SOON_S).text, told.get(timeout=SOON_S).text] == ["first", " second"]


def test_a_pipe_that_nobody_reads_takes_little_live_text_and_leaves_room_for_facts() -> None:
    reader, writer = os.pipe()
    reporter = PipeReporter(writer, Interruption())
    piece = Shown(lap=1, offset=0, text="x" * SHOWN_CHARS_MAX)
    taken = sum(reporter.offer(piece) for _ in range(1_000))
    assert 0 < taken < 60, "a pipe takes 64 KiB"
    reporter.send(piece)  # what is not dropped finds room at once
    os.set_blocking(reader, False)
    assert os.read(reader, 1 << 20).count(b"\n") == taken + 1
    assert reporter.offer(piece)
    os.close(reader)
    assert not reporter.offer(piece)
    os.close(writer)


@pytest.mark.parametrize(
    "frame",
    [
        {"lap": 0, "offset": 0}, {"lap": 1, "offset": -1}, {"lap": 1, "offset": 2**60},
        {"lap": 1, "offset": 0, "text": "x" * (SHOWN_CHARS_MAX + 1)},
        {"lap": 1, "offset": 0, "values": {"Bad name": 1}}, {"lap": 1, "offset": 0, "values": {"$set": 1}},
        {"lap": 1, "offset": 0, "values": {f"v{n}": 1 for n in range(17)}},
        {"lap": 1, "offset": 0, "values": {"a": "1"}}, {"lap": 1, "offset": 0, "values": {"a": None}},
    ],
)  # fmt: skip
def test_a_lying_frame_is_none(frame: dict[str, Any]) -> None:
    with pytest.raises(BrokenFrame):
        decode_child(json.dumps({"frame": "shown", **frame}).encode())


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "-1e308"])
def test_a_number_that_is_none_is_none(number: str) -> None:
    with pytest.raises(BrokenFrame):
        decode_child(b'{"frame":"shown","lap":1,"offset":0,"values":{"a":%s}}' % number.encode())


@contextmanager
def heard(*secrets: str) -> Iterator[tuple[Any, PipeReader]]:
    """Give what reads frames without a process, and close it."""
    pipes = [os.pipe() for _ in range(4)]
    events, stdout, stderr, death = (reader for reader, _ in pipes)
    reader = PipeReader(events=events, stdout=stdout, stderr=stderr, death=death, secrets=secrets)
    try:
        yield reader._without_secrets, reader
    finally:
        reader.close()
        for _, writer in pipes:
            os.close(writer)


@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
def test_a_secret_that_pieces_cut_is_stars_and_nothing_moves(cut: int) -> None:
    whole = f"the key is {SECRET}, ski"
    at = whole.index(SECRET) + cut
    with heard(SECRET) as (read, _):
        pieces = [Shown(lap=1, offset=0, text=whole[:at]), Shown(lap=1, offset=at, text=whole[at:])]
        shown = [read(each) for each in (*pieces, Shown(lap=1, offset=len(whole), text="s"))]
    text = ""
    for piece in shown:
        assert piece.offset == len(text)
        text += piece.text
    assert text == whole.replace(SECRET, "*" * len(SECRET)), "but the last s, which may begin one"


def test_a_secret_after_a_gap_in_another_lap_or_renewed_is_hidden_too() -> None:
    with heard(SECRET) as (read, reader):
        first = read(Shown(lap=1, offset=0, text=f"a {SECRET[:6]}"))
        other = read(Shown(lap=2, offset=8, text=f"b {SECRET} c"))
        late = read(Shown(lap=1, offset=50, text=f"{SECRET[6:]} d"))
        reader.hide_renewed(["renewed-secret-of-a-user"])
        renewed = read(Shown(lap=3, offset=0, text="e renewed-secret-of-a-user f"))
    assert first.text == "a "
    assert other.text == f"b {'*' * len(SECRET)} c"
    assert SECRET[:6] not in late.text
    assert renewed.text == f"e {'*' * len('renewed-secret-of-a-user')} f"


def test_settings_that_make_no_sense_say_what_to_set() -> None:
    chars, seconds = "PODFLEET_STREAM_FLUSH_CHARS", "PODFLEET_STREAM_FLUSH_SECONDS"
    assert flush_rule({chars: "16", seconds: "0.5"}) == FlushRule(16, 0.5)
    assert flush_rule({chars: "", seconds: ""}) == FlushRule()
    for name, value in ((chars, "0"), (chars, "x"), (chars, "9" * 50), (chars, "²"), (seconds, "nan"),
                        (seconds, "0"), (seconds, "1e9"), (seconds, "soon")):  # fmt: skip
        with pytest.raises(ValueError, match=rf"{name} is .*; it has to be a .*number"):
            flush_rule({name: value})


@dataclass
class Taker:
    """A control plane that takes lines, or does what a test says first."""

    does: list[Exception | None] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    posts: int = 0
    may_go: threading.Event = field(default_factory=threading.Event)

    def post(self, claim: Claim, lines: Iterable[bytes]) -> None:
        self.posts += 1
        assert self.may_go.wait(SOON_S)
        if self.does and (error := self.does.pop(0)) is not None:
            raise error
        self.lines += [line for chunk in lines for line in chunk.split(b"\n") if line]


@dataclass
class Started:
    """Threads that a test joins."""

    threads: list[threading.Thread] = field(default_factory=list)

    def __call__(self, name: str, work: Any) -> None:
        self.threads.append(threading.Thread(target=work, name=name))
        self.threads[-1].start()

    def join(self) -> None:
        for each in self.threads:
            each.join(SOON_S)
            assert not each.is_alive()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_stream, "BACK_OFF_FIRST_S", 0.001)


def piece(number: int, text: str = "x") -> Shown:
    return Shown(lap=1, offset=number, text=text)


def test_an_attempt_that_shows_nothing_starts_nothing() -> None:
    started, taker = Started(), Taker()
    LiveStream(taker, CLAIM, SystemClock(), started).stop()
    LiveStream(None, CLAIM, SystemClock(), started).put(piece(0))
    assert not started.threads


@pytest.mark.usefixtures("quick")
def test_of_what_nobody_takes_the_newest_stays_within_bounds() -> None:
    started, taker = Started(), Taker([Transient("x", "away"), None])
    stream = LiveStream(taker, CLAIM, SystemClock(), started)
    for number in range(3 * HELD_MAX):
        stream.put(piece(number))
    assert len(stream._pieces) == HELD_MAX
    for number in range(400):
        stream.put(piece(number, "y" * SHOWN_CHARS_MAX))
    assert sum(len(each.text) for each in stream._pieces) <= HELD_CHARS_MAX
    taker.may_go.set()
    stream.stop()
    started.join()
    assert json.loads(taker.lines[-1])["offset"] == 399, "the newest"
    stream.put(piece(1))
    assert not stream._pieces, "what comes after the end is dropped"


@pytest.mark.parametrize("error", [Barred("x", "no key"), LeaseLost(CLAIM.attempt_id)])
def test_a_control_plane_that_says_no_is_asked_once(error: Exception) -> None:
    started, taker = Started(), Taker([error])
    taker.may_go.set()
    stream = LiveStream(taker, CLAIM, SystemClock(), started)
    stream.put(piece(0))
    started.join()
    stream.put(piece(1))
    assert (taker.posts, len(stream._pieces)) == (1, 0)


@pytest.mark.usefixtures("quick")
def test_a_control_plane_that_fails_is_asked_again_until_the_attempt_ends() -> None:
    started, taker = Started(), Taker([Transient("x", "away"), Transient("x", "odd"), None])
    taker.may_go.set()
    stream = LiveStream(taker, CLAIM, SystemClock(), started)
    stream.put(piece(0))
    stream.put(piece(1))
    while taker.posts < 3:
        started.threads[0].join(0.001)
    stream.stop()
    started.join()
    assert [json.loads(line).get("offset", 0) for line in taker.lines] == [0, 1]


def test_after_the_attempt_a_control_plane_that_is_away_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_stream, "LAST_S", -1.0)
    started, taker = Started(), Taker([Transient("x", "away")] * 50)
    stream = LiveStream(taker, CLAIM, SystemClock(), started)
    stream.put(piece(0))
    stream.stop()
    taker.may_go.set()
    started.join()
    assert taker.posts <= 1
