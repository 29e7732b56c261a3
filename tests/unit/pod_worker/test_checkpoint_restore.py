"""What earlier attempts left is fetched whole or not at all."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.delivery.control_plane_client import ControlPlane
from events.files.checkpoints import (
    MANIFEST_BYTES_MAX,
    CheckpointFile,
    Manifest,
    decode_manifest,
    encode_manifest,
)
from events.queue.claims import Claim
from events.runtime.errors import LeaseLost, Transient
from events.testing import RUN_ID, ManualClock
from pod_worker.files import checkpoint_restore
from pod_worker.files.checkpoint_restore import HttpCheckpoints

PIECE = 64 * 1024
CLAIM = Claim("runs", RUN_ID, 3, "the-token", "experiment", {}, None)


class House:
    """A control plane that signs, and a storage that holds, behind two transports."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.candidates: list[dict[str, Any]] = []
        self.answer: httpx.Response | Exception | None = None
        self.storage_answer: httpx.Response | None = None
        self.headers: dict[str, str] = {}
        self.sent = 0
        self.is_endless = False

    def keep_text(self, name: str, attempt: int, content: bytes) -> dict[str, Any]:
        """Keep a manifest of any bytes."""
        artifact = f"{name}/{attempt}/manifest.json"
        self.candidates.append(
            {"name": name, "attempt": attempt, "manifest": self._store(artifact, content), "files": []}
        )
        return self.candidates[-1]

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
        assert request.headers["Accept-Encoding"] == "identity"
        content = self.objects.get(request.url.path[1:])
        if self.storage_answer is not None:
            return self.storage_answer
        if content is None:
            return httpx.Response(404)
        return httpx.Response(200, content=self._pieces(content), headers=self.headers)

    def _pieces(self, content: bytes) -> Iterator[bytes]:
        for start in range(0, len(content), PIECE):
            self.sent += len(content[start : start + PIECE])
            yield content[start : start + PIECE]
        while self.is_endless:
            self.sent += PIECE
            assert self.sent < 64 * PIECE, "it reads on and on"
            yield bytes(PIECE)


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
        yield HttpCheckpoints(ControlPlane(control_plane, ManualClock()), storage)


def found(folder: Path) -> dict[str, tuple[int, dict[str, Any]]]:
    manifests = [decode_manifest(path.read_bytes()) for path in folder.glob("*/manifest.json")]
    return {each.name: (each.attempt, each.state) for each in manifests}


