"""Deletion of runs: what goes, what stays, what refuses it, and what finishes one that was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest
from minio import Minio
from pymongo import MongoClient

from control_plane.runs.submission import Submission, order_of
from control_plane.server.deps import Deps
from control_plane.store.log.run_removals import CHILDREN
from control_plane.store.verify.queries import VerifyReads
from control_plane.upkeep.keeping.deleter import Deleter
from control_plane.verify.verifier import Finding, Verifier
from events.catalog import RunLog, RunStarted
from events.delivery.control_plane_client import bearer
from events.envelope import Head, wire
from events.queue.settlement import End
from events.runtime.clock import SystemIds
from events.runtime.errors import Transient
from tests.integration.command_line import within
from tests.integration.conftest import NDJSON, Fleet, HandDriven
from tests.integration.dying import Died, DiesAt
from tests.integration.in_process import control_plane
from tests.integration.test_api_outages import wait_until

pytestmark = pytest.mark.common_fleet

ByHand = Callable[[str, str], HandDriven]
SPEC: Final = {"seconds": 0.1, "events": 3, "artifact_bytes": 100}
GONE: Final = httpx.codes.GONE
CONFLICT: Final = httpx.codes.CONFLICT


async def findings(deps: Deps) -> list[Finding]:
    audit = Verifier(VerifyReads(deps.db), second_look_s=0.0).audit(rebuilds=True)
    return [each async for each in audit]


async def verified(fleet: Fleet) -> list[Finding]:
    async with control_plane(fleet.database_url) as deps:
        return await findings(deps)


def left_of(fleet: Fleet, run_id: str) -> list[str]:
    """Return the collections that still tell of a run."""
    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        db = client.get_default_database()
        told = [name for name in CHILDREN if db[name].find_one({"runId": run_id})]
        return told + [name for name in ("runs", "run_specs") if db[name].find_one({"_id": run_id})]


def objects_of(s3: Any, run_id: str) -> list[str]:
    address = s3.endpoint.removeprefix("http://")
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    found = Minio(address, **keys, secure=False).list_objects(s3.bucket, f"runs/{run_id}/", recursive=True)
    return [str(each.object_name) for each in found]


def is_removed(fleet: Fleet, run_id: str) -> bool:
    return bool(fleet.client.get(f"/api/runs/{run_id}").json()["tombstone"]["removedAt"])


def completed(fleet: Fleet, by_hand: ByHand, **body: Any) -> tuple[str, HandDriven]:
    """Return a run that has ended, and its attempt."""
    run_id = fleet.submit(**body)
    attempt = by_hand("runs", "probe/cpu/any")
    assert attempt.claim.attempt_id.run_id == run_id
    attempt.say(RunStarted(pod="p"), RunLog(level="info", message="at work"))
    attempt.settle(End("completed"))
    fleet.wait_for(run_id, "COMPLETED")
    return run_id, attempt


def test_a_deleted_run_leaves_its_tombstone_alone(fleet: Fleet, s3: Any) -> None:
    headers = {"idempotency-key": "the only one"}
    body = {"kind": "probe", "spec": SPEC}
    run_id = fleet.client.post("/api/runs", json=body, headers=headers).json()["id"]
    worker = fleet.start_worker("--max-runs", "1")
    fleet.wait_for(run_id, "COMPLETED")
    assert worker.wait(60) == 0
    artifact = fleet.run(run_id)["artifacts"][0]["id"]
    assert objects_of(s3, run_id) != []
    shown = fleet.client.get(f"/api/runs/{run_id}/deletion").json()
    assert (shown["refusal"], shown["counts"]["artifacts"] > 0, shown["bytes"] >= 100) == (None, True, True)

    answer = fleet.client.delete(f"/api/runs/{run_id}")
    assert answer.status_code == httpx.codes.OK, answer.text
    stone = answer.json()
    assert (stone["status"], stone["by"][:5], stone["counts"]) == ("COMPLETED", "user:", shown["counts"])
    (seal,) = stone["attempts"]
    assert (seal["attempt"], seal["count"], len(seal["root"])) == (1, seal["last"], 64)

    for path in ("", "/events", "/artifacts", "/explain", "/deletion"):
        gone = fleet.client.get(f"/api/runs/{run_id}{path}")
        assert (gone.status_code, gone.json()["code"]) == (GONE, "deleted"), path
    assert gone.json()["tombstone"]["attempts"] == [seal]
    for method, path in (("GET", f"/api/artifacts/{artifact}"), ("POST", f"/api/runs/{run_id}/retry")):
        assert fleet.client.request(method, path).status_code == GONE
    assert fleet.client.get(f"/runs/{run_id}", headers={"accept": "text/html"}).status_code == GONE
    assert fleet.client.delete(f"/api/runs/{run_id}").status_code == GONE
    again = fleet.client.post("/api/runs", json=body, headers=headers)
    assert (again.status_code, again.json()["code"]) == (GONE, "deleted")
    assert fleet.client.get("/api/runs").json()["items"] == []

    wait_until(lambda: is_removed(fleet, run_id))
    assert (left_of(fleet, run_id), objects_of(s3, run_id)) == ([], [])
    entries = fleet.client.get("/api/audit", params={"object": f"run/{run_id}"}).json()["items"]
    (deleting,) = [each for each in entries if each["status"] == httpx.codes.OK]
    assert "artifacts" in deleting["details"]


async def test_late_events_of_a_deleted_run_are_refused_for_that_and_leave_nothing(
    fleet: Fleet, by_hand: ByHand
) -> None:
    run_id, attempt = await asyncio.to_thread(completed, fleet, by_hand)
    assert fleet.client.delete(f"/api/runs/{run_id}").status_code == httpx.codes.OK
    head = Head(
        id="late", source="//by/hand", attempt_id=attempt.claim.attempt_id, sequence=9,
        time="2026-11-21T10:00:00.000Z",
    )  # fmt: skip
    line = wire(RunLog(level="info", message="late"), head)
    for key in (bearer(attempt.claim.run_token), {}):
        answer = fleet.client.post("/api/ingest/events", content=line, headers={**NDJSON, **key})
        assert [each["code"] for each in answer.json()["rejected"]] == ["deleted"], answer.text
    upload = fleet.client.post(
        f"/api/runs/{run_id}/artifacts/checkpoints", headers=bearer(attempt.claim.run_token)
    )
    assert upload.status_code in (CONFLICT, GONE)
    await asyncio.to_thread(wait_until, lambda: is_removed(fleet, run_id))
    assert left_of(fleet, run_id) == []
    assert await verified(fleet) == []


def test_what_has_not_ended_or_is_needed_is_not_deleted(fleet: Fleet, by_hand: ByHand) -> None:
    def refusal(run_id: str) -> str:
        answer = fleet.client.delete(f"/api/runs/{run_id}")
        shown = fleet.client.get(f"/api/runs/{run_id}/deletion").json()["refusal"]
        assert (answer.status_code, answer.json()["detail"]) == (CONFLICT, shown)
        return str(shown)

    run_id, _ = completed(fleet, by_hand)
    waits = fleet.submit()
    assert "cancel it first" in refusal(waits)
    retry = fleet.client.post(f"/api/runs/{run_id}/retry").json()["id"]
    assert f"run {retry} repeats it" in refusal(run_id)
    fleet.client.post(f"/api/runs/{retry}/cancel")
    later = fleet.client.post("/api/runs", json={"kind": "probe", "after": [run_id, waits]}).json()["id"]
    assert f"run {later} waits for it" in refusal(run_id)
    fleet.client.post(f"/api/runs/{later}/cancel")
    run = {"kind": "probe", "labels": {"like": run_id}}
    nightly = fleet.client.post("/api/schedules", json={"id": "nightly", "cron": "0 3 * * *", "run": run})
    assert nightly.status_code == httpx.codes.CREATED, nightly.text
    assert "schedule nightly names it" in refusal(run_id)
    fleet.client.delete("/api/schedules/nightly")
    shown = fleet.client.get(f"/api/runs/{run_id}/deletion").json()
    assert (shown["refusal"], shown["retries"], shown["successors"]) == (None, [retry], [later])
    assert fleet.client.delete("/api/runs/nobody").status_code == httpx.codes.NOT_FOUND
    assert fleet.client.delete(f"/api/runs/{run_id}").status_code == httpx.codes.OK


async def test_the_counters_of_a_closed_group_stay_and_no_slot_is_filled_again(
    fleet: Fleet, by_hand: ByHand
) -> None:
    plan = {"kind": "matrix", "values": {"events": [1, 2]}}
    body = {"id": "pair", "run": {"kind": "probe", "spec": {"seconds": 0}}, "plan": plan}
    made = fleet.client.post("/api/groups", json=body)
    assert made.status_code == httpx.codes.CREATED, made.text

    def members() -> list[dict[str, Any]]:
        found = fleet.client.get("/api/groups/pair/members").json()["items"]
        return [each["run"] for each in found]

    def status() -> str:
        return str(fleet.client.get("/api/groups/pair").json()["status"])

    await asyncio.to_thread(wait_until, lambda: len(members()) == 2)
    first, second = (each["id"] for each in members())
    fleet.client.post(f"/api/runs/{first}/cancel")
    assert "is not closed" in fleet.client.delete(f"/api/runs/{first}").json()["detail"]
    fleet.client.post(f"/api/runs/{second}/cancel")
    await asyncio.to_thread(wait_until, lambda: status() not in ("OPEN", "CLOSING"))
    before = fleet.client.get("/api/groups/pair").json()["counts"]
    assert fleet.client.delete(f"/api/runs/{first}").status_code == httpx.codes.OK
    again = fleet.client.post(f"/api/runs/{second}/retry").json()["id"]
    fleet.client.post(f"/api/runs/{again}/cancel")
    with MongoClient[dict[str, Any]](fleet.database_url) as client:  # no further retry is on its way
        client.get_default_database().groups.update_one({}, {"$set": {"holdUntil": None}})
    await asyncio.to_thread(wait_until, lambda: status() not in ("OPEN", "CLOSING"))
    assert fleet.client.get("/api/groups/pair").json()["counts"] == before
    assert {each["id"] for each in members()} == {second, again}
    await asyncio.to_thread(wait_until, lambda: is_removed(fleet, first))
    assert await verified(fleet) == []


def test_a_hypothesis_goes_with_its_ideas_and_its_runs(fleet: Fleet) -> None:
    body = {"title": "Does it help?", "idea": "Dropout improves accuracy on digits", "enable_ideation": True}
    made = fleet.client.post("/api/hypotheses", json=body).json()
    path = f"/api/hypotheses/{made['id']}"
    assert "cancel it first" in fleet.client.delete(path).json()["detail"]
    request_id = made["ideation_request_id"]
    assert fleet.client.post(f"/api/runs/{request_id}/cancel").status_code == httpx.codes.OK
    assert "delete the hypothesis" in fleet.client.delete(f"/api/runs/{request_id}").json()["detail"]
    assert fleet.client.get(f"{path}/deletion").json()["runs"] == [request_id]
    assert fleet.client.delete(path).json()["runs"] == [request_id]
    for each in (path, f"/api/runs/{request_id}"):
        assert fleet.client.get(each).status_code == GONE
    assert fleet.client.get("/api/hypotheses").json()["items"] == []


def test_the_command_shows_what_goes_and_asks(fleet: Fleet, by_hand: ByHand) -> None:
    run_id, _ = completed(fleet, by_hand)
    asked = within(fleet.url, "runs", "delete", run_id)
    assert asked.returncode == 1
    assert "events" in asked.stderr
    assert fleet.run(run_id)["status"] == "COMPLETED"
    deleted = within(fleet.url, "runs", "delete", run_id, "--yes")
    assert (deleted.returncode, deleted.stdout.split()) == (0, [run_id, "is", "deleted"])
    assert "was deleted" in within(fleet.url, "runs", "show", run_id).stderr


def test_the_page_of_a_run_asks_before_it_deletes(fleet: Fleet, by_hand: ByHand) -> None:
    run_id, _ = completed(fleet, by_hand)
    assert f'href="/runs/{run_id}/delete"' in fleet.client.get(f"/runs/{run_id}").text
    asked = fleet.client.get(f"/runs/{run_id}/delete").text
    assert "Delete for good" in asked
    token = asked.partition('name="form_token" value="')[2].partition('"')[0]
    done = fleet.client.post(f"/runs/{run_id}/delete", data={"form_token": token})
    assert done.headers["location"] == "/runs"
    assert fleet.client.get(f"/api/runs/{run_id}").status_code == GONE


class Shelf:
    """A storage that may refuse to remove."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = {*keys}
        self.is_closed = False

    async def older(self, prefix: str, _: timedelta) -> AsyncIterator[list[str]]:
        yield sorted(key for key in self.keys if key.startswith(prefix))

    async def remove(self, key: str) -> None:
        if self.is_closed:
            raise Transient("storage_unreachable", "object storage does not answer")
        self.keys.discard(key)


