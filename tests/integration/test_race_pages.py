"""Races over HTTP and on their pages: how lanes are chosen and checked, what they measured, and who won."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane.model.groups.races.figures import figure_of
from control_plane.runs.groups.races import reads
from control_plane.server.deps import wire
from control_plane.store.pods import Pods
from events.files.export_check import checked
from events.queue.roster import sample
from events.runtime.clock import SystemClock, SystemIds
from tests.integration.test_groups import Replica, asking, replicas

BODY: dict[str, Any] = {"kind": "probe", "spec": {"seconds": 0}}
PODS = ("a", "b", "c")


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


class Paddock:
    """A fleet that is played, and its races."""

    def __init__(self, replica: Replica, client: httpx.AsyncClient) -> None:
        self.replica, self.db, self.client = replica, replica.db, client

    async def report(self, pod: str, **told: Any) -> None:
        """Let a pod report."""
        said = {"pod": pod, "state": "idle", "kinds": ["probe"], "region": None, "checks": [], **told}
        update = {"$set": said, "$currentDate": {"reportedAt": True, "startedAt": True}}
        await self.db.pods.update_one({"_id": f"{pod}/1"}, update, upsert=True)

    async def race(self, name: str, *pods: str, **body: Any) -> dict[str, Any]:
        for pod in pods:
            await self.report(pod)
        wanted = {**BODY, "name": name, "lanes": [{"pod": pod} for pod in pods], **body}
        made = await self.client.post("/api/races", json=wanted)
        assert made.status_code == 201, made.text
        await self.replica.advance()
        return dict(made.json())

    async def start(self, name: str) -> list[str]:
        """Let all lanes be ready, and start."""
        runs = await self.replica.runs(name)
        for run in runs[-len(runs) :]:
            changed = {"$set": {"status": "RUNNING", "attempt": 1, "claimedBy": "a/1"}}
            await self.db.runs.update_one({"_id": run["_id"]}, changed)
            said = {"runId": run["_id"], "attempt": 1, "hearsS": 0.5, "offsetS": 0.0, "boundS": 0.001}
            pipeline = [{"$set": {**said, "readyAt": "$$NOW", "startedAt": "$$NOW", "lateS": 0.001}}]
            await self.db.lanes.update_one({"_id": f"{run['_id']}/a1/lane"}, pipeline, upsert=True)
        await self.replica.advance()
        return [run["_id"] for run in runs]

    async def finish(self, run_id: str, laps: Sequence[float], status: str = "COMPLETED", **run: Any) -> None:
        """Let a lane end that measured this in its laps."""
        rows = [
            {"_id": f"{run_id}/{lap}", "runId": run_id, "attempt": 1, "set": "laps", "key": str(lap),
             "values": {"lap": lap, "value": value}}
            for lap, value in enumerate(laps, 1)
        ]  # fmt: skip
        if rows:
            await self.db.results.insert_many(rows)
        mean = {"value": sum(laps) / len(laps)} if laps else None
        changed = [{"$set": {"status": status, "finishedAt": "$$NOW", "summary": mean, **run}}]
        await self.db.runs.update_one({"_id": run_id}, changed)

    async def one(self, name: str) -> dict[str, Any]:
        found = await self.client.get(f"/api/races/{name}")
        assert found.status_code == 200, found.text
        return dict(found.json())


async def test_a_race_tells_laps_figures_places_and_by_how_much_it_was_won(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = set[bool]()
    monkeypatch.setattr(reads, "figure_of", lambda each: [places.add(is_main()), figure_of(each)][1])
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        track = Paddock(only, client)
        made = await track.race("r", *PODS)
        assert [lane["state"] for lane in made["lanes"]] == ["waiting"] * 3
        assert made["verdict"]["says"] == "Not decided yet: the race goes on"
        runs = await track.start("r")
        await track.finish(runs[0], [1.0, 1.1, 0.9])
        await track.finish(runs[1], [2.0, 2.1, 1.9])
        await track.finish(runs[2], [0.1, 0.1, 0.1], "FAILED", error={"code": "OOM", "message": "no <b>"})
        await only.advance()
        race = await track.one("r")
        assert race["status"] == "COMPLETED"
        assert places == {False}, "pods decide how much there is to compute"
        assert [lane["place"] for lane in race["lanes"]] == [1, 2, None]
        first = race["lanes"][0]
        assert [lap["values"]["value"] for lap in first["laps"]] == [1.0, 1.1, 0.9]
        assert first["figures"]["value"]["n"] == 3
        assert first["figures"]["value"]["mean"] == pytest.approx(1.0)
        assert first["figures"]["value"]["sd"] == pytest.approx(0.1)
        verdict = race["verdict"]
        assert (verdict["winner"], verdict["second"], verdict["decided"]) == ("a", "b", True)
        assert verdict["low"] < 1.0 < verdict["high"]
        assert race["lanes"][2]["failure"] == "OOM: no <b>"
        listed = (await client.get("/api/races", params={"pods": "c,nobody"})).json()["items"]
        assert [(each["id"], each["leader"]) for each in listed] == [("r", {"pod": "a", "value": 1.0})]
        await only.db.lanes.update_one({"runId": runs[0]}, {"$set": {"lateS": 9.0}})  # and so it cannot win
        (late,) = (await client.get("/api/races")).json()["items"]
        assert late["leader"] == {"pod": "b", "value": pytest.approx(2.0)}
        await only.db.groups.update_one({"_id": "r"}, {"$set": {"plan.measure": "min:finish_s"}})
        (first,) = (await client.get("/api/races")).json()["items"]
        assert (first["leader"]["pod"], first["leader"]["value"]) == ("b", await finish_s(track, 1))
        await only.db.lanes.update_one({"runId": runs[0]}, {"$set": {"lateS": 0.001}})
        await only.db.groups.update_one({"_id": "r"}, {"$unset": {"plan.measure": 1}})
        assert (await client.get("/api/races", params={"pods": "nobody"})).json()["items"] == []
        again = await client.post("/api/races/r/again")
        assert again.json()["round"] == 2
        assert [each["round"] for each in again.json()["rounds"]] == [1, 2]
        earlier = (await client.get("/api/races/r", params={"round": 1})).json()
        assert [lane["place"] for lane in earlier["lanes"]] == [1, 2, None]
        assert (await client.get("/api/races/r", params={"round": 7})).status_code == 404


def is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


async def finish_s(track: Paddock, slot: int) -> Any:
    return (await track.one("r"))["lanes"][slot]["finishS"]


async def test_a_race_is_exported_as_a_signed_archive_and_as_a_table(
    database_url: str, tmp_path: Path
) -> None:
    async with replicas(database_url, 1) as (only,):
        keyed = replace(only.deps.settings, secrets_keys=(b"the key for secrets of the tests",))
        only.deps = wire(keyed, only.db, SystemClock(), SystemIds())
        async with asking(only) as client:
            await _exported(Paddock(only, client), client, tmp_path / "race.zip")


async def _exported(track: Paddock, client: httpx.AsyncClient, path: Path) -> None:
    await track.race("r", "a", "b")
    runs = await track.start("r")
    await track.finish(runs[0], [1.0, 1.1])
    await track.finish(runs[1], [])
    await track.db.results.update_one({"key": "1"}, {"$set": {"values.beside": 7}})  # no headline number
    assert set((await track.one("r"))["lanes"][0]["figures"]) == {"value", "finish_s"}
    table = await client.get("/api/races/r/export", params={"format": "csv"})
    assert table.text.splitlines()[0].split(",")[:3] == ["round", "slot", "pod"]
    assert table.text.splitlines()[0].split(",")[-3:] == ["value", "beside", "finish_s"]
    assert len(table.text.splitlines()) == 4
    whole = await client.get("/api/races/r/export")
    assert whole.status_code == 200, whole.text
    with zipfile.ZipFile(io.BytesIO(whole.content)) as archive:
        told = {name: archive.read(name) for name in archive.namelist()}
    assert {"metadata.json", "events.ndjson", "summary.json", "laps.csv", "manifest.json"} < {*told}
    assert json.loads(told["metadata.json"])["machines"][1]["pod"] == "b"
    assert json.loads(told["summary.json"])["a"]["metrics"]["value"] == pytest.approx(1.05)
    path.write_bytes(whole.content)
    assert checked(str(path)).manifest.run_id == "r"
    await client.post("/api/races/r/cancel")
    await track.replica.advance()
    await client.post("/api/races/r/again")
    await track.db.runs.delete_many({"groupId": "r"})
    lost = await client.get("/api/races/r/export", params={"round": 1})
    with zipfile.ZipFile(io.BytesIO(lost.content)) as archive:
        assert list(json.loads(archive.read("summary.json"))) == ["slot 0", "slot 1"]


async def test_samples_are_those_of_the_last_minutes_and_many_who_look_share_one_read(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        track = Paddock(only, client)
        await track.race("r", "a", "b")
        now = only.deps.clock.now()
        for minutes in (1, 20):
            at = now - timedelta(minutes=minutes)
            wanted, update = sample("a/1", at, {"cpuUtil": minutes / 100, "memoryMib": 1.0})
            await only.db.pod_telemetry.update_one(wanted, update, upsert=True)
        asked: list[Any] = []
        samples_of = Pods.samples_of

        async def counted(*args: Any) -> Any:
            asked.append(args)
            return await samples_of(*args)

        monkeypatch.setattr(Pods, "samples_of", counted)
        found = await asyncio.gather(*(client.get("/api/races/r/samples") for _ in range(16)))
        lanes = found[0].json()["lanes"]
        assert [[each["cpuUtil"] for each in lane["samples"]] for lane in lanes] == [[0.01], []]
        assert 0 < len(asked) < len(found)


async def test_lanes_are_chosen_by_label_and_refused_in_words(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        track = Paddock(only, client)
        await track.report("a", labels={"gpu": "h100"})
        await track.report("b", labels={"gpu": "a10"})
        await track.report("c", labels={"gpu": "h100"}, state="busy")
        body = {**BODY, "lanes": [{"one_of": "gpu"}]}
        made = (await client.post("/api/races", json=body)).json()
        assert [lane["pod"] for lane in made["lanes"]] == ["b", "a"]
        key = {"Idempotency-Key": "k"}
        keyed = await client.post("/api/races", json=body, headers=key)
        await track.report("d", labels={"gpu": "l4"})  # another fleet by now, and one race still
        same = await client.post("/api/races", json=body, headers=key)
        assert (keyed.status_code, same.status_code) == (201, 200)
        assert same.json()["lanes"] == keyed.json()["lanes"]
        other = await client.post("/api/races", json={**body, "limit_s": 60.0}, headers=key)
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
        await only.db.pods.delete_one({"pod": "d"})
        checks = (
            await client.post("/api/race-checks", json={**BODY, "lanes": [{"labels": {"gpu": "h100"}}]})
        ).json()
        assert [(lane["pod"], lane["grade"]) for lane in checks["lanes"]] == [("a", "GOOD"), ("c", "RISK")]
        assert checks["grade"] == "RISK"
        refused = [
            ([{"labels": {"gpu": "none"}}], "no live pod with"),
            ([{"pod": "a"}, {"pod": "a"}], "a pod runs one"),
            ([{"pod": "a"}], "2 to 16 lanes"),
            ([{"pod": "a"}, {"pod": "nobody"}], "there is no pod 'nobody'"),
            ([{"pod": "a", "one_of": "gpu"}, {"pod": "b"}], "give one of them"),
        ]  # fmt: skip
        for lanes, words in refused:
            found = await client.post("/api/races", json={**BODY, "lanes": lanes})
            assert found.status_code == 422
            assert words in found.text
        lanes = [{"pod": "a"}, {"pod": "b"}]
        form = await client.post("/api/races", json={**BODY, "name": "new", "lanes": lanes})
        assert (form.status_code, form.json()["code"]) == (422, "bad_id")


async def test_the_pages_of_races_show_lanes_and_start_one_by_the_form(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        track = Paddock(only, client)
        asked = {"priority": 7, "labels": {"team": "vision"}, "requires": {"gpu_gib": 0, "region": "any"}}
        lanes = [{"pod": pod, "parameters": {"events": 2}} for pod in PODS]
        await track.race("r", *PODS, lanes=lanes, **asked)
        runs = await track.start("r")
        gpu = {"name": "\u202e<b>", "memoryMib": 2048}
        await track.report("a", capabilities={"cpus": 1, "memoryMib": 1, "gpus": [gpu]})
        shown = await client.get("/races/r")
        assert shown.status_code == 200, shown.text
        assert "<bdi>\u202e&lt;b&gt;</bdi>, 2.0 GiB" in shown.text, "its direction is its own"
        assert "Agreed start" in shown.text
        assert shown.text.count('class="lane"') == 3
        assert "events = 2" in shown.text
        assert "data-active" in shown.text
        await track.finish(runs[0], [1.0, 1.1, 0.9])
        await track.finish(runs[1], [2.0, 2.1, 1.9])
        await track.finish(runs[2], [], "FAILED", error={"code": "OOM", "message": "no <b>"})
        await only.advance()
        past = {"$set": {"start.at": only.deps.clock.now() - timedelta(seconds=9)}}
        await only.db.groups.update_one({"_id": "r"}, past)
        over = (await client.get("/races/r")).text
        assert "Started" in over
        assert "a won by" in over
        assert "no &lt;b&gt;" in over
        assert "data-active" not in over
        assert "/races/r" in (await client.get("/races")).text
        form = await client.get("/races/new", params={"like": "r"})
        assert form.text.count(" checked>") == 3
        assert "\nevents=2</textarea>" in form.text
        assert ('value="7"' in form.text, "team=vision" in form.text) == (True, True)
        typed = {"kind": "probe", "seconds": "0", "lane.a": "on", "lane.b": "on", "own.b": "events=3"}
        checked = await client.post("/races/new", data={**typed, "do": "check"})
        assert (checked.status_code, "Nothing was started" in checked.text) == (200, True)
        look = (await client.post("/races/new/look", data=typed)).json()
        assert [each["grade"] for each in look["lanes"].values()] == ["GOOD", "GOOD"]
        gone = await client.post("/races/new", data={**typed, "lane.gone": "on", "do": "check"})
        assert "its pod has not reported" in gone.text
        started = await client.post("/races/new", data={**typed, "name": "typed", "do": "start"})
        assert started.headers["location"] == "/races/typed"
        assert (await track.one("typed"))["lanes"][1]["parameters"] == {"events": 3}
        bad = await client.post("/races/new", data={**typed, "own.b": "what", "do": "start"})
        assert (bad.status_code, "is not name=value" in bad.text) == (422, True)


async def test_damaged_races_and_hostile_pods_are_told_in_words(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        track = Paddock(only, client)
        many = [f"p{number:02}" + "x" * 190 for number in range(16)]
        odd = {
            "cpu": "<script>" * 50,
            "gpus": [],
            "models": [{"name": 7}],
            "engines": [{}],
            "cpus": "two",
        }
        for pod in many:
            await track.report(pod, labels={"team": "<b>"}, capabilities=odd)
        lanes = [{"pod": pod} for pod in many]
        checks = (await client.post("/api/race-checks", json={**BODY, "lanes": lanes})).json()
        assert {lane["grade"] for lane in checks["lanes"]} == {"GOOD"}
        made = await client.post("/api/races", json={**BODY, "name": "many", "lanes": lanes})
        assert made.status_code == 201, made.text
        await only.advance()
        runs = await track.start("many")
        await track.finish(runs[0], [1.0])
        row = {"runId": runs[1], "attempt": 1, "set": "laps"}
        await track.db.results.insert_one(
            {**row, "_id": "odd", "key": "1", "values": {"value": "<b>", "x": 1}}
        )
        await track.db.runs.delete_one({"_id": runs[2]})
        page = await client.get("/races/many")
        assert page.status_code == 200, page.text
        assert "<script>" * 2 not in page.text
        race = await track.one("many")
        assert [lane["state"] for lane in race["lanes"]][:3] == ["started", "started", "waiting"]
        assert (await client.get("/races/new", params={"kind": "probe"})).status_code == 200
        await only.add("matrix")
        for path in (
            "/api/races/matrix",
            "/api/races/none",
            "/api/races/none/export",
            "/api/races/none/samples",
        ):
            assert (await client.get(path)).status_code == 404
        assert (await client.post("/api/races/matrix/again")).status_code == 404
        for order in ("again", "cancel"):
            refused = await client.post(f"/races/matrix/{order}", data={"revision": "1"})
            assert (refused.status_code, "has another plan" in refused.text) == (404, True)
        lies: list[tuple[str, Any]] = [
            ("plan.measure", 7), ("plan.lanes", [1, 2]), ("rounds", [{}]), ("since", "now"),
            ("run", {"kind": []}),
        ]  # fmt: skip
        sound = await track.db.groups.find_one({"_id": "many"})
        assert sound is not None
        for path, lie in lies:
            await track.db.groups.update_one({"_id": "many"}, {"$set": {path: lie}})
            assert (await client.get("/api/races/many")).status_code == 409, path
            listed = (await client.get("/api/races")).json()
            assert [each["id"] for each in [*listed["items"], *listed.get("unreadable", [])]] == ["many"]
            await track.db.groups.replace_one({"_id": "many"}, sound)
