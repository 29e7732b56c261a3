"""Objects that nothing names: found in a real storage, removed on wish, and nothing else with them."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest

from control_plane.config import read_storage
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.server.deps import Deps
from control_plane.store.access.audit_log import AuditLog
from control_plane.store.files.orphans import OrphanReads
from control_plane.verify.orphan_objects import GRACE, OrphanObjects, by_run
from events.queue.settlement import TOKEN_LIFE
from tests.integration.command_line import podfleet

pytestmark = pytest.mark.slow("real servers and processes")

AT_ONCE: Final = timedelta(minutes=-5)
OWN: Final = "ORPHANTEST"  # other tests share the storage
KEPT: Final = ("registered", "running", "ended_lately", "log_open", "with_tree")


@dataclass(frozen=True)
class OwnObjects:
    """The real storage, and of its objects those of this test; `meanwhile` comes before each removal."""

    blobs: Blobs
    meanwhile: Any = None

    async def older(self, prefix: str, age: timedelta) -> AsyncIterator[Sequence[str]]:
        async for page in self.blobs.older(f"{prefix}{OWN}", age):
            yield page

    async def remove(self, key: str) -> None:
        if self.meanwhile is not None:
            await self.meanwhile(key)
        await self.blobs.remove(key)


@pytest.fixture
def blobs(s3: Any) -> Blobs:
    return open_blobs(read_storage(s3.environment))


def looking(deps: Deps, storage: Any, *, is_dry: bool = False, grace: timedelta = AT_ONCE) -> OrphanObjects:
    reads = OrphanReads(deps.db)
    return OrphanObjects(reads, storage, AuditLog(deps.db), deps.clock, deps.ids, "a test", is_dry, grace)


async def keys_of(finding: OrphanObjects) -> list[str]:
    return [key async for page in finding.found() for key in page]


def key_of(name: str) -> str:
    return f"runs/{OWN}{name}/a1/{'0' * 64}/model.bin"


async def stored(deps: Deps, blobs: Blobs) -> dict[str, str]:
    """Put an object of each of several runs; those of `KEPT` have a reason to stay."""
    now = deps.clock.now()
    names = (*KEPT, "orphan", "unknown_run")
    keys = {name: key_of(name) for name in names}
    for key in keys.values():
        blobs.client.put_object(blobs.bucket, key, io.BytesIO(b"kept"), 4)
    over = {"status": "COMPLETED", "finishedAt": now - timedelta(days=1), "logOpen": False}
    fields = {
        "running": {"status": "RUNNING", "finishedAt": None},
        "ended_lately": {"finishedAt": now - 3 * AT_ONCE}, "log_open": {"logOpen": True},
    }  # fmt: skip
    for name in names:
        if name != "unknown_run":
            run = {"_id": f"{OWN}{name}", **over, **fields.get(name, {})}
            await deps.db.runs.insert_one(run)
    await deps.db.artifacts.insert_one(
        {"_id": f"{OWN}registered/a1/x", "runId": f"{OWN}registered", "key": keys["registered"]}
    )
    await deps.db.trees.insert_one({"_id": "f" * 64, "run": f"{OWN}with_tree", "keys": [keys["with_tree"]]})
    return keys


async def test_only_what_nothing_names_and_nobody_can_name_goes(deps: Deps, blobs: Blobs) -> None:
    keys = await stored(deps, blobs)
    wanted = sorted((keys["orphan"], keys["unknown_run"]))
    assert await keys_of(looking(deps, OwnObjects(blobs), is_dry=True, grace=GRACE)) == []  # all are young
    assert await keys_of(looking(deps, OwnObjects(blobs), is_dry=True)) == wanted
    assert [await blobs.version(key) is not None for key in wanted] == [True, True]
    assert await deps.db.audit.count_documents({}) == 0
    await deps.db.inspections.insert_many([{"_id": keys["orphan"]}, {"_id": keys["registered"]}])

    told: list[int] = []

    async def already_told(_: str) -> None:
        told.append(await deps.db.audit.count_documents({"object": "storage/orphans"}))

    assert await keys_of(looking(deps, OwnObjects(blobs, already_told))) == wanted
    assert told == [1, 1]  # the audit log says so before anything goes
    assert [await blobs.version(key) for key in wanted] == [None, None]
    assert [await blobs.version(keys[name]) is not None for name in KEPT] == [True] * len(KEPT)
    assert [each["_id"] async for each in deps.db.inspections.find()] == [keys["registered"]]
    assert await keys_of(looking(deps, OwnObjects(blobs))) == []
    for name in KEPT:
        await blobs.remove(keys[name])


def test_what_is_no_key_of_an_attempt_is_left_alone() -> None:
    good = "runs/01JD/a1/0/model.bin"
    others = [
        "runs/01JD/model.bin", "runs/01JD/a/x", "runs/../a1/x/", "chunks/00", "trees/00.json",
        "runs/a b/a1/x",
        ".podfleet/trial", "backups/runs/01JD/a1/x", "runs//a1/x", "runs/01JD/a1/",
    ]  # fmt: skip
    assert by_run([good, *others]) == {"01JD": [good]}
    assert GRACE > TOKEN_LIFE


async def test_the_command_lists_what_the_settings_name(deps: Deps, emptied_url: str, s3: Any) -> None:
    told = podfleet("", "storage", "orphans", MONGODB_URL=emptied_url, **s3.environment)
    assert (told.returncode, told.stdout) == (0, ""), told.stderr
    assert told.stderr.strip() == "0 objects could be removed"
    assert podfleet("", "storage", "orphans", MONGODB_URL=emptied_url).returncode == 2