async def ended(deps: Deps, artifacts: int = 3) -> tuple[str, Shelf]:
    """Return a run that was canceled, with files."""
    run_id = (await deps.submitter.submit(Submission(kind="probe", spec={}, by="test"))).run_id
    await deps.decider.cancel(run_id, by="user:test")
    await deps.sweeper.run_once()
    keys = [f"runs/{run_id}/a1/{number}" for number in range(artifacts)]
    files = [{"_id": key, "runId": run_id, "attempt": 1, "size": 7, "key": key} for key in keys]
    if files:
        await deps.db.artifacts.insert_many(files)
    return run_id, Shelf(keys)


def deleter_of(deps: Deps, storage: Shelf, **parts: Any) -> Deleter:
    return replace(deps.deleter, storage=storage, **parts)


async def carried_out(deleter: Deleter, run_id: str) -> None:
    await deleter.delete(run_id, by="user:test")
    await deleter.run_once()


async def must_be_gone(deps: Deps, deleter: Deleter, run_id: str, shelf: Shelf) -> None:
    await deps.db.tombstones.update_many({"dueAt": {"$type": "date"}}, [{"$set": {"dueAt": "$$NOW"}}])
    await deleter.run_once()
    stone = await deps.db.tombstones.find_one({"_id": run_id})
    assert stone is not None
    assert stone["removedAt"] is not None
    assert shelf.keys == set()
    assert [name for name in CHILDREN if await deps.db[name].find_one({"runId": run_id})] == []
    assert await deps.db.runs.find_one({"_id": run_id}) is None
    assert await findings(deps) == []


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize(
    ("port", "call"),
    [
        ("tombstones", "put"),
        ("removals", "drop_run"),
        ("storage", "remove"),
        ("removals", "drop_children"),
        ("tombstones", "look_again"),
    ],
)
async def test_a_deletion_that_was_cut_off_anywhere_is_finished_by_another_replica(
    deps: Deps, port: str, call: str, is_answered: bool
) -> None:
    run_id, shelf = await ended(deps)
    whole = deleter_of(deps, shelf)
    dying = replace(whole, **{port: DiesAt(getattr(whole, port), call, answered=is_answered)})
    if port == "storage":
        dying.storage.older = shelf.older  # type: ignore[attr-defined] # no call that is awaited
    with pytest.raises(Died):
        await carried_out(dying, run_id)
    if (port, call, is_answered) == ("tombstones", "put", False):
        assert (await deps.runs.find(run_id)) is not None  # nothing was decided
        await whole.delete(run_id, by="user:test")
    await must_be_gone(deps, whole, run_id, shelf)


