"""Which waiting pod is told of a run."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from control_plane.live import notifier
from control_plane.live.notifier import Notifier, Waiter
from control_plane.store.changes import Change
from events.kinds.declaring.queues import Mode
from events.queue.abilities import Abilities
from events.queue.matching import Named, Seeker


def pod(name: str, *kinds: str, mode: Mode = "experiment", region: str | None = None) -> Seeker:
    return Seeker(name, mode, Abilities(frozenset(kinds or {"probe"}), 0.0, region))


def queued(class_key: str | None = "probe/cpu/any", collection: str = "runs") -> Change:
    return Change("82", collection, "01K", is_queued=True, class_key=class_key)


def notified(waiters: list[Waiter | None]) -> list[str]:
    return [waiter.sought.pod for waiter in waiters if waiter is not None and waiter.is_notified]  # type: ignore[attr-defined] # a pod here


def test_a_new_run_notifies_one_pod_that_can_serve_it_the_longest_waiting_first() -> None:
    door = Notifier()
    with (
        door.waiting(pod("other kind", "experiment")) as a,
        door.waiting(pod("first")) as b,
        door.waiting(pod("second")) as c,
        door.waiting(pod("other queue", mode="ideation")) as d,
    ):
        waiters = [a, b, c, d]
        door.hear(queued())
        assert notified(waiters) == ["first"]
        door.hear(queued())
        assert notified(waiters) == ["first", "second"]
        door.hear(queued())
        door.hear(queued("probe/80/any"))
        door.hear(queued("probe/cpu/mars"))
        assert notified(waiters) == ["first", "second"]
        door.hear(queued("ideation/cpu/any", "ideation_requests"))
        assert notified(waiters) == ["first", "second"]


def test_a_run_of_which_the_log_tells_no_class_notifies_the_whole_queue() -> None:
    door = Notifier()
    with door.waiting(pod("a", "x")) as a, door.waiting(pod("b")) as b:
        door.hear(Change("82", "runs", "01K"))
        assert notified([a, b]) == []
        door.hear(queued(None))
        assert notified([a, b]) == ["a", "b"]
    assert door == Notifier()


def test_beyond_its_places_nobody_waits() -> None:
    door = Notifier()
    door._waiters.update({Waiter(pod(str(number))): None for number in range(notifier.WAITING_MAX)})
    with door.waiting(pod("late")) as waiter:
        assert waiter is None


def test_a_pod_that_names_its_classes_is_notified_of_those() -> None:
    door = Notifier()
    with door.waiting(Named(frozenset({"probe/8/any"}))) as waiter:
        assert waiter is not None
        door.hear(queued())
        assert not waiter.is_notified
        door.hear(queued("probe/8/any"))
        assert waiter.is_notified


async def test_a_notification_ends_the_wait_and_the_next_wait_begins_anew() -> None:
    door = Notifier()
    with door.waiting(pod("a")) as waiter:
        assert waiter is not None
        waiting = asyncio.create_task(waiter.wait(60.0))
        await asyncio.sleep(0)
        door.hear(queued())
        assert await asyncio.wait_for(waiting, 60) == queued()
        assert await waiter.wait(0.01) is None


def test_the_pods_of_one_key_leave_places_for_those_of_others_and_each_is_given_back() -> None:
    door = Notifier()
    with ExitStack() as stack:

        def waits(key_id: str | None) -> bool:
            return stack.enter_context(door.waiting(pod("a"), key_id)) is not None

        assert all(waits("stolen") for _ in range(notifier.WAITING_OF_ONE_MAX))
        assert not waits("stolen")
        assert waits("honest")
        assert all(waits(None) for _ in range(notifier.WAITING_MAX - notifier.WAITING_OF_ONE_MAX - 1))
        assert not waits("late")
    assert door == Notifier()


async def test_a_closed_notifier_ends_every_wait_and_lets_nobody_wait() -> None:
    door = Notifier()
    with door.waiting(pod("a")) as waiter:
        assert waiter is not None
        waiting = asyncio.create_task(waiter.wait(600.0))
        await asyncio.sleep(0)
        door.close()
        assert (await asyncio.wait_for(waiting, 60), door.is_closed) == (None, True)
        with door.waiting(pod("late")) as late:
            assert late is None
