"""Results of benchmarks over HTTP: signed archives, items, pairs of runs, boards of scores, and histories."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from control_plane.config import read_settings
from control_plane.server.app import create_app
from control_plane.server.deps import Deps, wire
from control_plane.store import database as store
from events.files.export_check import checked, read_public_key
from events.files.export_zip import MANIFEST, SIGNATURE, ZipWriter
from events.kinds.benchmark import ITEMS
from events.kinds.results import sort_values
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Rejected
from podfleet.main import app

START = datetime(2026, 3, 1, tzinfo=UTC)
KEY = "B" * 43 + "="
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


@pytest.fixture
async def deps(database_url: str) -> AsyncIterator[Deps]:
    names = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
    values = {"MONGODB_URL": database_url, **dict.fromkeys(names, "127.0.0.1:1"), "PODFLEET_SECRETS_KEY": KEY}
    client = store.connect(database_url)
    settings = read_settings(values, host="127.0.0.1", port=8700, keyless=True)
    wired = wire(settings, store.database(client, database_url), SystemClock(), SystemIds())
    yield wired
    await wired.close()
    await client.close()


@pytest.fixture
async def asking(deps: Deps) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(deps))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def benchmark(
    deps: Deps, asking: httpx.AsyncClient, outcomes: str, *, model: str = "m", hours: int = 0, **more: Any
) -> str:
    """Make a completed benchmark; a letter is the outcome of an item: right, wrong, unparsed, error."""
    body = {"kind": "benchmark", "spec": {"model": model, "suites": "gsm8k"}}
    run_id = str((await asking.post("/api/runs", json=body)).json()["id"])
    words = {"r": "right", "w": "wrong", "u": "unparsed", "e": "error"}
    right, scored = outcomes.count("r"), len(outcomes) - outcomes.count("e")
    summary = {"score": right / scored, "score_gsm8k": right / scored, "scored_gsm8k": scored, "failures": 1}
    ended = {"status": "COMPLETED", "finishedAt": START + timedelta(hours=hours), "summary": summary}
    await deps.db.runs.update_one({"_id": run_id}, {"$set": {**ended, "summaryAttempt": 1, **more}})
    rows = []
    for number, letter in enumerate(outcomes):
        values = {
            "suite": "gsm8k", "item": f"{number:05}", "epoch": 1, "outcome": words[letter], "seconds": 1.0,
            "score": None if letter == "e" else float(letter == "r"), "question": f"q{number}",
            "expected": "42", "answer": f"{HOSTILE} {number}",
        }  # fmt: skip
        rows.append(row(run_id, f"gsm8k/{number:05}", values))
    await deps.db.results.insert_many(rows)
    return run_id


def row(run_id: str, key: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the projection stores it."""
    return {
        "_id": f"{run_id}/a1/items/{key}", "runId": run_id, "attempt": 1, "set": "items", "key": key,
        "seq": 1, "values": values, "status": None, "detail": None, "at": START, **sort_values(ITEMS, values),
    }  # fmt: skip


def verified(path: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["results", "verify", str(path), *arguments])
    return result.exit_code, result.output


async def exported(asking: httpx.AsyncClient, run_id: str) -> bytes:
    answer = await asking.get(f"/api/runs/{run_id}/results/export", params={"format": "zip"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip"), answer.text
    return answer.content


async def test_a_signed_archive_has_all_of_a_run_and_is_verified_without_a_control_plane(
    deps: Deps, asking: httpx.AsyncClient, tmp_path: Path
) -> None:
    run_id = await benchmark(deps, asking, "rwue")
    path = tmp_path / "run.zip"
    path.write_bytes(await exported(asking, run_id))
    (key,) = (await asking.get("/api/results/keys")).json()["items"]
    found = await asyncio.to_thread(checked, str(path), read_public_key(key["public"]))
    assert (found.is_pinned, found.manifest.key.id, found.manifest.attempt) == (True, key["id"], 1)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "run.json", "results/items.ndjson", "results/suites.ndjson", MANIFEST, SIGNATURE,
        ]  # fmt: skip
        items = [json.loads(each) for each in archive.read("results/items.ndjson").splitlines()]
        told = json.loads(archive.read("run.json"))
    assert [each["values"]["outcome"] for each in items] == ["right", "wrong", "unparsed", "error"]
    assert (told["id"], told["spec"]["model"], told["summary"]["score"]) == (run_id, "m", 1 / 3)
    status, words = verified(path, "--key", key["public"])
    assert (status, f"run {run_id}" in words, "4 rows" in words) == (0, True, True)
    status, words = verified(path, "--key", "ab" * 32)
    assert (status, "which is asked for" in words) == (1, True)
    assert verified(path, "--key", "x")[0] == 2
    assert verified(tmp_path / "none.zip")[0] == 1
    refused = await asking.get(f"/api/runs/{run_id}/results/export", params={"format": "zip", "set": "items"})
    assert (refused.status_code, refused.json()["code"]) == (422, "whole_run")


async def test_an_archive_of_which_any_byte_was_changed_is_refused(
    deps: Deps, asking: httpx.AsyncClient, tmp_path: Path
) -> None:
    content = await exported(asking, await benchmark(deps, asking, "rw"))
    path = tmp_path / "run.zip"

    def refusal(changed: bytes) -> str:
        path.write_bytes(changed)
        try:
            checked(str(path))
        except Rejected as error:
            return error.code
        return "accepted"

    assert refusal(content) == "accepted"
    steps = range(0, len(content), 3)  # of every part of the archive
    found = [refusal(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]) for at in steps]
    assert "accepted" not in found
    assert {"changed_file", "bad_archive"} <= set(found)
    for changed in (content[:-1], content + b"x", b"x" + content, b"", b"PK\5\6" + b"\xff" * 18):
        assert refusal(changed) == "bad_archive"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("repeated", "repeated_entry"), ("foreign", "foreign_file"), ("missing", "missing_file"),
        ("outside", "bad_name"), ("compressed", "bad_archive"), ("unsigned", "missing_file"),
        ("other manifest", "bad_signature"), ("other key", "bad_signature"),
    ],
)  # fmt: skip
async def test_an_archive_that_somebody_made_is_refused_with_the_reason(
    deps: Deps, asking: httpx.AsyncClient, tmp_path: Path, change: str, code: str
) -> None:
    path = tmp_path / "run.zip"
    path.write_bytes(await exported(asking, await benchmark(deps, asking, "rw")))
    with zipfile.ZipFile(path) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    files = dict(entries)
    if change == "repeated":
        entries.append(entries[1])
    elif change == "foreign":
        entries.append(("results/more.ndjson", b"{}\n"))
    elif change == "missing":
        entries.pop(1)
    elif change == "outside":
        entries.append(("../outside.json", b"{}\n"))
    elif change == "unsigned":
        entries.pop()
    elif change == "other manifest":
        entries[-2] = (MANIFEST, files[MANIFEST].replace(b'"benchmark"', b'"benchmarj"'))
    elif change == "other key":
        entries[-1] = (SIGNATURE, bytes(64))
    if change == "compressed":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries:
                archive.writestr(name, content)
    else:
        writer = ZipWriter()
        parts = [part for name, content in entries for part in
                 (writer.begun(name), writer.added(content), writer.ended())]  # fmt: skip
        path.write_bytes(b"".join([*parts, writer.closed()]))
    with pytest.raises(Rejected) as refused:
        checked(str(path))
    assert refused.value.code == code, refused.value.message
    assert verified(path)[0] == 1