async def test_two_replicas_remove_a_run_with_many_files_at_once(deps: Deps) -> None:
    run_id, shelf = await ended(deps, 10_000)
    one, other = deleter_of(deps, shelf), deleter_of(deps, shelf)
    told = await asyncio.gather(
        *(each.delete(run_id, by="user:test") for each in (one, other)), return_exceptions=True
    )
    assert any(getattr(each, "id", None) == run_id for each in told)
    await asyncio.gather(one.run_once(), other.run_once())
    await must_be_gone(deps, one, run_id, shelf)


async def test_a_storage_that_refuses_is_asked_again_later_and_later_and_the_reason_is_told(
    deps: Deps,
) -> None:
    run_id, shelf = await ended(deps)
    shelf.is_closed = True
    deleter = deleter_of(deps, shelf)
    await deleter.delete(run_id, by="user:test")
    waits = []
    for tries in (1, 2, 3):
        await deps.db.tombstones.update_one({"_id": run_id}, [{"$set": {"dueAt": "$$NOW"}}])
        await deleter.run_once()
        stone = await deleter.tombstone(run_id)
        assert stone is not None
        assert (stone.removed_at, stone.trouble) == (
            None, "storage_unreachable: object storage does not answer",
        )  # fmt: skip
        stored = await deps.db.tombstones.find_one({"_id": run_id})
        assert stored is not None
        assert stored["tries"] == tries
        waits.append(stored["dueAt"])
    assert await deps.db.artifacts.count_documents({"runId": run_id}) == 3  # they say what is left
    assert await findings(deps) == []
    shelf.is_closed = False
    await must_be_gone(deps, deleter, run_id, shelf)
    assert (await deleter.tombstone(run_id)).trouble is None  # type: ignore[union-attr]


