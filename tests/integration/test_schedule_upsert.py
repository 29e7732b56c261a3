"""One schedule for a model and its set of suites, over two control planes; its last result in the list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from control_plane.server.app import create_app
from tests.integration.in_process import control_plane


@pytest.fixture
async def db(emptied_url: str) -> AsyncIterator[Any]:
    async with control_plane(emptied_url) as found:
        yield found.db


@pytest.fixture
async def asking(emptied_url: str) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of two control planes on one store."""
    async with control_plane(emptied_url) as first, control_plane(emptied_url) as second:
        transports = [httpx.ASGITransport(create_app(each)) for each in (first, second)]
        yield [httpx.AsyncClient(transport=each, base_url="http://127.0.0.1") for each in transports]


def body(cron: str = "0 3 * * *", kind: str = "benchmark", **spec: Any) -> dict[str, Any]:
    run = {"kind": kind, "spec": {"model": "m-1", "suites": "gsm8k,aime", **spec}}
    return {"cron": cron, "time_zone": "Europe/Berlin", "run": run}


async def test_one_schedule_for_a_model_and_its_suites(asking: list[httpx.AsyncClient]) -> None:
    sizes = range(1, 9)
    made = await asyncio.gather(
        *(asking[n % 2].post("/api/schedules", json=body(sample_size=n)) for n in sizes)
    )
    assert sorted(each.status_code for each in made) == [200] * 7 + [201]
    (only,) = (await asking[0].get("/api/schedules")).json()["items"]
    assert {each.json()["id"] for each in made} == {only["id"]}
    assert only["id"].startswith("benchmark-m-1-aime-gsm8k-")
    last = await asking[1].post(
        "/api/schedules", json=body("30 4 * * *", suites="aime, gsm8k", sample_size=20)
    )
    assert (last.status_code, last.json()["id"], last.json()["cron"]) == (200, only["id"], "30 4 * * *")
    assert last.json()["run"]["spec"]["sample_size"] == 20
    other = await asking[0].post("/api/schedules", json=body(suites="gsm8k"))
    assert (other.status_code, other.json()["id"] != only["id"]) == (201, True)
    for wrong in (
        {**body(), "run": {"kind": "probe"}},
        body(suites="none"),
        {"cron": "@daily", "group": "g"},
    ):
        refused = await asking[0].post("/api/schedules", json=wrong)
        assert refused.status_code == 422, refused.text
    assert len((await asking[0].get("/api/schedules")).json()["items"]) == 2


async def test_the_form_without_a_name_sets_the_one_schedule(asking: list[httpx.AsyncClient]) -> None:
    name = (await asking[0].post("/api/schedules", json=body(sample_size=5))).json()["id"]
    fields = {"model": "m-1", "suites": "aime,gsm8k", "sample_size": "20", "seed": "3"}
    typed = {f"asked.benchmark.{field}": text for field, text in fields.items()}
    page = (await asking[1].get("/schedules")).text
    assert all(f'name="{field}"' in page for field in typed)
    form = {"cron": "@daily", "time_zone": "UTC", "kind": "benchmark", "do": "add", **typed}
    done = await asking[1].post("/schedules", data=form)
    assert (done.status_code, done.headers["location"]) == (303, f"/schedules/{name}")
    (only,) = (await asking[0].get("/api/schedules")).json()["items"]
    assert (only["cron"], only["run"]["spec"]["sample_size"], only["run"]["spec"]["seed"]) == (
        "@daily",
        20,
        3,
    )
    edited = (await asking[0].get(f"/schedules/{name}/edit")).text
    assert 'name="asked.benchmark.sample_size"' in edited
    nameless = await asking[0].post("/schedules", data={**form, "kind": "probe", **dict.fromkeys(typed, "")})
    assert (nameless.status_code, "the schedule needs a name" in nameless.text) == (422, True)


