"""Code of a kind of another package that blocks holds up its own kind, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from control_plane.reads.kinds import errors as kind_errors
from control_plane.reads.kinds import loops as kind_loops
from control_plane.reads.kinds.loops import Ended, Held, KindLoop, KindLoops
from control_plane.reads.kinds.parts import KindPart, rows_of
from control_plane.server.web import sections
from control_plane.server.web.sections import RunPage, Section
from control_plane.store.reads import Part
from events.kinds import ROWS
from events.runtime.clock import SystemClock

OPEN_S = 100.0  # nothing waits that long


class Connection:
    """The connection of a loop, which belongs to it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_closed = False
        self.client = self

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.is_closed = True


def connect() -> Any:
    return Connection()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a loop that is not held answer whenever it can: on a busy machine that takes its time."""
    monkeypatch.setattr(kind_errors, "_LOGGED", set())
    limit_to(monkeypatch, OPEN_S)


def limit_to(patch: pytest.MonkeyPatch, seconds: float) -> None:
    patch.setattr(kind_loops, "ANSWER_S", seconds)
    patch.setattr(kind_errors, "PART_S", seconds)


@contextmanager
def impatience() -> Iterator[None]:
    """Wait for what is held only as long as it takes to see that it is."""
    with pytest.MonkeyPatch.context() as patch:
        limit_to(patch, 0.2)
        yield


@pytest.fixture
async def loops() -> AsyncIterator[KindLoops]:
    made = KindLoops(connect)
    yield made
    await made.close()


def loop_of(loops: KindLoops, kind: str) -> KindLoop:
    found = loops.of(kind)
    assert found is not None
    return found


async def who(db: Any) -> tuple[str, bool]:
    return threading.current_thread().name, db.loop is asyncio.get_running_loop()


class Sleeping:
    """Code that holds its loop until it is let go."""

    def __init__(self) -> None:
        self.begun, self.until = threading.Event(), threading.Event()

    async def __call__(self, _: object) -> str:
        self.begun.set()
        self.hold()
        return "awake"

    def hold(self) -> None:
        assert self.until.wait(OPEN_S)


class Spinning(Sleeping):
    """The same, with a processor of its own."""

    def hold(self) -> None:
        clock = SystemClock()
        ends_s = clock.monotonic_s() + OPEN_S
        while not self.until.is_set():
            assert clock.monotonic_s() < ends_s


async def hold(loop: KindLoop, blocking: Sleeping) -> asyncio.Task[str]:
    """Hold a loop; return what waits for it."""
    held = asyncio.create_task(loop.run(blocking))
    assert await asyncio.to_thread(blocking.begun.wait, OPEN_S)
    return held


def test_a_kind_of_this_package_runs_on_the_loop_of_all() -> None:
    assert [KindLoops(connect).of(kind) for kind in ROWS] == [None] * len(ROWS)


async def test_each_kind_of_another_package_has_a_loop_and_a_connection_of_its_own(loops: KindLoops) -> None:
    assert await loop_of(loops, "hello").run(who) == ("kind hello", True)
    assert await loop_of(loops, "other").run(who) == ("kind other", True)
    assert loops.of("hello") is loops.of("hello")


@pytest.mark.parametrize("how", [Sleeping, Spinning])
async def test_while_code_holds_its_loop_others_go_on_and_its_own_kind_is_refused(
    how: type[Sleeping], loops: KindLoops
) -> None:
    blocking = how()
    held = await hold(loop_of(loops, "hello"), blocking)
    with impatience(), pytest.raises(Held, match="'hello'"):
        await loop_of(loops, "hello").run(who)
    assert await loop_of(loops, "other").run(who) == ("kind other", True)
    assert not held.done()
    blocking.until.set()
    assert await held == "awake"
    assert await loop_of(loops, "hello").run(who) == ("kind hello", True)


async def task_that_exits(_: object) -> str:
    async def leave() -> None:
        raise SystemExit(3)

    task = asyncio.create_task(leave())
    await asyncio.wait([task])
    assert isinstance(task.exception(), SystemExit)
    return "here"


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), BaseException("x")]
)
async def test_what_would_end_a_program_is_told_where_it_is_waited_for(
    error: BaseException, loops: KindLoops
) -> None:
    async def fail(_: object) -> None:
        raise error

    with pytest.raises(Ended) as told:
        await loop_of(loops, "hello").run(fail)
    assert told.value.__cause__ is error
    assert await loop_of(loops, "hello").run(who) == ("kind hello", True)


async def test_a_task_that_ends_programs_does_not_end_the_loop(loops: KindLoops) -> None:
    assert await loop_of(loops, "hello").run(task_that_exits) == "here"


async def test_a_connection_is_closed_on_its_loop_and_a_held_loop_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []

    class Last(Connection):
        async def close(self) -> None:
            await super().close()
            limit_to(monkeypatch, 0.2)  # whoever is asked next is held

    def remembered() -> Any:
        made.append(Last())
        return made[-1]

    loops, blocking = KindLoops(remembered), Sleeping()
    await loop_of(loops, "hello").run(who)
    await loop_of(loops, "other").run(who)
    held = await hold(loop_of(loops, "other"), blocking)
    await loops.close()
    assert [each.is_closed for each in made] == [True, False]
    blocking.until.set()
    await held


PART = KindPart(name="rows", title="Rows", rank=60, columns=("a",), read=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["read", "rows"])
async def test_rows_of_a_kind_that_blocks_are_told_and_made_again_once_it_goes_on(
    place: str, loops: KindLoops
) -> None:
    until = threading.Event()

    async def read(_: object, run_id: str) -> Part:
        assert place != "read" or until.wait(OPEN_S)
        return Part([{"a": run_id}], False)

    def rows(documents: Any) -> Any:
        assert place != "rows" or until.wait(OPEN_S)
        return documents

    part, reads = replace(PART, read=read, rows=rows), SimpleNamespace()
    for _ in range(2):
        with impatience():
            told = await rows_of("hello", part, reads, "R", loop_of(loops, "hello"))  # type: ignore[arg-type]
        assert "'Rows' of the kind 'hello' could not be made" in str(told.problem)
    until.set()
    made = await rows_of("hello", part, reads, "R", loop_of(loops, "hello"))  # type: ignore[arg-type]
    assert (made.rows, made.problem) == ([{"a": "R"}], None)


async def test_a_section_of_a_kind_is_loaded_on_its_loop_with_what_is_connected_there(
    loops: KindLoops, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(page: Any) -> Mapping[str, Any]:
        name, is_own = await who(page.deps)
        return {"thread": name, "is_own": is_own}

    monkeypatch.setattr(sections, "of_kinds", lambda: {"hello": (Section(60, "t", load),)})
    monkeypatch.setattr(sections, "OF_EVERY_KIND", ())
    reading = SimpleNamespace(parts={}, kind_loops=loops)
    run: Any = SimpleNamespace(kind="hello", sections=())
    deps: Any = SimpleNamespace(reading=reading, on=lambda db: db)
    (shown,) = await sections.sections(RunPage(deps, run), sections.placed("hello", ()))
    assert shown.view == {"thread": "kind hello", "is_own": True}