def test_the_latest_checkpoint_of_each_name_is_fetched_with_its_files(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.keep("Stage_1", 2, {"best": 2})
    house.keep("Stage_1", 1, {"best": 1})
    house.keep("plots", 1, {}, a=b"image", b=b"table")
    house.candidates[1]["pods"] = house.candidates[2]["pods"] = ["alpha"]
    house.candidates[0]["pods"] = ["alpha", "beta"]
    fetched = checkpoints.fetch(CLAIM, tmp_path)
    assert (fetched.warnings, fetched.pods) == ([], {"Stage_1": ["alpha", "beta"], "plots": ["alpha"]})
    assert found(tmp_path) == {"Stage_1": (2, {"best": 2}), "plots": (1, {})}
    assert (tmp_path / "plots" / "a").read_bytes() == b"image"
    assert (tmp_path / "plots" / "b").read_bytes() == b"table"


def aside(house: House) -> dict[str, Any]:
    """Keep two checkpoints of the first attempt, one of which the second has set aside."""
    for name, attempt, state in (("Stage_1", 2, {}), ("Stage_1", 1, {"best": 1}), ("Stage_2", 1, {"x": 1})):
        house.keep(name, attempt, state)["pods"] = ["alpha"]
    manifest: dict[str, Any] = house.candidates[0]["manifest"]
    return manifest


OBJECTS: dict[str, Callable[[House, dict[str, Any]], object]] = {
    "whole": lambda house, manifest: None,
    "gone": lambda house, manifest: house.objects.pop(manifest["name"]),
    "other bytes": lambda house, manifest: house.objects.update({manifest["name"]: b"{}"}),
    "larger": lambda house, manifest: house.objects.update({manifest["name"]: bytes(1 << 20)}),
    "another size": lambda house, manifest: manifest.update(size=1 << 40),
    "another address": lambda house, manifest: manifest.update(url="http://["),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_what_was_set_aside_never_comes_back_whatever_became_of_the_object_that_says_so(
    case: str, house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    OBJECTS[case](house, aside(house))
    fetched = checkpoints.fetch(CLAIM, tmp_path)
    assert (fetched.pods, fetched.warnings) == ({"Stage_2": ["alpha"]}, [])
    assert found(tmp_path) == {"Stage_2": (1, {"x": 1})}


def test_what_was_set_aside_between_two_tries_is_removed(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    aside(house)
    whole, house.candidates = house.candidates, house.candidates[1:2]
    checkpoints.fetch(CLAIM, tmp_path)
    assert found(tmp_path) == {"Stage_1": (1, {"best": 1})}
    house.candidates = whole
    checkpoints.fetch(CLAIM, tmp_path)
    assert found(tmp_path) == {"Stage_2": (1, {"x": 1})}


@pytest.mark.parametrize("is_asked", [True, False])
def test_the_control_plane_says_whether_a_replication_was_asked_for(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, is_asked: bool
) -> None:
    house.answer = httpx.Response(200, json={"checkpoints": [], "replicationAsked": is_asked})
    assert checkpoints.fetch(CLAIM, tmp_path).replication_asked == is_asked


@pytest.mark.parametrize("told", [{"verdicts": {"iris test": 6}, "isWhole": True}, {}])
def test_the_control_plane_tells_what_the_kind_of_the_run_tells(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, told: dict[str, Any]
) -> None:
    house.answer = httpx.Response(200, json={"checkpoints": []} | ({"told": told} if told else {}))
    assert checkpoints.fetch(CLAIM, tmp_path).told == told


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
    (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "Stage_1 of attempt 2 is not used" in warning
    assert found(tmp_path) == {"Stage_1": (1, {"best": 1})}


def test_a_checkpoint_of_another_run_is_named_as_that(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    for run_id, words in ((RUN_ID, "attempt 2 is"), ("01KOTHER", "attempt 2 of run 01KOTHER is")):
        broken = house.keep("Stage_1", 2, {"x": 1})
        broken["runId"] = run_id
        house.objects.clear()
        (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
        assert f"Stage_1 of {words} not used" in warning
        house.candidates.clear()


@pytest.mark.parametrize(
    "answer",
    [httpx.Response(503), httpx.Response(500), httpx.Response(200, text="[]"), httpx.ConnectError("gone")],
)
def test_an_outage_is_not_the_absence_of_checkpoints(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, answer: httpx.Response | Exception
) -> None:
    house.answer = answer
    with pytest.raises(Transient):
        checkpoints.fetch(CLAIM, tmp_path)
    house.answer, house.storage_answer = None, httpx.Response(503)
    house.keep("Stage_1", 1, {"x": 1})
    with pytest.raises(Transient):
        checkpoints.fetch(CLAIM, tmp_path)
    assert found(tmp_path) == {}


def test_a_lease_that_is_anothers_ends_the_attempt(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.answer = httpx.Response(409)
    with pytest.raises(LeaseLost):
        checkpoints.fetch(CLAIM, tmp_path)


def test_an_object_that_is_larger_than_it_was_registered_is_read_one_piece_too_far_at_most(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.keep("Stage_1", 2, {"best": 2}, file=b"content")
    house.keep("Stage_1", 1, {"best": 1})
    house.is_endless = True
    first, second = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "holds other bytes than were registered" in first
    assert "holds other bytes than were registered" in second
    assert house.sent <= 2 * (1 + checkpoint_restore.PIECE_BYTES // PIECE) * PIECE
    assert list(tmp_path.iterdir()) == [], "half a checkpoint is none"


def test_an_object_that_is_smaller_than_it_was_registered_is_not_used(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.keep("Stage_1", 1, {"best": 1})["manifest"]["size"] += 1
    (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "holds other bytes than were registered" in warning


def test_an_object_is_never_in_memory_as_a_whole(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.keep("Stage_1", 1, {}, weights=bytes(32 << 20))
    tracemalloc.start()
    try:
        assert checkpoints.fetch(CLAIM, tmp_path).warnings == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    assert (tmp_path / "Stage_1" / "weights").stat().st_size == 32 << 20


def test_content_that_says_it_is_packed_is_not_unpacked(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.keep("Stage_1", 1, {"best": 1})
    house.headers = {"Content-Encoding": "gzip"}
    assert checkpoints.fetch(CLAIM, tmp_path).warnings == []
    assert found(tmp_path) == {"Stage_1": (1, {"best": 1})}


def test_all_checkpoints_together_are_bounded(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_restore, "RESTORED_BYTES_MAX", 1_000)
    house.keep("Stage_1", 1, {"best": 1})
    house.keep("Stage_2", 1, {}, file=bytes(1_000))
    (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "more than 1000 bytes of checkpoints are not taken" in warning
    assert found(tmp_path) == {"Stage_1": (1, {"best": 1})}


def test_a_checkpoint_that_claims_all_the_room_takes_none_from_what_is_whole(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_restore, "RESTORED_BYTES_MAX", 5_000)
    lying = house.keep("A", 2, {}, file=bytes(4_000))
    del house.objects[lying["files"][0]["name"]]
    house.keep("Stage_1", 1, {"best": 1}, file=bytes(4_000))
    (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "is not in the storage" in warning
    assert found(tmp_path) == {"Stage_1": (1, {"best": 1})}


def test_what_comes_in_vain_is_bounded_too(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_restore, "FETCHED_BYTES_MAX", 9_000)
    for attempt in (4, 3, 2):
        altered = house.keep("A", attempt, {}, file=bytes(4_000))
        house.objects[altered["files"][0]["name"]] = b"x" * 4_000
    warnings = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "other bytes than were registered" in warnings[0]
    assert "more than 9000 bytes are not fetched" in warnings[-1]
    assert found(tmp_path) == {}


LYING: dict[str, dict[str, Any] | bytes] = {
    "no JSON": b"{",
    "not UTF-8": b'{"name": "\xff"}',
    "too deep": b"[" * 200_000,
    "a state too deep": b'{"state": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "a state that is no text": b'{"state": {"a": "\xff"}}',
    "values without end": b'{"state": {"a": [' + b"[]," * (1 << 19) + b"[]]}}",
    "no object": b"[]",
    "a state that is no object": {"state": [1]},
    "another name": {"name": "Stage_2"},
    "another run": {"run_id": "01KOTHER"},
    "another attempt": {"attempt": 1},
    "an attempt without end": {"attempt": 10**40},
    "a name that leads away": {"files": [("../../x", "f")]},
    "a name of two parts": {"files": [("a/b", "f")]},
    "a name with a line's end": {"files": [("a\n", "f")]},
    "an absolute name": {"files": [("/etc/passwd", "f")]},
    "the manifest's own name": {"files": [("manifest.json", "f")]},
    "one name twice": {"files": [("a", "f"), ("a", "f")]},
    "an artifact that leads away": {"files": [("a", "../f")]},
    "too many files": {"files": [(f"a{number}", "f") for number in range(201)]},
}


@pytest.mark.parametrize("lie", LYING)
def test_a_manifest_that_lies_gives_way_to_an_older_one_and_writes_nothing_else(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, lie: str
) -> None:
    said = LYING[lie]
    if isinstance(said, bytes) and b"state" in said:  # all else is as it should be
        plain = {"version": 1, "name": "Stage_1", "run_id": RUN_ID, "attempt": 2, "files": []}
        said = json.dumps(plain).encode()[:-1] + b", " + said[1:]
    if isinstance(said, dict):
        plain = {"version": 1, "name": "Stage_1", "run_id": RUN_ID, "attempt": 2, "state": {}, "files": []}
        files = [
            {"name": name, "artifact": artifact, "size": 1, "sha256": _hash(b"x")}
            for name, artifact in said.get("files", [])
        ]
        said = json.dumps({**plain, **said, "files": files}).encode()
    candidate = house.keep_text("Stage_1", 2, said)
    candidate["files"] = [
        {**house._store("o", b"x"), "name": "f"},
        {**house._store("o", b"x"), "name": "../f"},
    ]
    house.keep("Stage_1", 1, {"best": 1})
    folder = tmp_path / "work" / "restored"
    (warning,) = checkpoints.fetch(CLAIM, folder).warnings
    assert "Stage_1 of attempt 2 is not used" in warning
    assert len(warning) <= checkpoint_restore.SHOWN_CHARS_MAX
    assert found(folder) == {"Stage_1": (1, {"best": 1})}
    assert [
        each.relative_to(tmp_path).as_posix() for each in sorted(tmp_path.rglob("*")) if each.is_file()
    ] == ["work/restored/Stage_1/manifest.json"]


def test_a_manifest_that_says_it_is_huge_is_not_fetched(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    house.keep("Stage_1", 1, {"best": 1})["manifest"]["size"] = MANIFEST_BYTES_MAX + 1
    (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "its manifest is too large" in warning
    assert house.sent == 0


def test_a_file_that_was_registered_as_another_is_not_used(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    broken = house.keep("Stage_1", 1, {}, file=b"content")
    name = broken["files"][0]["name"]
    broken["files"] = [house._store(name, b"another")]
    (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert "its file file was not registered" in warning


def test_a_warning_is_cut(house: House, checkpoints: HttpCheckpoints, tmp_path: Path) -> None:
    house.keep_text("x" * 3_000, 1, b"{}")
    (warning,) = checkpoints.fetch(CLAIM, tmp_path).warnings
    assert len(warning) == checkpoint_restore.SHOWN_CHARS_MAX


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../x", "/etc", "a\x00b", "x" * 300])
def test_a_checkpoint_whose_name_is_none_is_told_and_not_fetched(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path, name: str
) -> None:
    house.keep_text(name, 1, b"{}")
    house.keep("Stage_1", 1, {"best": 1})
    folder = tmp_path / "work" / "restored"
    (warning,) = checkpoints.fetch(CLAIM, folder).warnings
    assert "is no name" in warning
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [folder / "Stage_1" / "manifest.json"]


def test_what_lies_in_the_folder_already_is_not_followed(
    house: House, checkpoints: HttpCheckpoints, tmp_path: Path
) -> None:
    folder, outside = tmp_path / "restored", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "Stage_1").symlink_to(outside)
    house.keep("Stage_1", 1, {"x": 1})
    (warning,) = checkpoints.fetch(CLAIM, folder).warnings
    assert "is not used" in warning
    assert list(outside.iterdir()) == []
