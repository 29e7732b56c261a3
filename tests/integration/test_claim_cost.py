"""What a claim asks of MongoDB, counted and not timed: round trips, and index keys looked at."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from events.queue.abilities import Abilities
from events.queue.matching import Seeker, WaitingClass
from events.runtime.clock import SystemIds
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from tests.integration.in_process import control_plane
from tests.integration.test_sweeper import populate, run

CLASSES = 5
DEPTH = 200  # of each class
LABELS = 200
ONCE_A_SECOND = (".shares", ".store_state")  # one document each
OURS = {"appName": "podfleet-worker"}
POD = Seeker(
    "pod-1/abc", "hybrid", Abilities(frozenset(f"kind{number}" for number in range(CLASSES)), 0.0, None)
)


@pytest.mark.parametrize(("claimed_before", "is_known"), [(0, False), (50, False), (0, True)])
async def test_a_claim_is_two_round_trips_and_a_look_two_more_of_two_keys_a_class(
    database_url: str, claimed_before: int, is_known: bool
) -> None:
    async with control_plane(database_url) as deps:

        def change(number: int) -> dict[str, Any]:
            return {"classKey": f"kind{number % CLASSES}/cpu/any", "priority": number % 3}

        await populate(deps, CLASSES * DEPTH, change)
        db = connect(database_url)
        try:
            queue = MongoQueue(db)
            for _ in range(claimed_before):
                assert queue.claim(POD, token=letters(SystemIds().token())) is not None
            await deps.db.command("profile", 2)
            known = [WaitingClass("runs", "kind1/cpu/any", 0)] if is_known else []
            claim = queue.claim(POD, token=letters(SystemIds().token()), known=known)
            await deps.db.command("profile", 0)
        finally:
            db.client.close()
        assert claim is not None
        noted = [each async for each in deps.db["system.profile"].find(OURS)]
    for name in ONCE_A_SECOND:
        assert len([each for each in noted if each["ns"].endswith(name)]) <= 1
    names, keys, documents = costs(noted)
    look = [] if is_known else ["aggregate", "aggregate"]  # which classes wait, in both queues
    # the run; what it shall do
    assert names == [*look, "findAndModify", "find"]
    # of the second look, that into `runs`; the pod has no pins, which costs one key
    assert keys.get("aggregate", 0) <= 2 * CLASSES + 1
    assert keys["findAndModify"] <= 2
    assert keys["find"] <= 1
    assert documents == 1


def costs(noted: list[dict[str, Any]]) -> tuple[list[str], dict[str, int], int]:
    """Return the names of the calls, the keys that the last of each looked at, and all documents.

    The shares of projects and the mark of a restore do not count.
    """
    noted = [each for each in noted if not each["ns"].endswith(ONCE_A_SECOND)]
    asked = [(next(iter(each["command"])), each.get("keysExamined", 0)) for each in noted]
    return [name for name, _ in asked], dict(asked), sum(each.get("docsExamined", 0) for each in noted)


async def test_a_claim_among_many_labels_and_pins_seeks_only_what_its_pod_serves(database_url: str) -> None:
    """200 labels of which the pod has one, and the pins of 100 pods of which it is one."""
    mine = {"probe/cpu/any", "probe/cpu/any/rack=r7", "~pod-7/probe/cpu/any"}

    def change(number: int) -> dict[str, Any]:
        match number % 4:
            case 0:
                return {"classKey": "probe/cpu/any", "priority": 0}
            case 1:
                return {"classKey": f"~pod-{number % 100}/probe/cpu/any", "priority": 0}
            case _:
                return {"classKey": f"probe/cpu/any/rack=r{number // 4 % LABELS}", "priority": 0}

    pod = Abilities(frozenset({"probe"}), 0.0, None, {"rack": "r7"}, "pod-7")
    seeker = Seeker("pod-7/abc", "experiment", pod)
    async with control_plane(database_url) as deps:
        await populate(deps, 4 * LABELS * 3, change)
        pinned = await deps.db.runs.find_one({"classKey": {"$gt": "~"}})
        assert pinned is not None
        await deps.db.runs.update_one({"_id": pinned["_id"]}, {"$set": {"classKey": "~pod-7/probe/cpu/any"}})
        db = connect(database_url)
        try:
            queue = MongoQueue(db)
            asked, claimed = [], set()
            for _ in range(2):
                await deps.db.command("profile", 2)
                claim = queue.claim(seeker, token=letters(SystemIds().token()))
                await deps.db.command("profile", 0)
                assert claim is not None
                claimed.add((await run(deps, claim.run_id))["classKey"])
                asked.append(costs([each async for each in deps.db["system.profile"].find(OURS)]))
                await deps.db["system.profile"].drop()
        finally:
            db.client.close()
    assert claimed <= mine
    (whole, whole_keys, _), (again, again_keys, documents) = asked
    assert whole == again == ["aggregate", "findAndModify", "find"]
    # each class that is not pinned, and the one pin of this pod; then only what it served
    assert whole_keys["aggregate"] <= 2 * (LABELS + 1) + 3
    assert again_keys["aggregate"] <= 2 * len(mine) + 1
    assert (again_keys["findAndModify"], documents) == (1, 1)


async def test_pods_that_wait_in_vain_at_a_control_plane_cost_it_one_look_together(database_url: str) -> None:
    """200 labels of which no pod has any, and 20 pods: each look of its own would be two keys a label."""
    pods, base = 20, "probe/cpu/any"

    async def stays() -> bool:
        return False

    def change(number: int) -> dict[str, Any]:
        return {"classKey": f"{base}/rack=r{number % LABELS}", "priority": 0}

    async with control_plane(database_url) as deps:
        await populate(deps, LABELS, change)
        able = [Abilities(frozenset({"probe"}), 0.0, None, {}, f"pod-{number}") for number in range(pods)]

        async def asked(wait_s: float) -> list[dict[str, Any]]:
            await deps.db.command("profile", 2)
            found = await asyncio.gather(
                *(
                    deps.claimer.claim(
                        Seeker(f"{each.pod}/abc", "hybrid", each),
                        token=letters(SystemIds().token()), key_id=None, wait_s=wait_s, is_gone=stays,
                    )
                    for each in able
                )
            )  # fmt: skip
            await deps.db.command("profile", 0)
            assert found == [None] * pods
            looks = {"command.aggregate": {"$in": ["runs", "ideations"]}}
            noted = [each async for each in deps.db["system.profile"].find(looks)]
            await deps.db["system.profile"].drop()
            return noted

        together, alone = await asked(0.5), await asked(0.0)
    keys = [sum(each.get("keysExamined", 0) for each in noted) for noted in (together, alone)]
    # one look, and the pins of each pod: one key in each queue
    assert keys[0] <= 2 * (LABELS + 1) + 4 * pods
    assert keys[1] >= pods * LABELS, "whoever does not wait looks for itself"
