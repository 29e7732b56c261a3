"""What earlier attempts left is fetched whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.checkpoints import CheckpointFile, Manifest, decode_manifest, encode_manifest
from events.claims import Claim
from events.errors import LeaseLost, Transient
from events.testing import RUN_ID
from pod_worker.restoring import HttpCheckpoints

CLAIM = Claim("runs", RUN_ID, 3, "the-token", "experiment", {}, None)


class House:
    """A control plane that signs, and a storage that holds, behind two transports."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.candidates: list[dict[str, Any]] = []
        self.answer: httpx.Response | Exception | None = None
        self.storage_answer: httpx.Response | None = None

    def keep(self, name: str, attempt: int, state: dict[str, Any], **files: bytes) -> dict[str, Any]:
        described = [
            CheckpointFile(
                name=file, artifact=f"{name}/{attempt}/{file}", size=len(content), sha256=_hash(content)
            )
            for file, content in files.items()
        ]
        manifest = Manifest(
            version=1, name=name, run_id=RUN_ID, attempt=attempt, state=state, files=described
        )
        candidate = {
            "name": name,
            "attempt": attempt,
            "manifest": self._store(f"{name}/{attempt}/manifest.json", encode_manifest(manifest)),
            "files": [self._store(f"{name}/{attempt}/{file}", content) for file, content in files.items()],
        }
        self.candidates.append(candidate)
        return candidate

    def _store(self, name: str, content: bytes) -> dict[str, Any]:
        self.objects[name] = content
        return {"name": name, "size": len(content), "sha256": _hash(content), "url": f"http://storage/{name}"}

    def control_plane(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == f"/api/runs/{RUN_ID}/artifacts/checkpoints"
        assert request.headers["Authorization"] == f"Bearer {CLAIM.run_token}"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or httpx.Response(200, text=json.dumps({"checkpoints": self.candidates}))

    def storage(self, request: httpx.Request) -> httpx.Response:
        content = self.objects.get(request.url.path[1:])
        if self.storage_answer is not None:
            return self.storage_answer
        return httpx.Response(404) if content is None else httpx.Response(200, content=content)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def checkpoints(house: House) -> Iterator[HttpCheckpoints]:
    control_plane = httpx.Client(
        transport=httpx.MockTransport(house.control_plane), base_url="http://control"
    )
    with control_plane, httpx.Client(transport=httpx.MockTransport(house.storage)) as storage:
        yield HttpCheckpoints(control_plane, storage)


def found(folder: Path) -> dict[str, tuple[int, dict[str, Any]]]:
    manifests = [decode_manifest(path.read_bytes()) for path in folder.glob("*/manifest.json")]
    return {each.name: (each.attempt, each.state) for each in manifests}


def test_the_latest_checkpoint_of_each_name_is_fetched_with_its_files(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.keep("Stage_1", 2, {"best": 2})
    house.keep("Stage_1", 1, {"best": 1})
    house.keep("plots", 1, {}, a=b"image", b=b"table")
    assert checkpoints.fetch(CLAIM, tmp_path) == []
    assert found(tmp_path) == {"Stage_1": (2, {"best": 2}), "plots": (1, {})}
    assert (tmp_path / "plots" / "a").read_bytes() == b"image"
    assert (tmp_path / "plots" / "b").read_bytes() == b"table"


@pytest.mark.parametrize("damage", ["altered", "missing", "no manifest", "file altered", "file unregistered"])
def test_a_broken_checkpoint_gives_way_to_an_older_one_and_is_named(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, damage: str
) -> None:
    latest = house.keep("Stage_1", 2, {"best": 2}, file=b"content")
    house.keep("Stage_1", 1, {"best": 1})
    name = latest["manifest"]["name"]
    match damage:
        case "altered":
            house.objects[name] += b" "
        case "missing":
            del house.objects[name]
        case "no manifest":
            house.objects[name] = b"{}"
            latest["manifest"]["sha256"] = _hash(b"{}")
        case "file altered":
            house.objects[latest["files"][0]["name"]] = b"CONTENT"
        case "file unregistered":
            latest["files"].clear()
    (warning,) = checkpoints.fetch(CLAIM, tmp_path)
    assert "Stage_1 of attempt 2 is not used" in warning
    assert found(tmp_path) == {"Stage_1": (1, {"best": 1})}


def test_a_checkpoint_of_another_run_is_named_as_that(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    for run_id, words in ((RUN_ID, "attempt 2 is"), ("01KOTHER", "attempt 2 of run 01KOTHER is")):
        broken = house.keep("Stage_1", 2, {})
        broken["runId"] = run_id
        house.objects.clear()
        (warning,) = checkpoints.fetch(CLAIM, tmp_path)
        assert f"Stage_1 of {words} not used" in warning
        house.candidates.clear()


@pytest.mark.parametrize("answer", [httpx.Response(503), httpx.Response(500), httpx.ConnectError("gone")])
def test_an_outage_is_not_the_absence_of_checkpoints(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, answer: httpx.Response | Exception
) -> None:
    house.answer = answer
    with pytest.raises(Transient):
        checkpoints.fetch(CLAIM, tmp_path)
    house.answer, house.storage_answer = None, httpx.Response(503)
    house.keep("Stage_1", 1, {})
    with pytest.raises(Transient):
        checkpoints.fetch(CLAIM, tmp_path)
    assert found(tmp_path) == {}


def test_a_lease_that_is_anothers_ends_the_attempt(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.answer = httpx.Response(409)
    with pytest.raises(LeaseLost):
        checkpoints.fetch(CLAIM, tmp_path)
