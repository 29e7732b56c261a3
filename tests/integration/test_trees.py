"""File trees over HTTP and a real storage: pushed, resumed, pulled, fetched by a pod, named as data sets."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from minio import Minio

from control_plane.store.files.tree_removals import TreeRemovals
from events.delivery.control_plane_client import ControlPlane, bearer, control_plane_client
from events.files.tree_fetch import TreeFetch
from events.files.trees import CHUNK_BYTES, id_of, layout, size_of
from events.queue.claims import Claim
from events.runtime.clock import SystemClock
from events.runtime.errors import LeaseLost, NotFound
from pod_worker.files.trees import TreeCache, TreesOfRun
from podfleet.client.problems import Refused
from podfleet.client.synchronous import Client
from podfleet.client.trees import pushing
from podfleet.client.trees.packing import Packed, pack
from podfleet.client.trees.pushing import Push, Unpushed
from tests.integration import in_process
from tests.integration.command_line import within
from tests.integration.conftest import Fleet

KEY: Final = "the-key-of-the-test"
ZERO: Final = "0" * 64
CLOCK: Final = SystemClock()
Sweep = Callable[..., int]
pytestmark = pytest.mark.common_fleet(key=KEY)


@pytest.fixture
def client(fleet: Fleet) -> Iterator[Client]:
    with Client(fleet.url, KEY) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three chunks whose bytes no other test has."""
    found = tmp_path / "folder"
    (found / "sub").mkdir(parents=True)
    (found / "large").write_bytes(random.randbytes(1 << 16) * (CHUNK_BYTES >> 16) + os.urandom(9))
    (found / "sub/run").write_bytes(os.urandom(99))
    (found / "sub/run").chmod(0o755)
    (found / "empty").touch()
    return found


def storage_of(s3: Any) -> Minio:
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key}
    return Minio(s3.endpoint.removeprefix("http://"), **keys, secure=False, region=s3.region)


def missing(client: Client, packed: Packed) -> list[str]:
    sizes = zip(packed.tree.chunks, map(size_of, layout(packed.tree.files)), strict=True)
    return [each.sha256 for each in client.missing_of_trees([*sizes]).chunks]


def contents(folder: Path) -> dict[str, tuple[bytes, bool]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), os.access(path, os.X_OK)) for path in files}


def test_a_data_set_is_pushed_listed_shown_and_pulled(fleet: Fleet, folder: Path, tmp_path: Path) -> None:
    def podfleet(*arguments: str) -> Any:
        return within(fleet.url, "data", *arguments, PODFLEET_API_KEY=KEY, cwd=tmp_path)

    pushed = podfleet("push", "mine", "folder")
    assert (pushed.returncode, pushed.stdout) == (0, "mine/1 has 3 files of 8.0 MiB\n"), pushed.stderr
    assert podfleet("push", "mine", "folder").stdout == pushed.stdout  # nothing new
    (folder / "new").write_text("more")
    assert json.loads(podfleet("push", "mine", "folder", "--json").stdout)["id"] == "mine/2"
    assert podfleet("push", "other", "folder", "--exclude", "large").returncode == 0
    assert podfleet("list", "--ids").stdout.split() == ["mine/2", "mine/1", "other/1"]
    assert podfleet("list", "mine", "--ids", "--limit", "1").stdout.split() == ["mine/2"]
    assert json.loads(podfleet("show", "mine/1", "--json").stdout)["files"] == 3
    assert "mine/2" in podfleet("show", "mine").stdout
    assert podfleet("pull", "mine", "--output", "again").stdout == "again\n"
    assert contents(tmp_path / "again") == contents(folder)
    assert podfleet("pull", "mine/1").returncode == 0
    assert sorted(contents(tmp_path / "mine")) == ["empty", "large", "sub/run"]
    there = podfleet("pull", "mine")
    assert (there.returncode, "is there already" in there.stderr) == (1, True)
    for arguments, status, words in (
        (("show", "mine/3"), 1, "no version 3 of a data set 'mine'"),
        (("show", "mine/x"), 2, "is no version"),
        (("pull", "none"), 1, "no data set 'none'"),
        (("push", "Mine", "folder"), 2, "data_set_id"),
        (("push", "mine", "nowhere"), 2, "nowhere is no folder"),
    ):
        refused = podfleet(*arguments)
        assert (refused.returncode, words in refused.stderr) == (status, True), refused.stderr
    entries = fleet.client.get("/api/audit", params={"object": "data_set/mine"}).json()["items"]
    assert {each["action"].split()[0] for each in entries} == {"POST"}


