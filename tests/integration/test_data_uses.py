"""The register of verdicts on each data set: what it counts, who is told of it, and where it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from control_plane.kinds.experiment.data_uses import counting
from control_plane.store import database as store
from control_plane.store.verify.queries import VerifyReads
from control_plane.store.verify.repairs import Repairs
from control_plane.verify.rebuilder import Rebuilder, Rebuilt
from events.catalog import RunCompleted
from events.kinds.experiment import ClaimJudged
from events.queue.claims import Claim
from events.queue.settlement import End
from pod_worker.queue.mongo import MongoQueue, connect
from tests.integration.command_line import within
from tests.integration.conftest import Fleet
from tests.integration.test_steering import Hand, must_agree_with_its_log, steer

pytestmark = pytest.mark.common_fleet

USE: Final = ClaimJudged(
    data="iris", name="iris", part="test", measurement="m1", conclusion="supported", rows=45, earlier=0,
    p_value=0.004, p_beside=0.008, says="This is the first verdict on the test rows of iris.",
)  # fmt: skip
SPEC: Final = {"idea": "Dropout improves accuracy on iris"}


@pytest.fixture
def hand(fleet: Fleet) -> Iterator[Hand]:
    db = connect(fleet.database_url)
    yield Hand(fleet, MongoQueue(db))
    db.client.close()


def judged(hand: Hand, *uses: ClaimJudged) -> str:
    """Let a run give verdicts, each from an attempt of its own, and return its id."""
    run_id = hand.fleet.submit("experiment", spec=SPEC)
    for number, use in enumerate(uses, start=1):
        claim = hand.claim(run_id)
        is_last = number == len(uses)
        hand.say(claim, use, *[RunCompleted()] * is_last)
        hand.settle(claim, End("completed" if is_last else "preempted"))
    return run_id


def told(hand: Hand) -> tuple[Claim, dict[str, Any]]:
    """Return a claim of a new run, and what its attempt is told."""
    claim = hand.claim(hand.fleet.submit("experiment", spec=SPEC))
    return claim, hand.offer(claim)["told"]


def test_each_attempt_is_told_of_the_verdicts_of_other_runs_one_for_each_measurement(
    fleet: Fleet, hand: Hand
) -> None:
    judged(hand, USE)
    judged(hand, replace(USE, measurement="m2"), replace(USE, measurement="m3"))
    judged(hand, USE, replace(USE, part="reserve", measurement="m4"))
    judged(hand, replace(USE, data="sha256:ab", measurement="m5"))
    claim, found = told(hand)
    # the second run's last word counts once, and the third has told the first one's measurement again
    expected = {"iris test": 2, "iris reserve": 1, "sha256:ab test": 1}
    assert found == {"verdicts": expected, "isWhole": True}
    hand.say(claim, replace(USE, measurement="m6"))
    assert hand.offer(claim)["told"]["verdicts"] == expected, "its own is none of the others"
    hand.settle(claim, End("failed", "BROKEN", "it broke"))
    other = hand.claim(fleet.submit("probe"))
    assert hand.offer(other)["told"] == {}, "a kind that tells nothing"
    must_agree_with_its_log(fleet)


def test_the_count_is_read_from_an_index_alone(fleet: Fleet, hand: Hand) -> None:
    judged(hand, USE)
    db = connect(fleet.database_url)
    found = db.command(
        "explain",
        {"aggregate": "data_uses", "pipeline": counting("x"), "cursor": {}, "hint": "by_rows"},
        verbosity="executionStats",
    )
    db.client.close()
    text = str(found)
    assert "IXSCAN" in text
    assert "FETCH" not in text
    assert "'SORT'" not in text


def test_it_is_shown_by_the_api_the_page_and_the_command_line(fleet: Fleet, hand: Hand) -> None:
    first = judged(hand, USE)
    second = judged(hand, replace(USE, data="sha256:ab", name="patients", measurement="m2"))
    listed = fleet.client.get("/api/data-uses").json()["items"]
    assert [each["runId"] for each in listed] == [second, first]
    assert (listed[1]["earlier"], listed[1]["pValue"], listed[1]["pBeside"]) == (0, 0.004, 0.008)
    page = fleet.client.get("/api/data-uses", params={"limit": 1}).json()
    rest = fleet.client.get("/api/data-uses", params={"limit": 1, "after": page["next"]}).json()
    assert [each["runId"] for each in (*page["items"], *rest["items"])] == [second, first]
    own = fleet.client.get("/api/data-uses", params={"data": "iris"}).json()["items"]
    assert [each["runId"] for each in own] == [first]
    (row,) = fleet.run(first)["dataUses"]
    assert (row["name"], row["part"], row["says"]) == ("iris", "test", USE.says)
    assert USE.says in fleet.client.get(f"/runs/{first}/validation").text
    assert USE.says in within(fleet.url, "runs", "show", first).stdout


async def test_it_is_rebuilt_from_the_log(fleet: Fleet, hand: Hand) -> None:
    run_id = judged(hand, USE)
    client = store.connect(fleet.database_url)
    db = store.database(client, fleet.database_url)
    nothing_late: Any = None
    rebuilder = Rebuilder(VerifyReads(db), Repairs(db), nothing_late)
    assert await rebuilder.rebuild("runs", run_id) == Rebuilt()
    await db.data_uses.update_many({}, {"$set": {"data": "another"}})
    (done,) = (await rebuilder.rebuild("runs", run_id)).done
    assert "data_uses" in done
    entry = await db.data_uses.find_one({"runId": run_id})
    await client.close()
    assert entry is not None
    assert entry["data"] == "iris"


def test_a_retry_has_the_seed_of_its_run_from_a_stage_too(fleet: Fleet, hand: Hand) -> None:
    first = fleet.submit("experiment", spec=SPEC)
    seed = fleet.run(first)["spec"]["seed"]
    assert seed != fleet.run(fleet.submit("experiment", spec=SPEC))["spec"]["seed"]
    claim = hand.claim(first)
    hand.finish(claim, "Stage_1")
    hand.fail(claim)
    whole, part = (
        steer(fleet, first, "retry", **how).json()["id"] for how in ({}, {"from_stage": "Stage_2"})
    )
    assert [fleet.run(each)["spec"]["seed"] for each in (whole, part)] == [seed, seed]