async def test_without_suites_a_model_has_one_schedule_of_the_default_set(
    asking: list[httpx.AsyncClient],
) -> None:
    none: list[str] = []
    made = [
        await asking[0].post("/api/schedules", json=body(suites=suites))
        for suites in ("", none, "mmlu-pro, gsm8k, aime, ifeval, humaneval")
    ]
    assert [each.status_code for each in made] == [201, 200, 200], made[0].text
    (only,) = {each.json()["id"] for each in made}
    own = [{"name": "colours", "file": "colours.jsonl"}]
    other = await asking[0].post("/api/schedules", json=body(suites="", own=own))
    assert (other.status_code, other.json()["id"] != only) == (201, True), "a user's own suite alone is a set"
    run = await asking[1].post(f"/api/schedules/{only}/run")
    found = (await asking[1].get(f"/api/runs/{run.json()['id']}")).json()
    assert found["title"] == "m-1: mmlu-pro, gsm8k, aime, ifeval, humaneval"
    assert found["spec"]["suites"] == "mmlu-pro,gsm8k,aime,ifeval,humaneval", "boards name the set"
    spec = {"model": "m-1", "suites": ["colours", "aime"], "own": own}
    mixed = await asking[0].post("/api/runs", json={"kind": "benchmark", "spec": spec})
    assert mixed.json()["spec"] == {**spec, "suites": "aime"}


async def test_the_list_says_the_last_result_with_its_link(asking: list[httpx.AsyncClient], db: Any) -> None:
    name = (await asking[0].post("/api/schedules", json=body())).json()["id"]
    run_id = (await asking[0].post(f"/api/schedules/{name}/run")).json()["id"]
    last = {"slot": (await db.runs.find_one())["createdAt"], "outcome": "fired", "runId": run_id}
    await db.schedules.update_one({"_id": name}, {"$set": {"last": last}})
    waiting = (await asking[0].get("/schedules")).text
    assert "QUEUED" in waiting
    said = {"score": 0.512, "seconds": 9.0}
    await db.runs.update_one({"_id": run_id}, {"$set": {"summary": said, "status": "COMPLETED"}})
    assert f'<a href="/runs/{run_id}/results">score 51.2%</a>' in (await asking[1].get("/schedules")).text
    await db.runs.update_one({"_id": run_id}, {"$set": {"summary": {"score": "high", "items": 7.5}}})
    assert (await asking[1].get("/schedules")).status_code == 200, "a pod may say numbers of another form"
    await db.runs.delete_one({"_id": run_id})
    assert run_id in (await asking[1].get("/schedules")).text


async def test_a_row_has_the_buttons_of_its_schedule(asking: list[httpx.AsyncClient], db: Any) -> None:
    name = (await asking[0].post("/api/schedules", json=body())).json()["id"]
    page = (await asking[0].get("/schedules")).text
    key = page.partition(f'action="/schedules/{name}/run"')[2].partition('name="key" value="')[2][:26]
    for each in asking:
        begun = await each.post(f"/schedules/{name}/run", data={"key": key})
        assert (begun.status_code, begun.headers["location"][:6]) == (303, "/runs/")
    assert await db.runs.count_documents({}) == 1, "whoever presses twice means once"
    for order, others in (("pause", "resume"), ("resume", "pause")):
        assert f'action="/schedules/{name}/{order}"' in page
        done = await asking[1].post(f"/schedules/{name}/{order}", data={"from_list": "true"})
        assert (done.status_code, done.headers["location"]) == (303, f"/schedules#s-{name}")
        page = (await asking[0].get("/schedules")).text
        assert f'action="/schedules/{name}/{order}"' not in page
        assert f'action="/schedules/{name}/{others}"' in page
        stored = await db.schedules.find_one({"_id": name})
        assert stored["paused"] is (order == "pause")
    own = await asking[0].post(f"/schedules/{name}/pause", data={"note": "for now"})
    assert own.headers["location"] == f"/schedules/{name}"
