"""`podfleet pods` against a real fleet."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import psutil
import pytest

from events.runtime.clock import SystemClock
from events.runtime.exits import EXIT_LEFT
from tests.integration.command_line import podfleet

pytestmark = pytest.mark.common_fleet


def children_of(worker: Any) -> list[psutil.Process]:
    """Return the processes of a worker that run its pipelines."""
    return [each for each in psutil.Process(worker.pid).children() if each.name() == "podfleet-run"]


def test_a_drained_worker_finishes_its_run_takes_no_other_and_ends(
    fleet: Any, database: Any, until: Any
) -> None:
    worker = fleet.start_quick_worker(name="w1")
    until(lambda: database.pods.count_documents({"state": "idle"}) == 1, seconds=60)
    (child,) = children_of(worker)  # which has loaded and waits for its run
    child.suspend()  # the run lasts until the order has come
    first = fleet.submit(spec={"seconds": 0})
    fleet.wait_for(first, "SCHEDULED")
    second = fleet.submit(spec={"seconds": 0})
    until(lambda: database.pods.count_documents({"runId": first}) == 1)

    listed = podfleet(fleet.url, "pods", "list")
    assert listed.returncode == 0, listed.stderr
    assert "w1/" in listed.stdout
    assert first in listed.stdout

    drained = podfleet(fleet.url, "pods", "drain", "w1")
    assert drained.returncode == 0, drained.stderr
    assert f"ends after run {first}" in drained.stdout

    until(lambda: database.pods.count_documents({"runId": first, "state": "draining"}) == 1)  # it has heard
    child.resume()
    assert worker.wait(60) == EXIT_LEFT, "nobody is to start it again"
    done = fleet.wait_for(first, "COMPLETED")
    assert [attempt["outcome"] for attempt in done["attempts"]] == ["completed"]
    assert fleet.run(second)["status"] == "QUEUED"
    (pod,) = json.loads(podfleet(fleet.url, "pods", "list", "--json").stdout)
    assert (pod["pod"], pod["state"], pod["runId"]) == ("w1", "stopped", None)

    again = podfleet(fleet.url, "pods", "drain", pod["id"], "--json")
    assert (again.returncode, json.loads(again.stdout)[0]["state"]) == (0, "stopped")
    by_pod = podfleet(fleet.url, "pods", "drain", "w1")
    assert (by_pod.returncode, by_pod.stdout) == (0, "w1: no live worker, nothing to drain\n")


def test_those_that_live_come_first_and_the_dead_are_folded(fleet: Any, database: Any) -> None:
    now = SystemClock().now()
    row = {
        "kinds": ["probe"],
        "mode": "experiment",
        "version": "1",
        "telemetry": {},
        "orders": {"drain": False},
        "labels": {},
        "checks": [],
        "capabilities": {"cpus": 1, "memoryMib": 1.0, "gpus": []},
    }

    def rows(name: str, count: int, state: str, started: timedelta, reported: timedelta) -> list[Any]:
        return [
            {
                "_id": f"{name}/{number:03}",
                "pod": name,
                "state": state,
                "startedAt": now - started + timedelta(seconds=number),
                "reportedAt": now - reported,
                **row,
            }
            for number in (range(1, count + 1) if count > 1 else [0])
        ]

    old, soon, far = timedelta(days=3), timedelta(minutes=-10), timedelta(hours=1)
    living = [each for name in ("a", "b", "c") for each in rows(name, 1, "idle", old, soon)]
    dead = [*rows("b", 100, "stopped", far, far), *rows("d", 150, "idle", far, far)]
    database.pods.insert_many([*living, *dead, *rows("e", 50, "stopped", far, soon)])

    def listed(*options: str) -> list[str]:
        answer = podfleet(fleet.url, "pods", "list", "--json", *options)
        assert answer.returncode == 0, answer.stderr
        return [each["id"] for each in json.loads(answer.stdout)]

    def shown(**query: str) -> list[str]:
        page = fleet.client.get("/pods", params=query).text
        return re.findall(r'<tr id="p-([^"]+)"', page)

    assert sorted(shown()[:3]) == ["a/000", "b/000", "c/000"]
    assert shown()[3:] == ["d/150", "e/050"]
    assert "Damaged" not in fleet.client.get("/pods").text
    assert "150 starts" in fleet.client.get("/pods").text
    assert (sorted(listed()[:3]), listed()[3:]) == (sorted(shown()[:3]), ["d/150", "e/050"])
    assert len(listed("--all")) == 303
    assert shown(all="true", limit="200")[0] not in ("a/000", "b/000", "c/000")
    assert sorted(shown(live="true")) == ["a/000", "b/000", "c/000"]
    assert shown(region="nowhere") == []
    database.pods.insert_one({**rows("odd", 1, "stopped", far, far)[0], "version": None})
    assert "odd/000" in fleet.client.get("/pods").text, "what is damaged is named"


def test_a_restarted_worker_finishes_its_run_takes_no_other_and_ends_to_be_started_again(
    fleet: Any, database: Any, until: Any
) -> None:
    worker = fleet.start_quick_worker(name="w1")
    until(lambda: database.pods.count_documents({"state": "idle"}) == 1, seconds=60)
    (child,) = children_of(worker)
    child.suspend()  # the run lasts until the order has come
    first = fleet.submit(spec={"seconds": 0})
    fleet.wait_for(first, "SCHEDULED")
    second = fleet.submit(spec={"seconds": 0})
    until(lambda: database.pods.count_documents({"runId": first}) == 1)

    sent = podfleet(fleet.url, "pods", "restart", "w1")
    assert (sent.returncode, f"ends after run {first}" in sent.stdout) == (0, True), sent.stderr
    assert "restarts" in podfleet(fleet.url, "pods", "list").stdout
    until(lambda: database.pods.count_documents({"runId": first, "state": "draining"}) == 1)  # it has heard
    child.resume()
    assert worker.wait(60) == 0, "whatever started it starts it again"
    done = fleet.wait_for(first, "COMPLETED")
    assert [attempt["outcome"] for attempt in done["attempts"]] == ["completed"]
    assert fleet.run(second)["status"] == "QUEUED"
    again = fleet.client.post(f"/api/pods/{database.pods.find_one({})['_id']}/restart")
    assert (again.status_code, again.json()["code"]) == (409, "pod_left")


def test_an_unknown_pod_is_named_with_those_that_are_there(fleet: Any, database: Any, until: Any) -> None:
    fleet.start_worker(name="w1")
    until(lambda: database.pods.count_documents({}) == 1, seconds=60)
    (pod,) = database.pods.find({})
    answer = podfleet(fleet.url, "pods", "drain", "w2")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == f"there is no pod 'w2'; live workers: {pod['_id']}\n"


def test_a_command_that_cannot_reach_or_is_used_wrongly_says_so() -> None:
    nobody = podfleet("http://127.0.0.1:1", "pods", "list")
    assert (nobody.returncode, "no control plane at http://127.0.0.1:1" in nobody.stderr) == (3, True)
    garbled = podfleet("localhost:8700", "pods", "list")
    assert (garbled.returncode, "CONTROL_PLANE_URL" in garbled.stderr) == (2, True)
    assert podfleet("http://127.0.0.1:1", "pods", "drain").returncode == 2


@pytest.mark.common_fleet(key="a-key-of-the-test")
def test_a_command_without_the_key_is_told_what_to_send(keyed_url: str) -> None:
    refused = podfleet(keyed_url, "pods", "list")
    assert (refused.returncode, "PODFLEET_API_KEY" in refused.stderr) == (1, True)