async def test_what_came_while_the_run_went_is_removed_by_a_last_look(deps: Deps) -> None:
    run_id, shelf = await ended(deps)
    deleter = deleter_of(deps, shelf)
    await deleter.delete(run_id, by="user:test")
    await deleter.run_once()
    shelf.keys.add(f"runs/{run_id}/a1/late")
    await deps.db.stages.insert_one({"_id": f"{run_id}/a1/s", "runId": run_id, "attempt": 1})
    assert await findings(deps) == []
    await must_be_gone(deps, deleter, run_id, shelf)
    stone = await deps.db.tombstones.find_one({"_id": run_id})
    assert stone is not None
    assert stone["dueAt"] is None


async def test_a_deleted_scheduled_run_is_not_submitted_again_under_its_id(deps: Deps) -> None:
    run_id = SystemIds().ulid()
    wanted = Submission(kind="probe", spec={}, by="schedule:nightly")
    assert (await deps.submitter.submit_as(run_id, wanted)).is_new
    await deps.decider.cancel(run_id, by="user:test")
    await deps.sweeper.run_once()
    await deleter_of(deps, Shelf(())).delete(run_id, by="user:test")
    assert not (await deps.submitter.submit_as(run_id, wanted)).is_new
    assert await deps.submitter.enqueue_all({run_id: await order_of(wanted)}) == 0
    assert await deps.db.runs.find_one({"_id": run_id}) is None


