"""Groups: how fast the slots of a matrix are submitted, and how long the next values of a study take."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from control_plane.model.groups.members import Trial
from control_plane.model.groups.study import identity, study_of
from control_plane.runs.decisions import Decider
from control_plane.runs.groups.advancer import Advancer
from control_plane.runs.groups.proposer import Proposer
from control_plane.runs.groups.service import GroupService, WantedGroup
from control_plane.runs.submission import Submitter
from control_plane.store import database, schema
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.runs import Runs
from control_plane.store.queue.submissions import Submissions
from control_plane.store.reads import RunReads
from events.runtime.clock import SystemClock, SystemIds
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.servers import mongod

SLOTS: Final = 10_000
MEMBERS: Final = 1_000
ASKS: Final = 5
BEAT_S: Final = 0.001
CLOCK: Final = SystemClock()
IDS: Final = SystemIds()
BARE: Final = "PyMongo, the same documents"
BATCH: Final = 100  # documents of one insert, as a group submits them
JOB: Final[dict[str, Any]] = {
    "kind": "job",
    "spec": {
        "command": "python train.py --lr '{lr}' --depth 12 --data '$PODFLEET_INPUTS'",
        "tree": "0" * 64,
        "env": {"RATE": "{lr}"},
        "params": {"lr": 0.0},
    },
}
PROBE: Final[dict[str, Any]] = {"kind": "probe", "spec": {}}
SUBMITTED: Final = (
    Metric("slots", "/s", goals=(Goal(1_000.0),)),
    Metric("one look at a whole group", "ms", more_is_better=False),
)
INSERTED: Final = (SUBMITTED[0],)
PROPOSED: Final = (
    Metric("proposal", "s", more_is_better=False, goals=(Goal(1.0),)),
    Metric("longest stop of the event loop", "ms", more_is_better=False, goals=(Goal(10.0),)),
)
SPACE: Final[dict[str, Any]] = {
    "lr": {"type": "log", "low": 0.0001, "high": 1.0},
    "x": {"type": "uniform", "low": -1.0, "high": 1.0},
    "depth": {"type": "int", "low": 1, "high": 12},
}


class NoFiles:
    """Runs without files: nothing is wrong with them."""

    async def unfit(self, run_id: str) -> list[str]:
        """Return nothing."""
        return []


def run(setting: Setting) -> Iterator[Row]:
    """Submit a matrix at once, then ask for the next values of a study."""
    slots, members = (200, 30) if setting.small else (SLOTS, MEMBERS)
    with mongod(setting.scratch / "groups") as server:
        ways = {OURS: partial(_driven, _submitted, server.url(), slots, PROBE, "events")}
        yield from contest(f"a matrix of {slots:,} slots, all at once", SUBMITTED, ways, setting)
        ways = {
            OURS: partial(_driven, _submitted, server.url(), slots, JOB, "params.lr"),
            BARE: partial(_driven, _inserted, server.url(), slots),
        }
        yield from contest(f"a matrix of {slots:,} jobs, all at once", INSERTED, ways, setting)
    ways = {OURS: partial(_driven, _proposed, members)}
    yield from contest(f"a study of {members:,} by tpe", PROPOSED, ways, setting)


def _driven(step: Any, *arguments: Any) -> Figures:
    figures: Figures = asyncio.run(step(*arguments))
    return figures


async def _inserted(url: str, slots: int) -> Figures:
    """Insert what a matrix of jobs was submitted as, without anything that asks or decides."""
    await _submitted(url, slots, JOB, "params.lr", is_kept=True)
    client = database.connect(url)
    try:
        db = database.database(client, url)
        stored = {name: await db[name].find().to_list() for name in ("run_specs", "runs")}
        for name in stored:
            await db[name].delete_many({})
        begun_s = CLOCK.monotonic_s()
        for start in range(0, slots, BATCH):
            for name, documents in stored.items():
                await db[name].insert_many(documents[start : start + BATCH], ordered=False)
        took_s = CLOCK.monotonic_s() - begun_s
        for name in stored:
            await db[name].delete_many({})
        return {"slots": slots / took_s}
    finally:
        await client.close()


async def _submitted(
    url: str, slots: int, run: dict[str, Any], parameter: str, *, is_kept: bool = False
) -> Figures:
    client = database.connect(url)
    try:
        db = database.database(client, url)
        await schema.migrate(db)
        groups, runs = Groups(db), Runs(db)
        submitter = Submitter(runs, Submissions(db), IDS, RunReads(db), groups)
        decider = Decider(runs, Documents(db), Events(db), NoFiles(), IDS, CLOCK)
        advancer = Advancer(groups, submitter, decider)
        name = f"bench-{IDS.ulid().lower()}"
        plan = {"kind": "matrix", "values": {parameter: list(range(slots))}, "parallel": slots}
        await GroupService(groups, submitter, CLOCK).create(
            WantedGroup(id=name, run=run, plan=plan, by="bench")
        )
        begun_s = CLOCK.monotonic_s()
        done = 0
        while done < slots:
            done += await advancer.run_once()
        took_s = CLOCK.monotonic_s() - begun_s
        begun_s = CLOCK.monotonic_s()
        await groups.members(name, 0)
        look_s = CLOCK.monotonic_s() - begun_s
        for collection in ("groups",) if is_kept else ("groups", "run_specs", "runs"):
            await db[collection].delete_many({})
        return {"slots": slots / took_s, "one look at a whole group": 1_000 * look_s}
    finally:
        await client.close()


async def _proposed(members: int) -> Figures:
    study = study_of(
        {"sampler": "tpe", "space": SPACE, "goal": "min:value", "max_runs": 2 * members, "parallel": 4}
    )
    values = study_of(
        {"sampler": "random", "space": SPACE, "goal": "min:value", "max_runs": 2 * members, "parallel": 4}
    ).proposals([], members)
    trials = [
        Trial(slot, each, has_ended=True, objective=each["x"] ** 2, key=identity(each))
        for slot, each in enumerate(values)
    ]
    proposer, took_s, stopped_s = Proposer(), [], [0.0]
    gc.collect()
    gc.freeze()  # as the server does: what its modules hold is no garbage, and looking for it takes 30 ms
    try:
        await proposer.slots(study, trials[:20], 1)  # starts the process
        beating = asyncio.create_task(_beat(stopped_s))
        for _ in range(ASKS):
            begun_s = CLOCK.monotonic_s()
            await proposer.slots(study, trials, 1)
            took_s.append(CLOCK.monotonic_s() - begun_s)
        beating.cancel()
    finally:
        await proposer.close()
        gc.unfreeze()
    return {"proposal": sorted(took_s)[ASKS // 2], "longest stop of the event loop": 1_000 * max(stopped_s)}


async def _beat(stopped_s: list[float]) -> None:
    """Note by how much the event loop came late."""
    while True:
        begun_s = CLOCK.monotonic_s()
        await asyncio.sleep(BEAT_S)
        stopped_s.append(CLOCK.monotonic_s() - begun_s - BEAT_S)


BENCH: Final = Bench("groups", "slots of a matrix, and proposals of a study", run)