def test_a_push_that_broke_off_sends_what_is_missing(client: Client, folder: Path) -> None:
    packed = pack(folder)

    class BrokenOff(Exception):
        pass

    def break_off(done: int, size: int) -> None:
        if 0 < done < size:
            raise BrokenOff

    assert len(missing(client, packed)) == 3
    with pytest.raises(BrokenOff):
        Push(client, CLOCK, break_off).run(packed)
    left = missing(client, packed)
    assert len(left) < 3
    with pytest.raises(Refused, match="lacks its manifest") as refused:
        client.add_tree(id_of(packed.tree.manifest()))
    assert refused.value.code == "tree_incomplete"
    told: list[tuple[int, int]] = []
    pushed = Push(client, CLOCK, lambda *each: told.append(each)).run(packed)
    assert told[0][0] == packed.tree.size - sum(
        size for sha256, size in _sizes(packed).items() if sha256 in left
    )
    assert told[-1] == (packed.tree.size, packed.tree.size)
    assert (pushed.size, pushed.files, pushed.chunks) == (packed.tree.size, 3, 3)
    wrong = [(sha256, size % CHUNK_BYTES + 1) for sha256, size in _sizes(packed).items()]
    assert client.missing_of_trees(wrong).chunks == []  # nothing is put over what is right
    told.clear()
    assert Push(client, CLOCK, lambda *each: told.append(each)).run(packed).id == pushed.id
    assert told == []
    assert Push(client, CLOCK, lambda *each: told.append(each)).run(packed, is_checked=True).id == pushed.id
    assert told == [(packed.tree.size, packed.tree.size)]


def _sizes(packed: Packed) -> dict[str, int]:
    return dict(zip(packed.tree.chunks, map(size_of, layout(packed.tree.files)), strict=True))


def test_a_tree_whose_bytes_are_others_is_not_added_and_can_be_mended(
    client: Client, folder: Path, s3: Any
) -> None:
    packed = pack(folder)
    manifest = packed.tree.manifest()
    sizes = [*_sizes(packed).items()]
    asked = client.missing_of_trees(sizes, (id_of(manifest), len(manifest)))
    assert asked.manifest is not None
    with httpx.Client(trust_env=False) as storage:
        for each in asked.chunks:  # the right sizes, and nothing else right
            storage.put(each.url, content=bytes(_sizes(packed)[each.sha256]), headers=each.headers)
        assert storage.put(asked.manifest.url, content=manifest, headers=asked.manifest.headers).is_success
        assert storage.put(asked.manifest.url, content=manifest + b" ").status_code == 403
    with pytest.raises(Refused, match="lacks 3 of its 3 chunks"):
        client.add_tree(id_of(manifest))
    assert len(missing(client, packed)) == 3
    assert Push(client, CLOCK).run(packed).size == packed.tree.size
    lost = packed.tree.chunks[0]
    storage_of(s3).remove_object(s3.bucket, f"chunks/{lost}")
    assert Push(client, CLOCK).run(packed).id == id_of(manifest)  # believed
    assert missing(client, packed) == [lost]
    assert Push(client, CLOCK).run(packed, is_glanced=True).id == id_of(manifest)
    assert missing(client, packed) == []


