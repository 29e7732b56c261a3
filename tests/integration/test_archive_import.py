"""Archives that come from elsewhere: taken whole by another fleet, or refused for what is wrong with them."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from control_plane.server.deps import Deps
from control_plane.store.access.projects import Projects
from control_plane.store.files.orphans import OrphanReads
from control_plane.store.log.held_times import HeldTimes
from control_plane.store.log.run_removals import CHILDREN
from control_plane.store.verify.queries import VerifyReads
from control_plane.upkeep.archives import importer as importing
from control_plane.upkeep.archives.admission import Admitted, admitted
from control_plane.upkeep.archives.imported import Origin
from control_plane.verify.orphan_objects import OrphanObjects
from control_plane.verify.verifier import Verifier
from events import catalog as c
from events.queue.matching import WaitingClass
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Conflict, Rejected
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from tests.fork_server import run_program
from tests.integration.archive_lies import Parts, lied
from tests.integration.command_line import within
from tests.integration.conftest import HandDriven
from tests.integration.dying import Died, DiesAt
from tests.integration.files import keep
from tests.integration.in_process import application, control_plane
from tests.servers import S3Server

NOWHERE: Final = "http://127.0.0.1:9"
ROOT: Final = Path(__file__).parents[2]
CONTENT: Final = b"what the run has kept" * 4_000
GONE_BY: Final = timedelta(days=30)
ByHand = Callable[[str, str], Any]
# The id of a run, its archive, what its fleet says of it, and its archive without files.
Archived = tuple[str, bytes, dict[str, Any], bytes]


def written(fleet: Any, by_hand: ByHand, **body: Any) -> tuple[str, bytes]:
    """Return a run that a person approved, with all that a run has, and its archive."""
    spec = {"review": "human"}
    run_id = fleet.submit(spec=spec, labels={"team": "vision"}, **body)
    hand = by_hand("runs", "probe/cpu/any")
    assert hand.claim.attempt_id.run_id == run_id
    values = {"number": 1, "value": 2.5, "seconds": 0.5, "share": 0.5, "group": "a", "is_even": False}
    hand.say(
        c.RunStarted(),
        c.StageStarted(stage="probe", index=1, total=1),
        c.ResultRecorded(set="rows", key="1", values={**values, "value": 3.0}),
        c.ResultRecorded(set="rows", key="1", values=values),
        c.ResultRecorded(set="rows", key="2", values={**values, "number": 2, "is_even": True}),
        c.RunUsage(gpu_s=500.0, cost_usd=70.0),
        c.RunLog(level="info", message="<b>at work</b>"),
    )
    keep(hand, "kept.bin", CONTENT, "application/octet-stream")
    keep(hand, "empty.bin", b"", "application/octet-stream")
    hand.say(
        c.RunSummarized(values={"value": 2.5}),
        c.StageCompleted(stage="probe", duration_s=1.5),
        c.ValidationAutoCompleted(verdict="pass", summary="as claimed"),
        c.RunCompleted(summary="done"),
    )
    hand.settle(End("completed"))
    fleet.wait_for(run_id, "AWAITING_HUMAN")
    verdict = fleet.client.post(f"/api/runs/{run_id}/review", json={"verdict": "pass", "notes": "good"})
    assert verdict.json()["status"] == "HUMAN_VALIDATED", verdict.text
    for _ in range(600):
        answer = fleet.client.get(f"/api/runs/{run_id}/archive")
        if answer.status_code == httpx.codes.OK:
            return run_id, answer.content
    raise AssertionError(answer.text)


@pytest.fixture(scope="module")
def archived(common_fleets: Any) -> Archived:
    """A run of a fleet."""
    fleet = common_fleets(None)
    queue = MongoQueue(connect(fleet.database_url))

    def by_hand(collection: str, class_key: str) -> HandDriven:
        wanted = WaitingClass(collection, class_key, 0)
        claimed = queue.take(wanted, token=letters(SystemIds().token()), pod="by/hand")
        assert claimed is not None
        return HandDriven(fleet.client, queue, claimed)

    run_id, content = written(fleet, by_hand)
    queue.db.client.close()
    path = f"/api/runs/{run_id}"
    shown = {
        "run": fleet.client.get(path).json(),
        "events": fleet.client.get(f"{path}/events?limit=100").json(),
        "fleet": fleet.database_url.rpartition("/")[2].partition("?")[0],
    }
    return run_id, content, shown, fleet.client.get(f"{path}/archive?artifacts=false").content


@pytest.fixture
def elsewhere(emptied_url: str, s3: S3Server) -> dict[str, str]:
    """The settings of another fleet: a database and a bucket of its own."""
    bucket = f"other-{SystemIds().ulid().lower()}"
    return {**s3.environment, "MONGODB_URL": emptied_url, "MINIO_BUCKET": bucket}


@asynccontextmanager
async def other_fleet(elsewhere: dict[str, str]) -> AsyncIterator[tuple[Deps, httpx.AsyncClient]]:
    settings = {name: value for name, value in elsewhere.items() if name != "MONGODB_URL"}
    async with control_plane(elsewhere["MONGODB_URL"], **settings) as deps, application(deps) as client:
        await deps.blobs.prepare()
        yield deps, client


async def findings(deps: Deps) -> list[tuple[str, str]]:
    audit = Verifier(VerifyReads(deps.db), deps.blobs, second_look_s=0.0).audit(rebuilds=True)
    return [(each.invariant, each.message) async for each in audit]


async def post(client: httpx.AsyncClient, content: bytes) -> httpx.Response:
    return await client.post("/api/archives", content=content, headers={"Content-Type": "application/x-tar"})


async def is_empty(deps: Deps) -> bool:
    counts = [await deps.db[name].count_documents({}) for name in (*CHILDREN, "runs", "run_specs", "imports")]
    return not any(counts)


async def test_a_run_goes_to_another_fleet_and_is_the_same_there(
    archived: Archived, elsewhere: dict[str, str]
) -> None:
    run_id, content, shown, _ = archived
    there = shown["run"]
    async with other_fleet(elsewhere) as (deps, client):
        taken = await post(client, content)
        assert (taken.status_code, taken.json()) == (
            201, {"id": run_id, "kind": "probe", "status": "HUMAN_VALIDATED"},
        ), taken.text  # fmt: skip
        assert taken.headers["location"] == f"/api/runs/{run_id}"
        assert await findings(deps) == []
        here = (await client.get(f"/api/runs/{run_id}")).json()
        origin = here.pop("importedFrom")
        assert (origin["fleet"], origin["references"]["submittedBy"]) == (
            shown["fleet"], there["submittedBy"],
        )  # fmt: skip
        own = {"lease", "submittedBy", "revision", "links"}
        same = here.keys() & there.keys() - own
        assert {name: here[name] for name in same} == {name: there[name] for name in same}
        events = f"/api/runs/{run_id}/events?limit=100"
        assert (await client.get(events)).json() == shown["events"]
        found = await deps.blobs.digest(here["artifacts"][0]["key"], 10**6)
        assert found is not None
        assert {len(CONTENT), 0} == {each["size"] for each in here["artifacts"]}
        page = (await client.get(f"/runs/{run_id}", headers={"accept": "text/html"})).text
        assert "Imported from an archive of the fleet" in page

        assert (await client.get(f"/api/runs/{run_id}/archive")).content == content
        again = await post(client, content)
        assert (again.status_code, again.json()) == (200, taken.json())
        now = deps.clock.now()
        spent = await deps.accounts.reads.spent(now - GONE_BY, now + GONE_BY)
        assert (spent.gpu_s, spent.cost_usd, spent.events) == (0.0, 0.0, 0)
        assert await HeldTimes(deps.db).held(now - GONE_BY, now + GONE_BY) == []
        projects = Projects(deps.db)
        assert await projects.costs(now - GONE_BY, now + GONE_BY) == []
        assert await projects.ended(now - GONE_BY, now + GONE_BY) == []
        retried = await client.post(f"/api/runs/{run_id}/retry")
        assert (retried.status_code, retried.json()["code"]) == (409, "imported_run")
        claimable = await deps.db.runs.count_documents({"status": {"$in": ["QUEUED", "DELAYED"]}})
        assert (claimable, await deps.db.runs.count_documents({"tokens": {"$exists": True}})) == (0, 0)

        (big,) = [each for each in here["artifacts"] if each["size"]]
        await deps.blobs.put(big["key"], b"!" + CONTENT[1:])
        assert [name for name, _ in await findings(deps)] == ["artifact-altered"]
        await deps.blobs.put(big["key"], CONTENT)
        event = {"runId": run_id, "attempt": 1, "sequence": 7}
        await deps.db.events.update_one(event, {"$set": {"data.message": "was another"}})
        assert {"event-tampered"} <= {name for name, _ in await findings(deps)}
        other = await post(client, content)
        assert (other.status_code, other.json()["code"]) == (409, "run_exists")
        await deps.db.events.update_one(event, {"$set": {"data.message": "<b>at work</b>"}})
        assert (await post(client, content)).status_code == 200
        changed = lied(content, lambda parts: parts.set_run(title="tomorrow", words=["tomorrow"]))
        assert (await post(client, changed)).json()["code"] == "run_exists"

        gone = await client.delete(f"/api/runs/{run_id}")
        assert gone.status_code == 200, gone.text
        await deps.deleter.run_once()
        assert await findings(deps) == []
        refused = await post(client, content)
        assert (refused.status_code, refused.json()["code"]) == (409, "deleted")


async def test_an_archive_without_files_says_so_and_is_verified(
    archived: Archived, elsewhere: dict[str, str]
) -> None:
    run_id, content, _, bare = archived
    async with other_fleet(elsewhere) as (deps, client):
        assert (await post(client, bare)).status_code == 201
        assert await findings(deps) == []
        (file, *_) = (await client.get(f"/api/runs/{run_id}")).json()["artifacts"]
        missing = await client.get(f"/api/artifacts/{file['id']}")
        assert (missing.status_code, missing.json()["code"]) == (410, "taken")
        assert "was not in the archive" in missing.json()["detail"]
        assert (await client.get(f"/api/runs/{run_id}/archive?artifacts=false")).content == bare
        assert (await post(client, content)).status_code == 200  # the same run; nothing is added to it
        assert "not in the archive from which" in (await client.get(f"/runs/{run_id}")).text


def judged(content: bytes) -> Admitted:
    now = SystemClock().now()
    return admitted(io.BytesIO(content), Origin("test", now), now)


def lies(run_id: str) -> dict[str, tuple[str, Callable[[Parts], Any]]]:
    """Return lies about an archive of that run, with the codes for which each is refused."""
    other = "01JD000000000000000000RUNA"
    token = {"attempt": 1, "hash": "0" * 64, "keyId": None, "endsAt": None}
    number = {"$numberInt": "1"}

    def renamed(parts: Parts) -> None:
        parts.members = {
            name: content.replace(run_id.encode(), b"../x") for name, content in parts.members.items()
        }
        parts.manifest["run_id"] = "../x"

    def without(listed: str, position: int) -> Callable[[Parts], None]:
        def drop(parts: Parts) -> None:
            lines = parts.lines(listed)
            del lines[position]
            parts.put(listed, lines)

        return drop

    def with_another(listed: str, **fields: Any) -> Callable[[Parts], None]:
        return lambda parts: parts.put(listed, [*parts.lines(listed), {**parts.lines(listed)[0], **fields}])

    def set_in(listed: str, position: int, name: str, **fields: Any) -> Callable[[Parts], None]:
        def change(parts: Parts) -> None:
            lines = parts.lines(listed)
            lines[position][name] |= fields
            parts.put(listed, lines)

        return change

    def deciding(**fields: Any) -> Callable[[Parts], None]:
        def change(parts: Parts) -> None:
            lines = parts.lines("decisions")
            lines[1]["data"]["set"] |= fields
            parts.put("decisions", lines)

        return change

    def moved(parts: Parts) -> None:
        (first, *others) = parts.lines("artifacts")
        key = f"runs/{other}/a1/stolen"
        parts.put("artifacts", [{**first, "key": key}, *others])

    def added(name: str, content: bytes) -> Callable[[Parts], None]:
        return lambda parts: parts.members.update({name: content})

    changed = "archive_broken"
    return {
        "a token": ("bad_document", lambda parts: parts.set_run(tokens=[token])),
        "a lease": ("bad_document", lambda parts: parts.set_run(lease={"tokenHash": "x", "until": None})),
        "secrets": ("bad_document", lambda parts: parts.set_run(secrets=["HF_TOKEN"])),
        "a user": ("bad_document", lambda parts: parts.set_run(userId="somebody")),
        "an idempotency key": ("bad_document", lambda parts: parts.set_run(idempotency={"key": "k"})),
        "a journal": ("bad_document", lambda parts: parts.set_run(journal=[{}])),
        "an origin": ("bad_document", lambda parts: parts.set_run(importedFrom={})),
        "an operator as a field": ("bad_document", lambda parts: parts.set_run(**{"$set": {"x": "y"}})),
        "an unknown field": ("bad_document", lambda parts: parts.set_run(admin=True)),
        "a run that waits": ("run_not_over", lambda parts: parts.set_run(status="QUEUED")),
        "a run that is held": ("run_not_over", lambda parts: parts.set_run(status="RUNNING")),
        "a status that none is": ("bad_document", lambda parts: parts.set_run(status="DONE")),
        "another status": ("not_of_its_log", lambda parts: parts.set_run(status="COMPLETED")),
        "an open log": ("bad_document", lambda parts: parts.set_run(logOpen=True)),
        "a kind that is not here": ("unknown_kind", lambda parts: parts.set_run(kind="nobody")),
        "another title's words": ("bad_document", lambda parts: parts.set_run(words=["more"])),
        "another label's words": ("bad_document", lambda parts: parts.set_run(labelList=["team=other"])),
        "an id that is a path": ("bad_document", renamed),
        "another run": ("archive_broken|bad_event|bad_document", lambda parts: parts.set_run(_id=other)),
        "an invented summary": ("not_of_its_log", lambda parts: parts.set_run(summary={"value": number})),
        "an invented verdict": ("not_of_its_log", lambda parts: parts.set_run(
            humanVerdict={"verdict": "pass", "notes": "best of all", "reviewer": "nobody"})),
        "a raised priority": ("not_of_its_log", lambda parts: parts.set_run(priority={"$numberInt": "100"})),
        "a spec of another run": ("bad_document", lambda parts: parts.change("run_specs", 0, _id=other)),
        "a spec that no kind takes": ("bad_document|invalid_spec", lambda parts: parts.change(
            "run_specs", 0, spec={"command": "rm"})),
        "two specs": ("bad_document", with_another("run_specs")),
        "a stage of another run": ("bad_document", lambda parts: parts.change("stages", 0, runId=other)),
        "a stage that was not": ("not_of_its_log", lambda parts: parts.change("stages", 0, durationS=number)),
        "a second stage": ("not_of_its_log", with_another("stages", _id=f"{run_id}/a1/more", name="more")),
        "a field that nobody writes": ("bad_document", lambda parts: parts.change("stages", 0, more="x")),
        "an attempt that counts": ("bad_document", lambda parts: parts.change("attempts", 0, imported=True)),
        "an attempt of another pod": ("not_of_its_log", lambda parts: parts.change("attempts", 0, pod="x/y")),
        "a better row": ("not_of_its_log", set_in("results", 0, "values", value={"$numberDouble": "0.5"})),
        "a row less": ("not_of_its_log", without("results", 1)),
        "a row more": ("not_of_its_log", with_another("results", _id=f"{run_id}/a1/rows/x", key="9")),
        "the same row twice": ("bad_document", with_another("results")),
        "another verdict": ("not_of_its_log", lambda parts: parts.change("validations", 0, verdict="fail")),
        "a file elsewhere": ("not_of_its_log", moved),
        "a file less": ("archive_broken", without("artifacts", 0)),
        "a file of other bytes": (changed, lambda parts: parts.members.update(
            {name: b"x" + content[1:] for name, content in parts.members.items()
             if name.startswith("artifacts/") and content})),
        "a decision less": ("not_of_its_log", without("decisions", 2)),
        "a foreign decision": ("bad_document", lambda parts: parts.change("decisions", 0, runId=other)),
        "a decision that grants": ("bad_document", deciding(tokens=[token])),
        "a decision that names secrets": ("bad_document", deciding(secrets=["HF_TOKEN"])),
        "a decision that sets more": ("not_of_its_log", deciding(classKey="probe/gpu/any")),
        "a decision with a digest": ("bad_document", lambda parts: parts.change("decisions", 0, hash="0")),
        "an event less": (changed, without("a1", 3)),
        "an event changed": ("event_changed", lambda parts: set_in("a1", 6, "data", message="x")(parts)),
        "an event changed with its digest": (changed, lambda parts: parts.change_event(6, message="x")),
        "an event of another run": ("bad_event", lambda parts: parts.change("a1", 6, subject=f"run/{other}")),
        "an event twice": ("bad_order", with_another("a1")),
        "events that come first": ("bad_order", lambda parts: parts.members.update(
            {"documents/stages-000002.ndjson": parts.members.pop(parts.part("stages"))})),
        "a list that no run has": ("unknown_list", added("documents/api_keys-000001.ndjson", b"{}\n")),
        "groups": ("unknown_list", added("documents/groups-000001.ndjson", b"{}\n")),
        "projects": ("unknown_list", added("documents/projects-000001.ndjson", b"{}\n")),
    }  # fmt: skip


async def test_no_lie_is_taken_and_each_is_named(
    archived: Archived, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    run_id, content, *_ = archived
    assert judged(lied(content, lambda _: None)).run_id == run_id
    for name, (codes, lie) in lies(run_id).items():
        with pytest.raises(Rejected) as refused:
            judged(lied(content, lie))
        assert refused.value.code in codes.split("|"), (name, refused.value.code, refused.value.message)
        assert len(refused.value.message) < 2_000, name
    async with other_fleet(elsewhere) as (deps, client):
        for name in ("a token", "an invented verdict", "an event less"):
            answer = await post(client, lied(content, lies(run_id)[name][1]))
            assert answer.status_code == 422, (name, answer.text)
        for hostile in (b"", gzip.compress(bytes(10**7)), content[:-1], content + b"\0"):
            assert (await post(client, hostile)).status_code == 422
        assert await is_empty(deps)
        assert await findings(deps) == []
    forged = tmp_path / "forged.tar"
    forged.write_bytes(lied(content, lies(run_id)["an event less"][1]))
    told = within(NOWHERE, "archive", "import", str(forged))
    assert (told.returncode, "were sealed" in told.stderr) == (1, True), told.stderr


async def test_an_import_that_is_killed_leaves_nothing_visible_and_is_repeated(
    archived: Archived, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    run_id, content, *_ = archived
    archive = tmp_path / "run.tar"
    archive.write_bytes(content)
    async with other_fleet(elsewhere) as (deps, client):
        command = ("-m", "tests.integration.programs.dying_importer", str(archive), "add_run")
        environment = {**elsewhere, "PATH": os.defpath}
        killed = await asyncio.to_thread(run_program, command, env=environment, cwd=ROOT, limit_s=60)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (await client.get(f"/api/runs/{run_id}")).status_code == 404
        assert (await client.get("/api/runs")).json()["items"] == []
        assert await findings(deps) == []
        assert await deps.importer.run_once() == 0  # it is too young to be given up
        both = await asyncio.gather(post(client, content), post(client, content))
        assert {each.status_code for each in both} <= {200, 201}, [each.text for each in both]
        assert await findings(deps) == []
        assert await orphans(deps) == []
        assert (await client.get(f"/api/runs/{run_id}/archive")).content == content
        assert await deps.db.imports.count_documents({}) == 0


async def test_what_an_abandoned_import_has_left_is_removed_before_another_archive_is_taken(
    archived: Archived, elsewhere: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, content, *_ = archived
    async with other_fleet(elsewhere) as (deps, client):
        store: Any = DiesAt(deps.importer.store, "add_run", answered=False)
        with pytest.raises(Died):
            await take(replace(deps.importer, store=store), content)
        another = lied(content, lambda parts: parts.manifest.update(fleet="another"))
        waits = await post(client, another)
        assert (waits.status_code, waits.json()["code"]) == (409, "import_under_way")
        monkeypatch.setattr(importing, "ABANDONED_S", -1)  # as if nobody had been heard of for long
        assert await deps.importer.run_once() == 1
        assert await is_empty(deps)
        assert len(await orphans(deps)) == 2
        assert (await post(client, another)).status_code == 201
        shown = (await client.get(f"/api/runs/{run_id}")).json()
        assert shown["importedFrom"]["fleet"] == "another"


async def take(importer: importing.Importer, content: bytes) -> importing.Imported:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return await importer.take(file, by="test")


async def orphans(deps: Deps) -> list[str]:
    """Return the objects that nothing names, however young they are."""
    found = OrphanObjects(
        OrphanReads(deps.db), deps.blobs, deps.audit_log, deps.clock, deps.ids, "test",
        grace=timedelta(days=-1),
    )  # fmt: skip
    return [key async for page in found.found() for key in page]


async def test_documents_of_others_are_not_taken_for_those_of_an_archive(
    archived: Archived, elsewhere: dict[str, str]
) -> None:
    run_id, content, *_ = archived
    async with other_fleet(elsewhere) as (deps, _):
        stranger = {"_id": f"{run_id}/a1/probe", "runId": run_id, "attempt": 1, "name": "probe"}
        await deps.db.stages.insert_one(stranger)
        with pytest.raises(Conflict) as refused:
            await take(deps.importer, content)
        assert refused.value.code == "documents_in_the_way"
        assert await deps.db.runs.count_documents({}) == 0
        await deps.db.stages.delete_one({"_id": stranger["_id"]})
        renewing = replace(deps.importer, renew_s=0.0)
        assert (await take(renewing, content)).is_new
