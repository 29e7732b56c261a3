"""What a claim asks of MongoDB, counted and not timed: round trips, and index keys looked at."""

from __future__ import annotations

from typing import Any

import pytest

from events.queue.abilities import Abilities
from events.queue.matching import Seeker, WaitingClass
from events.runtime.clock import SystemIds
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from tests.integration.test_sweeper import control_plane, populate

CLASSES = 5
DEPTH = 200  # of each class
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
        noted = [each async for each in deps.db["system.profile"].find({"appName": "podfleet-worker"})]
    asked = [(next(iter(each["command"])), each.get("keysExamined", 0)) for each in noted]
    names = [name for name, _ in asked]
    look = [] if is_known else ["aggregate", "aggregate"]  # which classes wait, in both queues
    # the run; what it shall do
    assert names == [*look, "findAndModify", "find"]
    keys = dict(asked)  # of the second look, that into `runs`
    assert keys.get("aggregate", 0) <= 2 * CLASSES
    assert keys["findAndModify"] <= 2
    assert keys["find"] <= 1
    assert sum(each.get("docsExamined", 0) for each in noted) == 1