async def test_uses_of_test_data_outlive_their_run(deps: Deps) -> None:
    run_id, shelf = await ended(deps)
    use = {"_id": f"{run_id}/a1/test", "runId": run_id, "attempt": 1, "data": "d", "part": "test", "seq": 1}
    await deps.db.data_uses.insert_one(use)
    deleter = deleter_of(deps, shelf)
    await deleter.delete(run_id, by="user:test")
    await deleter.run_once()
    await must_be_gone(deps, deleter, run_id, shelf)
    assert await deps.db.data_uses.count_documents({"runId": run_id}) == 1


async def test_a_damaged_run_is_refused_by_name_and_holds_up_no_other(deps: Deps) -> None:
    damaged, _ = await ended(deps, 0)
    run_id, shelf = await ended(deps)
    await deps.db.runs.update_one({"_id": damaged}, {"$set": {"failures": 7}})
    deleter = deleter_of(deps, shelf)
    with pytest.raises(Exception, match="cannot be read"):
        await deleter.delete(damaged, by="user:test")
    await deps.db.tombstones.insert_one(
        {"_id": damaged, "kind": "probe", "by": "x", "dueAt": (await deps.db.runs.find_one({}))["createdAt"]}  # type: ignore[index]
    )
    await deleter.delete(run_id, by="user:test")
    await deleter.run_once()
    stone = await deleter.tombstone(run_id)
    assert stone is not None
    assert stone.removed_at is not None
