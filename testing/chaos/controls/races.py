"""Two actors, stepped against a real mongod into the one order of steps in which a bug shows.

Each race is run by the product's own parts, and has to leave nothing wrong; and by the same
parts with one known bug among them, and has to turn the checker red.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from events.catalog import (
    RunCompleted,
    RunLog,
    RunPreempted,
    RunStarted,
    StageCompleted,
    StageProgress,
    StageStarted,
)
from events.delivery.sender import Declined, Ingest, Taken
from events.kinds.declaring.fact import Fact
from events.runtime.errors import LeaseLost, Transient
from testing.chaos.controls.scene import SHORT_S, Crash, CrashOnce, Gate, Hand, Scene, take

STORY: Final[tuple[Fact, ...]] = (
    RunStarted(),
    StageStarted(stage="probe", index=1, total=1),
    StageProgress(stage="probe", progress=0.5),
    StageCompleted(stage="probe", duration_s=1.0),
)
Race = Callable[[Scene], Awaitable[None]]


async def zombie_settles(scene: Scene) -> None:
    """A worker that was taken for dead settles, after another one has the run."""
    plane = scene.replica()
    await scene.submit(plane)
    zombie, heir = scene.hand("zombie", ttl_s=SHORT_S), scene.hand("heir")
    assert await zombie.take_run()
    zombie.say(*STORY)
    await scene.rescue(plane)
    await scene.promote(plane)
    assert await heir.take_run()
    heir.say(RunStarted())
    with suppress(LeaseLost):
        await zombie.end(RunCompleted())
    await _end(heir)


async def attempts_count_anew(scene: Scene) -> None:
    """A run is preempted in its middle, and the next attempt says as much as the first."""
    plane = scene.replica()
    await scene.submit(plane)
    first, second = scene.hand("first"), scene.hand("second")
    assert await first.take_run()
    first.say(*STORY)
    await first.end(RunPreempted(reason="the pod goes away"))
    await first.deliver(plane)
    assert await second.take_run()
    second.say(*STORY)
    await second.deliver(plane)
    await _end(second)


async def renewed_while_judged(scene: Scene) -> None:
    """An owner renews between the look of a rescuer and its judgement."""
    gate = Gate()
    plane = scene.replica()
    judge = scene.replica(before=("runs", "rescue", gate))
    await scene.submit(plane)
    owner, other = scene.hand("owner", ttl_s=SHORT_S), scene.hand("other")
    assert await owner.take_run()
    owner.say(RunStarted())
    rescuing = asyncio.create_task(scene.rescue(judge))
    await gate.reached.wait()
    owner.lengthen()
    await owner.renew()
    gate.opened.set()
    await rescuing
    await scene.promote(plane)
    await other.take_run()
    await _end(owner)
    if other.claim is not None:
        await _end(other)


async def appliers_cross(scene: Scene) -> None:
    """One replica folds a few events and is held up, while another folds them all to the end."""
    gate = Gate()
    slow, plane = scene.replica(before=("runs", "advance", gate)), scene.replica()
    worker = await scene.worker_with_run(plane)
    worker.say(*STORY[:3])
    early = asyncio.create_task(take(slow, worker.rows()))
    await gate.reached.wait()
    worker.say(*STORY[3:])
    await worker.end(RunCompleted())
    await worker.deliver(plane)
    gate.opened.set()
    await early


async def batches_overtake(scene: Scene) -> None:
    """The second event of a run arrives after the third."""
    plane = scene.replica()
    worker = await scene.worker_with_run(plane)
    worker.say(*STORY)
    rows = worker.rows()
    await take(plane, [rows[0], rows[2]])
    await take(plane, [rows[1]])
    await worker.end(RunCompleted())
    await worker.deliver(plane)


async def nobody_speaks(scene: Scene) -> None:
    """A run ends by decisions alone: no event comes that would take its journal along."""
    plane = scene.replica()
    run_id = await scene.submit(plane)
    await plane.decider.cancel(run_id, by="user:race")


async def replica_dies_applying(scene: Scene) -> None:
    """A replica dies between the log and the documents, and the worker sends again."""
    dying, plane = scene.replica(before=("documents", "write", CrashOnce())), scene.replica()
    worker = await scene.worker_with_run(plane)
    worker.say(*STORY)
    with suppress(Crash):
        await take(dying, worker.rows())
    await worker.end(RunCompleted())
    await worker.deliver(plane)


async def member_is_rescued(scene: Scene) -> None:
    """The worker of a group's member dies, another one completes it, and the group closes."""
    plane = scene.replica()
    await scene.make_group(plane)
    dead, heir = scene.hand("dead", ttl_s=SHORT_S), scene.hand("heir")
    assert await dead.take_run()
    await scene.rescue(plane)
    await scene.promote(plane)
    assert await heir.take_run()
    await plane.advancer.run_once()
    await heir.end(RunCompleted())
    await heir.deliver(plane)
    await plane.advancer.run_once()


@dataclass(slots=True)
class FailingOnce:
    """An ingest that cannot take the first request."""

    ingest: Ingest
    is_over: bool = False

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        if not self.is_over:
            self.is_over = True
            raise Transient("control_plane_refuses", "the control plane answers 503")
        return self.ingest.post(lines, token=token, timeout_s=timeout_s)


async def ingest_is_away(scene: Scene) -> None:
    """The control plane refuses a request, and takes the next one."""
    plane = scene.replica()
    worker = await scene.worker_with_run(plane)
    worker.say(*STORY)
    await worker.deliver(plane, lambda ingest: scene.parts.ingest(FailingOnce(ingest)))
    await worker.end(RunCompleted())


async def _end(hand: Hand) -> None:
    """Complete the run; an owner who lost it leaves it."""
    hand.say(RunLog(message="nearly there"))
    with suppress(LeaseLost):
        await hand.end(RunCompleted())


RACES: Final[Mapping[str, Race]] = {
    "no fence": zombie_settles,
    "sequence per run": attempts_count_anew,
    "read-then-write rescue": renewed_while_judged,
    "no compare on apply": appliers_cross,
    "apply over a gap": batches_overtake,
    "journal never swept": nobody_speaks,
    "mark before apply": replica_dies_applying,
    "stale counters": member_is_rescued,
    "drop on error": ingest_is_away,
}