def test_a_storage_that_takes_nothing_and_a_file_that_changes_end_a_push(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "BACK_OFF_MAX_S", 0.001)
    packed = pack(folder)
    with monkeypatch.context() as patched:
        refusing = httpx.MockTransport(lambda _: httpx.Response(507, text="full"))
        patched.setattr(Push, "_storage", lambda *_: httpx.Client(transport=refusing))
        with pytest.raises(Unpushed, match="does not take a file: it answers 507: full; push again later"):
            Push(client, CLOCK).run(packed)
    (folder / "large").write_bytes(b"another")
    with pytest.raises(Exception, match="'large', or one beside it, changed while"):
        Push(client, CLOCK).run(packed)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/api/trees", {"id": ZERO}, 409, "tree_incomplete"),
        ("POST", "/api/trees", {"id": "../x"}, 422, "invalid"),
        (
            "POST",
            "/api/tree-uploads",
            {"chunks": [{"sha256": ZERO, "size": CHUNK_BYTES + 1}]},
            422,
            "invalid",
        ),
        ("POST", "/api/tree-uploads", {"chunks": [{"sha256": ZERO, "size": 1}] * 257}, 422, "invalid"),
        ("POST", "/api/tree-uploads", {"manifest": {"sha256": ZERO, "size": 33 << 20}}, 422, "invalid"),
        ("GET", f"/api/trees/{ZERO}", None, 404, "unknown_tree"),
        ("GET", "/api/trees/..%2Fx/chunks", None, 404, None),
        ("GET", f"/api/trees/{ZERO}/chunks?first=-1", None, 422, "invalid"),
        ("POST", "/api/data-sets/mine", {"tree": ZERO}, 404, "unknown_tree"),
        ("POST", "/api/data-sets/a.b/c", {"tree": ZERO}, 405, None),
        ("GET", "/api/data-sets/mine/0", None, 422, "invalid"),
        ("GET", "/api/data-sets?after=x", None, 400, "bad_cursor"),
    ],
)
def test_what_is_wrong_is_refused(
    fleet: Fleet, method: str, path: str, body: Any, status: int, code: str | None
) -> None:
    answer = fleet.client.request(method, path, json=body)
    assert (answer.status_code, code or answer.json()["code"]) == (status, answer.json()["code"]), answer.text


def test_a_manifest_that_lies_is_not_added(client: Client) -> None:
    lie = b'{"files":[{"path":"../x","size":0,"executable":false}],"chunks":[]}'
    tree_id = hashlib.sha256(lie).hexdigest()
    at = client.missing_of_trees([], (tree_id, len(lie))).manifest
    assert at is not None
    assert httpx.put(at.url, content=lie, headers=at.headers, trust_env=False).is_success
    with pytest.raises(Refused, match="no relative path") as refused:
        client.add_tree(tree_id)
    assert (refused.value.code, refused.value.status) == ("bad_tree", 422)


def test_a_manifest_that_lies_of_a_chunk_of_others_removes_nothing(client: Client, folder: Path) -> None:
    packed = pack(folder)
    Push(client, CLOCK).run(packed)
    chunk = packed.tree.chunks[0]
    lie = json.dumps(
        {"files": [{"path": "a", "size": 5, "executable": False}], "chunks": [chunk]}, separators=(",", ":")
    ).encode()
    tree_id = hashlib.sha256(lie).hexdigest()
    at = client.missing_of_trees([], (tree_id, len(lie))).manifest
    assert at is not None
    assert httpx.put(at.url, content=lie, headers=at.headers, trust_env=False).is_success
    with pytest.raises(Refused, match="lacks 1 of its 1 chunks"):
        client.add_tree(tree_id)
    assert missing(client, packed) == []


