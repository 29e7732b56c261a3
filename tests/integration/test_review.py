"""A run that asks for a person waits for one, and hears it once."""

from __future__ import annotations

from typing import Any


def test_a_person_has_the_last_word_once(fleet: Any, database: Any) -> None:
    fleet.start_worker()
    run_id = fleet.submit(spec={"seconds": 0.1, "review": "human"})
    fleet.wait_for(run_id, "AWAITING_HUMAN")
    verdict = {"verdict": "fail", "notes": "the $cost of <b>noise</b>"}
    first = fleet.client.post(f"/api/runs/{run_id}/review", json=verdict)
    assert (first.status_code, first.json()["status"]) == (200, "HUMAN_REJECTED")
    assert first.json()["finishedAt"] is not None
    assert fleet.client.post(f"/api/runs/{run_id}/review", json=verdict).status_code == 409
    stored = database.runs.find_one({"_id": run_id})
    assert stored["humanVerdict"] == {**verdict, "reviewer": "loopback"}
    (human,) = [each for each in first.json()["validations"] if each["by"] == "human"]
    assert human["summary"] == verdict["notes"]
