"""What is shown of a file is what was registered: whatever lies in its place is not."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from control_plane.config import read_storage
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.files.inspection import Inspector
from control_plane.store import database as store
from control_plane.store.log.inspections import Inspections, Looked, Version
from control_plane.store.reads import RunReads
from events.catalog import ArtifactRegistered
from events.queue.claims import Claim
from events.queue.settlement import End
from events.runtime.errors import Transient
from tests.integration.command_line import podfleet
from tests.integration.files import keep

pytestmark = pytest.mark.common_fleet
GOOD = b"metric,value\naccuracy,0.5\n"
FORGED = b"metric,value\naccuracy,0.9\n"


@pytest.fixture
def blobs(s3: Any) -> Blobs:
    return open_blobs(read_storage(s3.environment))


def put(blobs: Blobs, key: str, content: bytes) -> None:
    """Put an object into the storage, past the control plane."""
    blobs.client.put_object(blobs.bucket, key, io.BytesIO(content), len(content))


def artifacts(fleet: Any, claim: Claim) -> dict[str, Any]:
    page = fleet.client.get(f"/api/runs/{claim.run_id}/artifacts").json()
    return {each["name"]: each for each in page["items"]}


def refused(fleet: Any, artifact: Any) -> tuple[int, str, int]:
    """Ask for a file by the API and by its page."""
    answer = fleet.client.get(f"/api/artifacts/{artifact['id']}")
    body = answer.json() if answer.status_code != 302 else {"code": "", "detail": ""}
    page = fleet.client.get(f"/artifacts/{artifact['id']}")
    assert body["detail"].split(": ")[-1] in page.text
    assert "accuracy,0.9" not in page.text
    assert "0.9</td>" not in page.text
    return answer.status_code, body["code"], page.status_code


def test_what_was_put_in_the_place_of_a_file_is_not_shown_and_carries_no_verdict(
    fleet: Any, by_hand: Any, blobs: Blobs, database: Any
) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    keep(pod, "results.csv", GOOD, "text/csv")
    result = artifacts(fleet, pod.claim)["results.csv"]
    for _ in range(2):
        assert fleet.client.get(f"/api/artifacts/{result['id']}").status_code == 302
    assert "0.5</td>" in fleet.client.get(f"/artifacts/{result['id']}").text

    put(blobs, result["key"], FORGED)
    assert refused(fleet, result) == (409, "object_unfit", 409)
    pod.settle(End("completed"))
    path = f"/api/runs/{run_id}/review"
    answer = fleet.client.post(path, json={"verdict": "pass"})
    assert (answer.status_code, answer.json()["code"]) == (409, "record_incomplete")
    assert "'results.csv' is not shown: its bytes are not those" in answer.json()["detail"]

    put(blobs, result["key"], GOOD)
    assert fleet.client.get(f"/api/artifacts/{result['id']}").status_code == 302
    put(blobs, result["key"], FORGED)
    answer = fleet.client.post(path, json={"verdict": "pass", "incomplete": True})
    assert answer.json()["sealed"]["whole"] is False


def test_a_file_that_was_never_there_or_is_another_is_not_shown(
    fleet: Any, by_hand: Any, blobs: Blobs, database: Any, tmp_path: Path
) -> None:
    fleet.submit()
    pod = by_hand("runs", "probe/cpu/any")
    keep(pod, "results.csv", GOOD, "text/csv")
    true = artifacts(fleet, pod.claim)["results.csv"]
    told = {"key": true["key"], "sha256": true["sha256"], "content_type": "text/csv"}
    pod.say(ArtifactRegistered(name="short.csv", size=1, **told))
    pod.say(ArtifactRegistered(name="other.csv", size=len(GOOD), **{**told, "sha256": "0" * 64}))
    pod.say(ArtifactRegistered(name="gone.csv", size=len(GOOD), **{**told, "key": true["key"] + "x"}))
    found = artifacts(fleet, pod.claim)
    assert refused(fleet, found["short.csv"]) == (409, "object_unfit", 409)
    assert refused(fleet, found["other.csv"]) == (409, "object_unfit", 409)
    assert refused(fleet, found["gone.csv"]) == (404, "unknown_artifact", 404)
    assert fleet.client.get(f"/api/artifacts/{true['id']}").status_code == 302
    fetched = podfleet(fleet.url, "artifacts", "get", pod.claim.run_id, "-o", str(tmp_path))
    assert (fetched.returncode, fetched.stdout) == (1, f"{tmp_path}/results.csv\n"), fetched.stderr
    assert "3 of 4 files could not be kept" in fetched.stderr

    put(blobs, true["key"], FORGED)
    # A damaged note says nothing.
    database.inspections.update_one({"_id": true["key"]}, {"$set": {"etag": 7}}, upsert=True)
    assert refused(fleet, true) == (409, "object_unfit", 409)


class Slow:
    """A storage that reads when the test lets it."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs, self.may_read, self.reads = blobs, asyncio.Event(), 0

    async def version(self, key: str) -> Version | None:
        return await self.blobs.version(key)

    async def read(self, key: str, most: int) -> Looked | None:
        self.reads += 1
        await self.may_read.wait()
        looked = await self.blobs.read(key, most)
        return None if looked is None else replace(looked, is_settled=True)  # as it is in some seconds

    async def beginning(self, key: str, limit: int) -> tuple[Version, bytes] | None:
        return await self.blobs.beginning(key, limit)


def test_a_large_file_is_read_once_for_all_who_ask_and_on_where_nobody_waits(
    blobs: Blobs, database_url: str
) -> None:
    async def scenario(inspector: Inspector, slow: Slow) -> None:
        async def ask() -> str:
            try:
                await inspector.require(*(artifact[name] for name in ("name", "key", "size", "sha256")))
            except Transient as error:
                return error.code
            return "shown"

        looked = await blobs.read("runs/x/a1/y", len(GOOD))
        assert looked is not None
        artifact = {
            "name": "y", "key": "runs/x/a1/y", "size": looked.version.size, "sha256": looked.sha256,
        }  # fmt: skip
        assert await asyncio.gather(*(ask() for _ in range(3))) == ["object_unread"] * 3
        slow.may_read.set()
        for _ in range(2):
            while await ask() != "shown":  # to ask the store takes longer on a busy machine
                await asyncio.sleep(0.01)
        assert slow.reads == 1

    put(blobs, "runs/x/a1/y", GOOD)
    asyncio.run(on_store(database_url, blobs, scenario))


async def on_store(url: str, blobs: Blobs, scenario: Callable[[Inspector, Slow], Awaitable[None]]) -> None:
    """Run a scenario with an inspector that waits for a moment only."""
    client, slow = store.connect(url), Slow(blobs)
    try:
        db = store.database(client, url)
        await scenario(Inspector(slow, Inspections(db), RunReads(db), wait_s=0.05), slow)
    finally:
        await client.close()
