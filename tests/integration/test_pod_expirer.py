"""Rows of workers that are gone expire, and the ledger knows of their work as before; on a real MongoDB."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from control_plane.server.deps import Deps
from control_plane.store.log.held_times import HeldTimes
from control_plane.store.log.pod_lives import PAGE
from control_plane.upkeep.pod_expirer import GONE

STARTS = 10_000
CARD = {"name": "H100"}


def row(number: int, at: datetime, **more: Any) -> dict[str, Any]:
    capabilities = {"gpus": [CARD], "device": "cuda"}
    return {
        "_id": f"p{number % 7}/{number:08}", "pod": f"p{number % 7}", "state": "idle", "startedAt": at,
        "reportedAt": at, "usdPerHour": 2.0, "capabilities": capabilities, "telemetry": {}, **more,
    }  # fmt: skip


async def stored(deps: Deps, rows: Sequence[dict[str, Any]]) -> None:
    await deps.db.pods.insert_many(rows)


async def ids(deps: Deps, collection: str = "pods") -> set[str]:
    return {each["_id"] for each in await deps.db[collection].find({}, {"_id": 1}).to_list()}


async def test_a_year_of_restarts_leaves_the_last_week_and_the_ledger_sees_all(deps: Deps) -> None:
    now = deps.clock.now()
    step = timedelta(days=365) / STARTS
    rows = [row(number, now - number * step) for number in range(STARTS)]
    await stored(deps, rows)
    kept = {each["_id"] for each in rows if each["reportedAt"] >= now - GONE}
    since, until = now - timedelta(days=92), now - timedelta(days=1)
    before = await HeldTimes(deps.db).workers(since, until)
    assert await deps.pod_expirer.run_once() == STARTS - len(kept) > 9_000
    assert await ids(deps) == kept
    assert len(await ids(deps, "pod_lives")) == STARTS - len(kept)
    after = await HeldTimes(deps.db).workers(since, until)
    names = [each["_id"] for each in after]
    assert (len(names), set(names)) == (len(before), {each["_id"] for each in before})
    assert all(each["capabilities"]["gpus"] == [CARD] for each in after)
    oldest = rows[-1]["_id"]
    assert await HeldTimes(deps.db).prices([oldest]) == {oldest: 2.0}
    assert await deps.pod_expirer.run_once() == 0
    plan = (
        await deps.db.pods.find({"reportedAt": {"$lt": now}}).sort([("reportedAt", 1), ("_id", 1)]).explain()
    )
    assert "COLLSCAN" not in str(plan["queryPlanner"]["winningPlan"])


async def test_a_worker_with_open_work_stays_however_many_such_there_are(deps: Deps) -> None:
    old = deps.clock.now() - timedelta(days=30)
    await stored(deps, [row(number, old) for number in range(PAGE + 20)])
    first = sorted(await ids(deps))[: PAGE + 5]
    open_ones, held = first[:-1], first[-1]
    await deps.db.attempts.insert_many([{"_id": f"r{each}/a1", "pod": each} for each in open_ones])
    await deps.db.attempts.insert_one({"_id": "r/a2", "pod": sorted(await ids(deps))[-1], "endedAt": old})
    await deps.db.runs.insert_one({"_id": "r", "claimedBy": held, "status": "RUNNING"})
    assert await deps.pod_expirer.run_once() == 15
    assert await ids(deps) == {*first}


async def test_a_worker_that_reports_meanwhile_stays_and_comes_back_with_its_first_start(deps: Deps) -> None:
    old = deps.clock.now() - timedelta(days=30)
    await stored(deps, [row(1, old)])
    before = deps.clock.now() - GONE
    (found,) = await deps.pod_expirer.lives.silent(before, None)
    await deps.db.pods.update_one({"_id": found["_id"]}, {"$currentDate": {"reportedAt": True}})
    assert await deps.pod_expirer.lives.retire([found], before) == 0
    (worker,) = await HeldTimes(deps.db).workers(old - timedelta(days=1), deps.clock.now())
    assert worker["reportedAt"] > before  # the row, and not the life of the same worker beside it


async def test_a_row_of_a_store_that_was_damaged_stays(deps: Deps) -> None:
    await stored(deps, [{"_id": "odd/1", "reportedAt": "long ago"}, {"_id": "odd/2"}])
    assert await deps.pod_expirer.run_once() == 0
    assert await ids(deps) == {"odd/1", "odd/2"}