def test_a_pod_fetches_the_trees_that_its_run_names_and_no_others(
    fleet: Fleet, database: Any, by_hand: Any, client: Client, folder: Path, tmp_path: Path
) -> None:
    tree = Push(client, CLOCK).run(pack(folder))
    run_id = fleet.submit()
    claim: Claim = by_hand("runs", "probe/cpu/any").claim
    assert claim.run_id == run_id
    with control_plane_client(fleet.url, None) as http, httpx.Client(trust_env=False) as storage:
        source = TreesOfRun(ControlPlane(http, CLOCK), claim)
        fetch = TreeFetch(source, storage, CLOCK)
        with pytest.raises(NotFound, match="does not name this tree"):
            source.tree(tree.id)
        for spec in ({"spec.tree": tree.id}, {"spec.inputs": {"data": f"data/1@{tree.id}"}}):
            database.run_specs.update_one({"_id": run_id}, {"$unset": {"spec.tree": ""}})
            database.run_specs.update_one({"_id": run_id}, {"$set": spec})
            assert source.tree(tree.id).size == tree.size
        with TreeCache(tmp_path / "trees", CLOCK).used(tree.id, fetch) as fetched:
            assert contents(fetched) == contents(folder)
        path = f"{fleet.url}/api/runs/{run_id}/trees/{tree.id}"
        assert httpx.get(path, headers=bearer(KEY), trust_env=False).status_code == 403
        database.runs.update_one({"_id": run_id}, {"$inc": {"attempt": 1}})
        with pytest.raises(LeaseLost):
            source.chunks(tree.id, 0)


@pytest.fixture
def sweep(fleet: Fleet, s3: Any) -> Sweep:
    """Sweep as long after the last use, and after each PUT, as is said; `meanwhile` comes in between."""

    def run(meanwhile: Mapping[str, Callable[[], object]], **ages: Any) -> int:
        async def swept() -> int:
            async with in_process.control_plane(fleet.database_url, **s3.environment) as deps:
                removals = Disturbed(deps.db, dict(meanwhile))
                sweeper = replace(deps.tree_sweeper, removals=removals, **ages)
                return await sweeper.run_once()

        return asyncio.run(swept())

    return run


@dataclass(frozen=True)
class Disturbed(TreeRemovals):
    """Calls what is named `before` a step of the sweep, once."""

    before: dict[str, Callable[[], object]] = field(default_factory=dict)

    async def _disturb(self, step: str) -> None:
        if (disturb := self.before.pop(step, None)) is not None:
            await asyncio.to_thread(disturb)

    async def announce(self, removal: str, objects: Iterable[str]) -> None:
        await self._disturb("announce")
        await TreeRemovals.announce(self, removal, objects)
        await self._disturb("last look")

    async def keep(self, trees: Collection[str]) -> None:
        await TreeRemovals.keep(self, trees)
        await self._disturb("drop")

    async def conclude(self, removal: str, keys: Sequence[str]) -> None:
        await self._disturb("conclude")
        await TreeRemovals.conclude(self, removal, keys)


AT_ONCE: Final = timedelta(minutes=-5)


def test_what_nothing_names_goes_and_what_another_tree_shares_stays(
    client: Client, database: Any, folder: Path, sweep: Sweep
) -> None:
    one = Push(client, CLOCK).run(pack(folder))
    (folder / "sub/run").write_bytes(os.urandom(99))
    packed = pack(folder)
    two = Push(client, CLOCK).run(packed)
    assert client.add_data_set("mine", two.id).version == 1
    assert sweep({}) == 0  # both were used a moment ago
    assert sweep({}, unused=AT_ONCE) == 1
    with pytest.raises(Refused, match="no tree"):
        client.tree(one.id)
    assert sweep({}, unused=AT_ONCE, orphaned=AT_ONCE) >= 2  # a manifest and the chunk that only it had
    assert missing(client, packed) == []
    assert client.tree(two.id).chunks == 3
    database.trees.insert_one({"_id": one.id, "createdAt": CLOCK.now(), "pending": True})
    assert sweep({}, unused=AT_ONCE) == 1  # a push that never came to its end
    client.remove_data_set_version("mine", 1)
    assert sweep({}, unused=AT_ONCE, orphaned=AT_ONCE) >= 5
    assert len(missing(client, packed)) == 3
    assert client.add_data_set("mine", Push(client, CLOCK).run(packed).id).version == 2


