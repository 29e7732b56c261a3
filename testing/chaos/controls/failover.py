"""The race that takes a replica set: a claim acknowledged by a primary that nobody follows any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from events.catalog import RunCompleted
from events.runtime.clock import Clock, Ids
from events.runtime.errors import LeaseLost
from podfleet.embedded.mongod import find_mongod
from testing.chaos.controls.races import Race
from testing.chaos.controls.scene import Scene
from testing.chaos.proxies.network import Network
from testing.chaos.system.cluster import MEMBERS, Cluster, prepare_cluster


@contextmanager
def running_cluster(home: Path, search_path: str | None, clock: Clock, ids: Ids) -> Iterator[Cluster]:
    """Run a replica set of three behind links that can be cut."""
    with Network() as network:
        cluster = prepare_cluster(find_mongod(search_path), home, network, clock, ids)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def claimed_on_a_minority(cluster: Cluster) -> Race:
    """Return the race: the primary is cut off from its set, and a worker claims there."""

    async def race(scene: Scene) -> None:
        plane = scene.replica()
        await scene.submit(plane)
        first, second = scene.hand("first"), scene.hand("second")
        await first.look()  # connected, so that its claim comes before the old primary steps down
        deserted = cluster.primary()
        assert deserted is not None
        cluster.links.cut(deserted, "hole between members")
        claiming = asyncio.create_task(first.take_run())

        async def has_successor() -> bool:
            others = [member for member in range(MEMBERS) if member != deserted]
            answers = [await asyncio.to_thread(cluster.hello, member) for member in others]
            return any(answer is not None and answer.get("isWritablePrimary") for answer in answers)

        try:
            await scene.until(has_successor)
            await claiming
            await second.take_run()
        finally:
            cluster.links.heal()
        for hand in (second, first):
            if hand.claim is not None:
                with suppress(LeaseLost):
                    await hand.end(RunCompleted())

    return race
