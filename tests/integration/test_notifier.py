"""A run that begins to wait is heard of by a pod that waits, through the database's own log of changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from control_plane.live.notifier import Waiter
from control_plane.runs import claiming
from control_plane.runs.options import OptionChanges
from control_plane.runs.submission import Submission
from control_plane.store import database as store
from control_plane.store.changes import Change, Changes, HistoryLost
from events.delivery.control_plane_client import ControlPlane
from events.queue.abilities import Abilities
from events.queue.claims import Claim
from events.queue.matching import Named, Seeker, WaitingClass
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from events.text.key_text import RunToken, letters
from pod_worker.queue.wakeups import Wakeups
from tests.integration.conftest import Fleet
from tests.integration.in_process import control_plane
from tests.integration.test_sweeper import submit

POD = Seeker("pod-1/abc", "experiment", Abilities(frozenset({"probe"}), 0.0, None))
WAIT_S = 60.0


async def is_there() -> bool:
    return False


async def is_gone() -> bool:
    return True


def tell_each_wait(monkeypatch: pytest.MonkeyPatch, tell: Callable[[], None]) -> None:
    """Call `tell` whenever a pod has read the queue and begins to wait."""
    usual = Waiter.wait

    async def wait(waiter: Waiter, seconds: float) -> Change | None:
        tell()
        return await usual(waiter, seconds)

    monkeypatch.setattr(Waiter, "wait", wait)


async def test_a_pod_that_waits_is_notified_up_for_a_new_run_and_for_one_that_comes_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "LOOK_AGAIN_S", 2 * WAIT_S)  # nobody looks again by himself
    waits = asyncio.Event()
    tell_each_wait(monkeypatch, waits.set)
    async with control_plane(database_url) as deps, asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(deps.watcher.run_once())

        async def asking() -> asyncio.Task[Claim | None]:
            waits.clear()
            token = letters(SystemIds().token())
            claim = deps.claimer.claim(POD, token=token, key_id=None, wait_s=WAIT_S, is_gone=is_there)
            task = tasks.create_task(claim)
            await waits.wait()
            return task

        first = await asking()
        run_id = await submit(deps)
        claim = await asyncio.wait_for(first, 50)
        assert claim is not None
        assert (claim.run_id, claim.attempt) == (run_id, 1)
        second = await asking()
        held = RunToken(run_id, 1, claim.token)
        await deps.claimer.claims.settle(held, End("preempted"), 0, jitter=0.5)
        again = await asyncio.wait_for(second, 50)
        assert again is not None
        assert (again.run_id, again.attempt) == (run_id, 2)
        third = await asking()
        far = Submission(kind="probe", spec={}, by="me", requires={"region": "far"})
        other = (await deps.submitter.submit(far)).run_id
        await deps.decider.change(other, OptionChanges(requires={}), by="me")
        changed = await asyncio.wait_for(third, 50)
        assert changed is not None
        assert changed.run_id == other, "it waits in another class now"
        watching.cancel()


async def test_a_pod_hears_of_a_run_of_its_classes_and_a_ring_for_one_that_left_goes_to_the_next(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Semaphore(0)
    tell_each_wait(monkeypatch, waits.release)
    async with control_plane(database_url) as deps, asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(deps.watcher.run_once())

        def hearing(
            gone: Callable[[], Awaitable[bool]], *classes: str
        ) -> asyncio.Task[list[WaitingClass] | None]:
            heard = deps.claimer.hear(Named(classes), key_id=None, wait_s=WAIT_S, is_gone=gone)
            return tasks.create_task(heard)

        left = hearing(is_gone, "probe/cpu/any")
        next_one = hearing(is_there, "probe/8/any", "probe/cpu/any")
        other = hearing(is_there, "experiment/cpu/any")
        for _ in range(3):
            await asyncio.wait_for(waits.acquire(), 50)
        await submit(deps)
        assert await asyncio.wait_for(left, 50) is None
        assert await asyncio.wait_for(next_one, 50) == [WaitingClass("runs", "probe/cpu/any", 0)]
        assert not other.done()
        other.cancel()
        late = hearing(is_there, "probe/cpu/any")  # whoever comes later is told of what waits already
        assert await asyncio.wait_for(late, 50)
        watching.cancel()


def test_a_worker_that_pauses_goes_on_as_soon_as_a_run_waits(fleet: Fleet) -> None:
    clock, stop, quiet = SystemClock(), threading.Event(), threading.Event()
    wakeups = Wakeups(ControlPlane(fleet.client, clock), clock)
    thread = threading.Thread(target=wakeups.run, args=(quiet,))
    thread.start()
    submission = threading.Timer(0.5, fleet.submit)
    submission.start()
    begun_s = clock.monotonic_s()
    known = wakeups.pause(Named(["probe/cpu/any"]), WAIT_S, stop)
    assert known == [WaitingClass("runs", "probe/cpu/any", 0)]
    assert clock.monotonic_s() - begun_s < WAIT_S
    submission.join()
    assert not wakeups.pause(Named(["experiment/cpu/any"]), 0.3, stop)  # nothing waits of that
    stop.set()
    begun_s = clock.monotonic_s()
    wakeups.pause(Named(["experiment/cpu/any"]), WAIT_S, stop)
    assert clock.monotonic_s() - begun_s < WAIT_S
    quiet.set()
    fleet.submit("experiment", spec={"idea": "Dropout helps"})  # so the answer comes, and the thread ends
    thread.join(60)
    assert not thread.is_alive()


async def test_a_place_that_a_restored_store_does_not_know_is_lost(emptied_url: str) -> None:
    client = store.connect(emptied_url)
    try:
        db = store.database(client, emptied_url)
        changes, name = Changes(db), "a-pod/1"
        await db.pods.insert_one({"_id": name})
        async with aclosing(changes.steps(None, 0)) as steps:
            found = (each.end async for each in steps if each.change and each.change.id == name)
            place = await anext(found)
        elsewhere = place.replace(name.encode().hex().upper(), b"b-pod/1".hex().upper())
        assert elsewhere != place
        await db.pods.insert_one({"_id": "another"})
        with pytest.raises(HistoryLost):
            await anext(changes.steps(elsewhere, 0))
    finally:
        await client.close()