@pytest.mark.parametrize(
    ("collection", "stored", "is_named"),
    [
        ("run_specs", {"kind": "job", "spec": {"tree": "ID"}}, True),
        ("run_specs", {"kind": "job", "spec": {"inputs": {"a": "images/3@ID"}}}, True),
        ("run_specs", {"kind": "job", "spec": {"source": {"diff": "ID"}}}, True),
        ("run_specs", {"kind": "job", "spec": {"inputs": {"a": "images/3@0ID"}}}, False),
        ("run_specs", {"_id": "old", "kind": "job", "spec": {"tree": "ID"}}, False),
        ("schedules", {"run": {"spec": {"inputs": {"a": "ID"}}}}, True),
        ("groups", {"status": "OPEN", "updatedAt": 400, "run": {"spec": {"tree": "ID"}}}, True),
        ("groups", {"status": "FAILED", "updatedAt": 9, "run": {"spec": {"tree": "ID"}}}, True),
        ("groups", {"status": "FAILED", "updatedAt": 400, "run": {"spec": {"tree": "ID"}}}, False),
        ("groups", {"status": "OPEN", "run": {"spec": {}}, "plan": {"values": [["ID"]]}}, True),
    ],
)
def test_who_names_a_tree_keeps_it(
    fleet: Fleet, database: Any, collection: str, stored: dict[str, Any], is_named: bool
) -> None:
    tree, now = hashlib.sha256(os.urandom(9)).hexdigest(), CLOCK.now()
    document = json.loads(json.dumps(stored).replace("ID", tree))
    if "updatedAt" in document:
        document["updatedAt"] = now - timedelta(days=document["updatedAt"])
    database[collection].insert_one({"_id": "some", **document})
    old = {"status": "COMPLETED", "finishedAt": now - timedelta(days=99)}
    database.runs.insert_many([{"_id": "old", **old}, {"_id": "other", **old}])

    async def named() -> set[str]:
        async with in_process.control_plane(fleet.database_url) as deps:
            return await TreeRemovals(deps.db).named({tree, ZERO}, now - timedelta(days=90))

    try:
        assert asyncio.run(named()) == ({tree} if is_named else set())
    finally:
        for each in (collection, "runs"):
            database[each].delete_many({"_id": {"$in": ["some", "old", "other"]}})


@pytest.mark.parametrize("step", ["announce", "last look", "conclude"])
def test_a_push_at_the_moment_of_a_removal_loses_nothing(
    client: Client, database: Any, folder: Path, sweep: Sweep, step: str
) -> None:
    packed = pack(folder)
    tree = Push(client, CLOCK).run(packed)
    database.trees.delete_one({"_id": tree.id})  # its objects have no tree now
    refused: list[str] = []

    def add() -> None:
        try:
            client.add_tree(tree.id)
        except Refused as error:
            refused.append(error.code)

    sweep({step: add}, orphaned=AT_ONCE)
    assert refused == {"announce": [], "last look": ["tree_busy"], "conclude": ["tree_incomplete"]}[step]
    if step != "conclude":
        assert missing(client, packed) == []
    assert Push(client, CLOCK).run(packed).id == tree.id
    assert missing(client, packed) == []


def test_a_submission_at_the_moment_of_a_removal_keeps_its_tree(
    client: Client, database: Any, folder: Path, sweep: Sweep
) -> None:
    tree = Push(client, CLOCK).run(pack(folder))
    long_ago = {"$set": {"usedAt": CLOCK.now() - timedelta(days=2)}}
    database.trees.update_one({"_id": tree.id}, long_ago)
    assert sweep({"drop": lambda: client.submit("job", {"command": "true", "tree": tree.id})}) == 0
    database.trees.update_one({"_id": tree.id}, long_ago)
    assert sweep({}) == 0  # the run names it, which counts as a use
    assert client.tree(tree.id).id == tree.id
    lately = {"_id": tree.id, "usedAt": {"$gt": CLOCK.now() - timedelta(hours=1)}}
    assert database.trees.count_documents(lately) == 1
