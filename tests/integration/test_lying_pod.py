"""Two pods, of which the first lies about all that it leaves: the second one ends the run as if alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.catalog import ArtifactRegistered, RunStarted
from events.delivery.control_plane_client import bearer
from events.files.checkpoints import file_artifact, manifest_artifact
from events.queue.settlement import End
from tests.integration.conftest import Fleet, HandDriven

pytestmark = pytest.mark.common_fleet

MARK = b"PLANTED"
LARGE_BYTES = 1 << 20


class Liar:
    """An attempt that puts into the storage what it likes, and registers it as it likes."""

    def __init__(self, hand: HandDriven) -> None:
        self.hand = hand

    def put(self, content: bytes, name: str = "probe.bin") -> str:
        """Put an object into the storage under an honest name; return its key."""
        claim = self.hand.claim
        digest = hashlib.sha256(content).hexdigest()
        described = {"name": name, "size": len(content), "sha256": digest}
        url = f"/api/runs/{claim.run_id}/artifacts/presign"
        signed = self.hand.client.post(url, json=described, headers=bearer(claim.run_token)).json()
        assert httpx.put(signed["url"], content=content, trust_env=False).status_code == 200
        return str(signed["key"])

    def register(self, name: str, content: bytes, key: str | None = None, **lies: Any) -> None:
        """Register an object under any name, and say of it what `lies` say."""
        digest = hashlib.sha256(content).hexdigest()
        told = {"name": name, "key": key or self.put(content), "size": len(content), "sha256": digest, **lies}
        self.hand.say(ArtifactRegistered(**told))

    def leave(self, name: str, state: Any, files: Sequence[tuple[str, bytes]] = (), **lies: Any) -> None:
        """Leave a checkpoint; its files by the names that its manifest gives them."""
        described = []
        for number, (file, content) in enumerate(files, 1):
            artifact = file_artifact("files", number, "f")
            self.register(artifact.replace("files", name), content)
            digest = hashlib.sha256(content).hexdigest()
            described.append(
                {"name": file, "artifact": artifact.replace("files", name), "size": 1, "sha256": digest}
            )
        claim = self.hand.claim
        plain = {
            "version": 1, "name": name, "run_id": claim.run_id, "attempt": claim.attempt, "state": state,
            "files": described, **lies,
        }  # fmt: skip
        self.register(manifest_artifact(name), json.dumps(plain).encode())


def told(fleet: Fleet, run_id: str) -> list[str]:
    """Return the warnings of a run's log."""
    answer = fleet.client.get(f"/api/runs/{run_id}/events", params={"type": "ai.run.log", "limit": 200})
    lines = [each["data"] for each in answer.json()["items"]]
    return [each["message"] for each in lines if each.get("level") == "warning"]


def planted(folder: Path) -> list[Path]:
    """Return every file that holds what the liar wrote, but the logs and disks that quote it."""
    files = (path for path in folder.rglob("*") if path.is_file() and "outbox" not in path.name)
    return [path for path in files if MARK in path.read_bytes()]


def test_what_a_lying_pod_left_is_told_and_harms_nobody(
    fleet: Fleet, database: Any, by_hand: Callable[[str, str], HandDriven]
) -> None:
    request = {
        "title": "Does dropout help?",
        "idea": "Dropout improves accuracy on iris",
        "enable_ideation": True,
    }
    assert fleet.client.post("/api/hypotheses", json=request).status_code == 201
    liar = Liar(by_hand("ideation_requests", "ideation/cpu/any"))
    run_id = liar.hand.claim.run_id
    liar.hand.say(RunStarted())
    own = f"runs/{run_id}/a1/"
    liar.leave(
        "ideation", {"ideas": [{"Name": "../../x"}] * 50, "works": [], "asked": {}, "spent": {"tokens": -9}}
    )
    leading_out = [("a.......stolen", MARK)]
    liar.leave("plots", {"found": [{"images": ["a/../../stolen"]}]}, leading_out)  # a matter of the pipeline
    liar.leave("up", {}, [("../../stolen", MARK)])
    liar.leave("far", {}, [("/tmp/stolen", MARK)])
    liar.leave("other", {}, run_id="01KOTHER")
    liar.leave("deep", json.loads("[" * 200 + "]" * 200))
    liar.register(manifest_artifact("large"), bytes(LARGE_BYTES), size=100)
    liar.register(manifest_artifact("small"), MARK, size=10_000)
    liar.register(manifest_artifact("huge"), MARK, size=1 << 50)
    liar.register("checkpoints/../manifest.json", MARK)
    liar.register("../../stolen", MARK)
    liar.register(manifest_artifact("elsewhere"), MARK, key=f"{own}../../../victim/a1/x")
    liar.hand.settle(End("preempted", message="gone"))

    aside = {each["_id"]: each["code"] for each in database.dead_letters.find({"runId": run_id})}
    assert list(aside.values()) == ["bad_path"] * 3
    fleet.start_worker(name="honest", mode="ideation")
    found = fleet.wait_for(run_id, "COMPLETED", "FAILED")
    assert (found["status"], found["attempt"]) == ("COMPLETED", 2), found["error"]
    words = told(fleet, run_id)
    for name, why in {
        "up": "is no name", "far": "is no name", "other": "is that of another one", "deep": "is no object",
        "large": "holds other bytes", "small": "holds other bytes", "huge": "its manifest is too large",
    }.items():  # fmt: skip
        assert any(
            f"the checkpoint {name} of attempt 1 is not used" in each and why in each for each in words
        ), name
    assert any("ideation begins anew" in each for each in words)
    assert planted(fleet.home) == []
    assert not any(Path(folder, "stolen").exists() for folder in (fleet.home, "/tmp", "/"))
