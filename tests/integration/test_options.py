"""The options of runs over real HTTP: the same at every door, and changed while a run waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from events.lifecycle import Status
from events.queue.settlement import End
from tests.integration.command_line import within
from tests.integration.test_steering import must_agree_with_its_log

pytestmark = pytest.mark.common_fleet
Json = dict[str, Any]

OPTIONS: Final[Json] = {
    "priority": 7,
    "requires": {"gpu_gib": 16, "region": "eu"},
    "labels": {"team": "vision"},
    "max_attempts": 9,
    "queue_limit_s": 600,
}
IDEA: Final = "Dropout improves accuracy on iris"


def options_of(run: Json) -> Json:
    """Return the options of a run as it is shown."""
    names = {"max_attempts": "maxAttempts", "queue_limit_s": "queueLimitS"}
    found = {name: run[names.get(name, name)] for name in OPTIONS}
    return {**found, "labels": {"team": found["labels"].get("team")}}


def changed(fleet: Any, run_id: str, seen: object = None, **changes: Any) -> Any:
    headers = {} if seen is None else {"If-Match": str(seen)}
    return fleet.client.patch(f"/api/runs/{run_id}", json=changes, headers=headers)


def test_every_door_takes_the_options_of_a_run(fleet: Any) -> None:
    post = fleet.client.post
    run = post("/api/runs", json={"kind": "probe", **OPTIONS}).json()
    proposed = post("/api/hypotheses", json={"title": "t", "idea": IDEA, **OPTIONS}).json()
    launched = post(f"/api/hypotheses/{proposed['id']}/runs", json=OPTIONS).json()
    asked = {"title": "t", "idea": IDEA, "enable_ideation": True, **OPTIONS}
    request = post("/api/hypotheses", json=asked).json()["ideation_request_id"]
    schedule = {"id": "nightly", "cron": "@daily", "run": {"kind": "probe", **OPTIONS}}
    assert post("/api/schedules", json=schedule).status_code == 201
    fired = post("/api/schedules/nightly/run").json()
    for each in (run["id"], proposed["run_id"], launched["id"], request, fired["id"]):
        found = fleet.run(each)
        assert (options_of(found), found["classKey"]) == (OPTIONS, f"{found['kind']}/16/eu")
    late = post(f"/api/hypotheses/{proposed['id']}/runs", json={"not_before": "2100-01-01T00:00:00Z"}).json()
    assert (late["status"], late["notBefore"][:4]) == ("DELAYED", "2100")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"priority": 101}, "invalid"),
        ({"priority": None}, "invalid"),
        ({"priority": True}, "invalid"),
        ({"requires": {"gpu_gib": 1e6}}, "invalid_requirements"),
        ({"requires": {"a\x00": 1}}, "invalid"),
        ({"requires": {f"k{number}": 1 for number in range(200)}}, "invalid_requirements"),
        ({"requires": []}, "invalid"),
        ({"max_attempts": 0}, "invalid"),
        ({"queue_limit_s": 10**9}, "invalid"),
        ({"labels": {"a b": "c"}}, "invalid"),
        ({"labels": {"a": "c" * 201}}, "invalid"),
        ({"labels": {f"l{number}": "x" for number in range(33)}}, "invalid"),
        ({"not_before": "9999-01-01T00:00:00Z"}, "invalid"),
        ({"status": "COMPLETED"}, "invalid"),
        ({"spec": {"seconds": 1}}, "invalid"),
        ({"$set": {"priority": 1}}, "invalid"),
    ],
)
def test_options_that_cannot_be_are_refused_at_every_door(fleet: Any, body: Json, code: str) -> None:
    run_id = fleet.submit()
    refused = fleet.client.patch(f"/api/runs/{run_id}", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, code), refused.text
    bulk = {"action": "change", "ids": [run_id], "options": body}
    answer = fleet.client.post("/api/runs/bulk", json=bulk)
    if code == "invalid":
        assert answer.status_code == 422
    else:
        assert [each["outcome"] for each in answer.json()["results"]] == ["refused"]
    assert fleet.run(run_id)["revision"] == 1
    if "spec" not in body:
        wanted = {"title": "t", "idea": IDEA, **body}
        refused = fleet.client.post("/api/hypotheses", json=wanted)
        assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert fleet.client.get("/api/hypotheses").json()["items"] == []


def test_a_waiting_run_is_changed_by_a_decision_and_a_claim_finds_it_in_its_class(
    fleet: Any, by_hand: Callable[[str, str], Any], until: Any
) -> None:
    run_id = fleet.submit(labels={"team": "a", "x": "y"})
    first = fleet.run(run_id)
    answer = changed(fleet, run_id, f'"{first["revision"]}"', **{**OPTIONS, "labels": {"team": "vision"}})
    assert (answer.status_code, answer.json()["revision"]) == (200, first["revision"] + 1)
    assert options_of(answer.json()) == OPTIONS
    assert (answer.json()["labels"]["x"], answer.json()["classKey"]) == ("y", "probe/16/eu")
    (found,) = fleet.client.get("/api/runs", params={"label": "team=vision"}).json()["items"]
    assert found["id"] == run_id
    assert changed(fleet, run_id, **OPTIONS).json()["revision"] == answer.json()["revision"], "twice is once"
    assert changed(fleet, run_id, labels={"x": None}).json()["labels"] == {"team": "vision"}
    stale = changed(fleet, run_id, first["revision"], priority=1)
    assert (stale.status_code, stale.json()["code"]) == (412, "changed_meanwhile")
    assert changed(fleet, run_id, "soon", priority=1).status_code == 422
    attempt = by_hand("runs", "probe/16/eu")
    assert attempt.claim.run_id == run_id
    late = changed(fleet, run_id, priority=1)
    assert (late.status_code, Status.SCHEDULED in late.json()["detail"]) == (409, True)
    attempt.settle(End("failed", code="BROKEN", message="broken"))

    def is_logged() -> bool:
        log = fleet.client.get(f"/api/runs/{run_id}/events?limit=200").json()["items"]
        return [each["data"].get("cause") for each in log].count("change") == 2

    until(is_logged)
    audited = fleet.client.get("/api/audit", params={"object": f"run/{run_id}"}).json()["items"]
    assert {each["status"] for each in audited if each["action"] == "PATCH /api/runs/{run_id}"} >= {
        200,
        409,
        412,
    }
    must_agree_with_its_log(fleet)


def test_a_start_can_be_put_off_and_brought_forward(fleet: Any, until: Any) -> None:
    run_id = fleet.submit()
    assert changed(fleet, run_id, not_before="2100-01-01T00:00:00Z").json()["status"] == "DELAYED"
    now = changed(fleet, run_id, not_before=None, priority=3).json()
    assert (now["status"], now["notBefore"], now["priority"]) == ("QUEUED", None, 3)
    must_agree_with_its_log(fleet)


def test_a_retry_has_the_options_of_its_parent_but_for_those_that_are_given(
    fleet: Any, by_hand: Callable[[str, str], Any]
) -> None:
    run_id = fleet.submit(**{**OPTIONS, "max_attempts": 1})
    assert changed(fleet, run_id, requires={"region": "us"}).status_code == 200
    by_hand("runs", "probe/cpu/us").settle(End("failed", code="BROKEN", message="broken"))
    again = fleet.client.post(f"/api/runs/{run_id}/retry").json()
    assert options_of(again) == {**OPTIONS, "max_attempts": 1, "requires": {"region": "us"}}
    other = {"requires": {"gpu_gib": 40}, "labels": {"team": None}, "priority": -1}
    again = fleet.client.post(f"/api/runs/{run_id}/retry", json=other).json()
    assert (again["classKey"], again["priority"], again["labels"]) == ("probe/40/any", -1, {})
    bulk = {"action": "retry", "ids": [run_id], "options": {"max_attempts": 5}}
    (result,) = fleet.client.post("/api/runs/bulk", json=bulk).json()["results"]
    assert fleet.run(result["run_id"])["maxAttempts"] == 5


def test_a_retry_has_another_spec_where_one_is_given_and_begins_anew(
    fleet: Any, by_hand: Callable[[str, str], Any]
) -> None:
    run_id = fleet.submit(spec={"seconds": 5, "events": 3, "review": "human"}, max_attempts=1)
    by_hand("runs", "probe/cpu/any").settle(End("failed", code="BROKEN", message="broken"))
    retry = f"/api/runs/{run_id}/retry"
    again = fleet.client.post(retry, json={"spec": {"seconds": 7, "review": None}, "priority": 2}).json()
    told = {name: again["spec"].get(name) for name in ("seconds", "events", "review")}
    assert told == {"seconds": 7, "events": 3, "review": fleet.run(fleet.submit())["spec"].get("review")}
    assert (again["parentRunId"], again["priority"], again["attempt"]) == (run_id, 2, 0)
    for body, code in (
        ({"spec": {"seconds": "long"}}, "invalid_spec"),
        ({"spec": {"sceonds": 1}}, "invalid_spec"),
        ({"spec": {"seconds": 1}, "from_stage": "probe"}, "two_beginnings"),
    ):
        refused = fleet.client.post(retry, json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, code), refused.text
    by_cli = within(fleet.url, "runs", "retry", run_id[-8:], "-p", "seconds=9")
    assert fleet.run(by_cli.stdout.strip())["spec"]["seconds"] == 9, by_cli.stderr


def test_many_waiting_runs_are_changed_at_once(fleet: Any) -> None:
    ids = [fleet.submit(labels={"batch": "b"}) for _ in range(3)]
    fleet.client.post(f"/api/runs/{ids[0]}/cancel")
    body = {"action": "change", "filters": {"label": "batch=b"}, "options": {"priority": 4}}
    answer = fleet.client.post("/api/runs/bulk", json=body).json()
    assert answer["counts"] == {"done": 2, "already": 0, "refused": 1, "unknown": 0}
    assert [fleet.run(each)["priority"] for each in ids] == [0, 4, 4]
    again = fleet.client.post("/api/runs/bulk", json={**body, "filters": None, "ids": [ids[1], "no"]}).json()
    assert again["counts"] == {"done": 0, "already": 1, "refused": 0, "unknown": 1}
    for wrong in ({"options": None}, {"options": {}}, {"action": "cancel"}):
        assert fleet.client.post("/api/runs/bulk", json={**body, **wrong}).status_code == 422


def test_the_command_line_has_the_options_where_it_queues_and_changes(fleet: Any) -> None:
    options = (
        "--priority", "7", "--requires", "gpu_gib=16", "--requires", "region=eu", "--label", "team=vision",
        "--max-attempts", "9", "--queue-limit", "600",
    )  # fmt: skip

    def said(*words: str) -> str:
        done = within(fleet.url, *words)
        assert done.returncode == 0, done.stderr
        return str(done.stdout).split()[0]

    run_id = said("submit", "--kind", "probe", *options)
    hypothesis = said("hypotheses", "new", "t", "--idea", IDEA, *options)
    launched = said("hypotheses", "launch", hypothesis, *options)
    said("schedules", "add", "nightly", "@daily", "--kind", "probe", *options)
    fired = said("schedules", "run", "nightly")
    plain = said("submit", "--kind", "probe", "--label", "old=x")
    said("runs", "change", plain, *options, "--remove-label", "old")
    fleet.client.post(f"/api/runs/{plain}/cancel")
    again = said("runs", "retry", plain, "--priority", "1")
    for each in (run_id, launched, fired, plain):
        assert options_of(fleet.run(each)) == OPTIONS
    assert options_of(fleet.run(again)) == {**OPTIONS, "priority": 1}
    assert "old" not in fleet.run(again)["labels"]
    said("runs", "change", again, "--requires", "nothing", "--not-before", "2100-01-01")
    assert (fleet.run(again)["classKey"], fleet.run(again)["status"]) == ("probe/cpu/any", "DELAYED")
    late = within(fleet.url, "runs", "change", again, "--priority", "2", "--revision", "1")
    assert (late.returncode, "look again" in late.stderr) == (1, True), late.stderr
    assert within(fleet.url, "runs", "change", again).returncode == 2
