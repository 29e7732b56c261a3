"""`GET /api/runs/{id}/explain` over real HTTP, and the pages that show its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.common_fleet


def reasons(fleet: Any, run_id: str) -> dict[str, Any]:
    answer = fleet.client.get(f"/api/runs/{run_id}/explain")
    assert answer.status_code == 200, answer.text
    return {reason["code"]: reason for reason in answer.json()["reasons"]}


def test_a_run_that_nobody_serves_says_so_until_a_pod_comes(fleet: Any, until: Callable[..., Any]) -> None:
    near = fleet.submit(requires={"region": "here"})
    far = fleet.submit(requires={"region": "moon"})
    assert next(iter(reasons(fleet, far))) == "no_live_pod"
    fleet.start_quick_worker(PODFLEET_REGION="here")
    fleet.wait_for(near, "COMPLETED")
    lacks = ["the run belongs to the region moon, and it is in here"]  # once the pod has said what it runs

    def lacking() -> Any:
        why = reasons(fleet, far).get("no_pod_serves")  # a pod that has not reported yet is none
        return why and why["evidence"]["pods"][0]["lacks"]

    until(lambda: lacking() == lacks)
    page = fleet.client.get(f"/runs/{far}").text
    assert "does not serve probe/cpu/moon" in page
    assert "does not serve probe/cpu/moon" in fleet.client.get("/").text
    assert list(reasons(fleet, near)) == ["over"]


def test_the_place_in_line_is_the_one_in_which_runs_are_claimed(fleet: Any) -> None:
    ids = [fleet.submit(priority=priority) for priority in (0, 5, 0, -1, 100)]
    other = fleet.submit(requires={"region": "moon"})
    places = [reasons(fleet, run_id)["position"]["evidence"]["position"] for run_id in ids]
    assert places == [3, 2, 4, 5, 1]
    assert reasons(fleet, ids[2])["position"]["evidence"]["aheadByPriority"] == 2
    assert reasons(fleet, other)["position"]["evidence"]["position"] == 1


def test_delays_and_unknown_runs(fleet: Any) -> None:
    delayed = fleet.submit(not_before="2099-01-01T00:00:00Z")
    found = reasons(fleet, delayed)
    assert found["delayed"]["evidence"]["notBefore"].startswith("2099-01-01")
    assert "2099-01-01" in fleet.client.get(f"/runs/{delayed}").text
    assert fleet.client.get("/api/runs/unknown/explain").status_code == 404
