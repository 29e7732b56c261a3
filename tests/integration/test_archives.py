"""Archives of real runs: written, read by anybody, verified without a fleet."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from events.files.archive.check import checked
from tests.integration.command_line import podfleet

pytestmark = pytest.mark.common_fleet
NOWHERE = "http://127.0.0.1:9"


def must_be_refused_while_it_runs(fleet: Any) -> None:
    waiting = fleet.submit(kind="probe", requires={"labels": {"place": "nowhere"}})
    refused = fleet.client.get(f"/api/runs/{waiting}/archive")
    assert (refused.status_code, refused.json()["code"]) == (409, "run_not_over")
    assert fleet.client.get("/api/runs/none/archive").json()["code"] == "unknown_run"


def test_a_run_becomes_one_file_that_is_verified_without_a_fleet(
    fleet: Any, database: Any, until: Any, tmp_path: Path
) -> None:
    fleet.start_quick_worker(name="w1")
    run_id = fleet.submit(spec={"seconds": 0.1, "events": 5, "results": 30, "artifact_bytes": 70_000})
    fleet.wait_for(run_id, "COMPLETED")
    until(lambda: fleet.client.get(f"/api/runs/{run_id}/archive").status_code == 200)
    content = fleet.client.get(f"/api/runs/{run_id}/archive").content
    assert fleet.client.get(f"/api/runs/{run_id}/archive").content == content
    found = checked(io.BytesIO(content))
    assert (found.findings, found.notes, found.artifacts) == ([], [], 1)
    stored = database.runs.find_one({"_id": run_id})
    assert found.manifest.attempts[0].said == stored["settled"]["root"]
    assert found.manifest.attempts[0].last == stored["lastEventSeq"]
    for secret in (stored["lease"]["tokenHash"], stored["tokens"][0]["hash"]):
        assert secret.encode() not in content
    with tarfile.open(fileobj=io.BytesIO(content)) as ordinary:
        names = ordinary.getnames()
        lines = ordinary.extractfile("events/a1-000001.ndjson").read().splitlines()  # type: ignore[union-attr]
    assert (names[0], names[-1]) == ("run.json", "manifest.json")
    assert [int(json.loads(line)["sequence"]) for line in lines] == [*range(1, len(lines) + 1)]

    file = tmp_path / "run.tar"
    made = podfleet(fleet.url, "archive", run_id, "-o", str(file))
    assert (made.returncode, made.stdout.strip()) == (0, str(file)), made.stderr
    assert file.read_bytes() == content
    told = podfleet(NOWHERE, "archive", "verify", str(file), "--json")
    assert (told.returncode, json.loads(told.stdout)["findings"]) == (0, [])
    file.write_bytes(content.replace(b'"COMPLETED"', b'"FAILED___"', 1))
    assert "run.json was changed" in podfleet(NOWHERE, "archive", "verify", str(file)).stderr

    small = podfleet(fleet.url, "archive", "export", run_id, "-o", str(file), "--no-artifacts", "--force")
    assert (small.returncode, file.stat().st_size < len(content) - 70_000) == (0, True), small.stderr
    key = database.artifacts.find_one({"runId": run_id})["key"]
    database.artifacts.update_one({"runId": run_id}, {"$set": {"key": f"{key}.gone"}})
    lacking = checked(io.BytesIO(fleet.client.get(f"/api/runs/{run_id}/archive").content))
    assert (lacking.findings, len(lacking.notes), lacking.artifacts) == ([], 1, 0)
    database.artifacts.update_one({"runId": run_id}, {"$set": {"key": key}})
    assert f'href="/api/runs/{run_id}/archive"' in fleet.client.get(f"/runs/{run_id}/files").text
    must_be_refused_while_it_runs(fleet)
