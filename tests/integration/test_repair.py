"""Yesterday's store under living pods: `podfleet repair` closes what their logs have lost, and says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from control_plane.verify.invariants import GAP_GRACE
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from tests.integration.command_line import within
from tests.integration.test_core import Core, in_core, whole_log
from tests.integration.test_rebuild import Json
from tests.servers import connected


async def restored(core: Core) -> str:
    """Return a run whose pod went on behind what it had told to a newer store: events 1 to 4 are lost."""
    run_id = await core.submit()
    claim = await core.claim(SystemIds().token())
    await core.send(*whole_log(run_id)[4:])
    await core.settle(claim, End("completed"), 7)
    await core.sweeper.run_once()
    long_ago = -2 * GAP_GRACE / timedelta(milliseconds=1)
    await core.db.events.update_many(
        {"runId": run_id}, [{"$set": {"receivedAt": {"$add": ["$receivedAt", long_ago]}}}]
    )
    return run_id


def verified(url: str, run_id: str) -> str:
    return within(url, "verify", "--rebuild", "--run", run_id, MONGODB_URL=url).stdout


def test_a_log_that_stands_at_its_gap_is_closed_and_the_run_says_so(
    emptied_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = in_core(emptied_url, restored)
    true = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: true(self) + timedelta(hours=1))
    url, db = emptied_url, connected(emptied_url)
    assert f"podfleet repair {run_id}" in verified(url, run_id)
    would = within(url, "repair", "--dry-run", MONGODB_URL=url)
    assert (would.returncode, would.stdout) == (0, f"would close  {run_id}  events 1 to 4 of attempt 1\n")
    assert db.runs.find_one({"_id": run_id})["lastEventSeq"] == 0
    done = within(url, "repair", run_id, MONGODB_URL=url)
    assert (done.returncode, done.stdout) == (0, f"closed  {run_id}  events 1 to 4 of attempt 1\n")
    run: Any = db.runs.find_one({"_id": run_id})
    assert (run["lastEventSeq"], run["status"], run["logOpen"]) == (7, "COMPLETED", False)
    (lost,) = run["lostEvents"]
    assert (lost["attempt"], lost["from"], lost["to"]) == (1, 1, 4)
    assert lost["by"].startswith("podfleet repair (")
    lines: list[Json] = list(db.events.find({"runId": run_id, "sequence": {"$lte": 4}}).sort("sequence"))
    assert [(each["sequence"], each["data"]["code"]) for each in lines] == [(n, "lost") for n in range(1, 5)]
    assert db.artifacts.count_documents({"runId": run_id}) == 1, "what lies behind the gap is applied"
    (entry,) = db.audit.find()
    told_at = [lost["at"], entry["at"], *(each["receivedAt"] for each in lines)]
    soon = true(SystemClock()).replace(tzinfo=None) + timedelta(minutes=1)
    assert max(told_at) < soon, "by the store's clock, not this machine's"
    assert (entry["object"], entry["action"]) == (f"run/{run_id}", "repair events 1 to 4 of attempt 1")
    told = verified(url, run_id)
    assert told == f"log-incomplete  {run_id}  events 1–4 of attempt 1 are marked as lost\n"
    again = within(url, "repair", MONGODB_URL=url)
    assert (again.returncode, again.stdout) == (0, "")


@pytest.mark.common_fleet
def test_the_page_and_the_api_of_a_run_name_what_it_has_lost(fleet: Any, database: Any) -> None:
    run_id = fleet.submit()
    at = database.runs.find_one({"_id": run_id})["createdAt"]
    lost = {"attempt": 1, "from": 3, "to": 9, "at": at, "by": "podfleet repair (ada)"}
    database.runs.update_one({"_id": run_id}, {"$set": {"lostEvents": [lost]}})
    page = fleet.client.get(f"/runs/{run_id}")
    assert page.status_code == httpx.codes.OK
    assert "Events 3 to 9 of attempt 1 are lost; podfleet repair (ada) marked them as that" in page.text
    (told,) = fleet.run(run_id)["lostEvents"]
    assert (told["from"], told["to"], told["by"]) == (3, 9, "podfleet repair (ada)")
