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

from control_plane.server.deps import Deps
from events.files.export_check import checked, read_public_key
from events.files.export_zip import MANIFEST, SIGNATURE, ZipWriter
from events.kinds.benchmark import ITEMS
from events.kinds.results import sort_values
from events.runtime.errors import Rejected
from podfleet.main import app
from tests.integration.in_process import control_plane

START = datetime(2026, 3, 1, tzinfo=UTC)
KEY = "B" * 43 + "="
MODEL = {"model": "m", "base_url": "https://a.example/v1"}
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def deps(emptied_url: str) -> AsyncIterator[Deps]:
    async with control_plane(emptied_url, PODFLEET_SECRETS_KEY=KEY) as found:
        yield found


async def benchmark(
    deps: Deps,
    asking: httpx.AsyncClient,
    outcomes: str,
    *,
    model: str = "m",
    hours: int = 0,
    schedule: str = "",
) -> str:
    """Make a completed benchmark; a letter is the outcome of an item: right, wrong, unparsed, error."""
    labels = {"schedule": schedule} if schedule else {}
    body = {"kind": "benchmark", "spec": {"model": model, "suites": "gsm8k"}, "labels": labels}
    run_id = str((await asking.post("/api/runs", json=body)).json()["id"])
    words = {"r": "right", "w": "wrong", "u": "unparsed", "e": "error"}
    right, scored = outcomes.count("r"), len(outcomes) - outcomes.count("e")
    summary = {"score": right / scored, "score_gsm8k": right / scored, "scored_gsm8k": scored, "failures": 1}
    ended = {"status": "COMPLETED", "finishedAt": START + timedelta(hours=hours), "summary": summary}
    await deps.db.runs.update_one({"_id": run_id}, {"$set": {**ended, "summaryAttempt": 1}})
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
        ("other content", "changed_file"),
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
    elif change == "other content":  # as long as before, with a checksum that fits
        entries[1] = (entries[1][0], entries[1][1].replace(b"right", b"wrong"))
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


async def test_items_are_counted_by_their_outcome_searched_and_gone_through_one_by_one(
    deps: Deps, asking: httpx.AsyncClient
) -> None:
    run_id = await benchmark(deps, asking, "rwuewrw")
    path = f"/runs/{run_id}/results"
    page = (await asking.get(path, params={"set": "items"})).text
    for words in ("all 7", "right 2", "wrong 3", "unparsed 1", "error 1"):
        assert f">{words}</a>" in page
    assert HOSTILE not in page
    wrong = {"set": "items", "filter": "outcome=wrong"}
    listed = (await asking.get(path, params=wrong)).text
    assert 'aria-current="page">wrong 3' in listed
    assert [f"gsm8k/0000{number}</a>" in listed for number in range(7)] == [
        letter == "w" for letter in "rwuewrw"
    ]
    assert "gsm8k/00004" in (await asking.get(path, params={"set": "items", "q": "alert(1)</script> 4"})).text

    async def row(number: int, **more: str) -> str:
        answer = await asking.get(f"{path}/row", params={**more, "key": f"gsm8k/{number:05}"})
        assert answer.status_code == 200, answer.text
        return answer.text

    middle = await row(4, **wrong)
    assert HOSTILE not in middle
    assert [f"key=gsm8k%2F0000{number}" in middle for number in (1, 3, 5, 6)] == [True, False, False, True]
    assert 'rel="prev"' not in await row(1, **wrong)
    assert 'rel="next"' not in await row(6, **wrong)
    # in the order of a column that not every row has: 1 2 4 6, 0 5, and the failed one last
    order = [1, 2, 4, 6, 0, 5, 3]
    for before, number, behind in zip([None, *order], order, [*order[1:], None], strict=False):
        shown = await row(number, set="items", sort="score")
        for other, word in ((before, "prev"), (behind, "next")):
            link = f'rel="{word}" href="/runs/{run_id}/results/row?set=items&amp;sort=score&amp;key=gsm8k%2F'
            assert (f"{link}0000{other}" in shown) if other is not None else (f'rel="{word}"' not in shown)
    for wrong_key, status in (("none", 404), ("x" * 201, 422)):
        assert (await asking.get(f"{path}/row", params={"key": wrong_key})).status_code == status


async def test_two_runs_are_compared_item_by_item(deps: Deps, asking: httpx.AsyncClient) -> None:
    one = await benchmark(deps, asking, "rrrrrrrrwwe")
    other = await benchmark(deps, asking, "wwwwwwwrrwrr")
    await deps.db.results.update_one(
        {"_id": f"{other}/a1/items/gsm8k/00009"}, {"$set": {"values.question": "another"}}
    )
    answer = await asking.get("/api/results/pairs", params={"run": [one, other], "limit": 5})
    found = answer.json()
    assert answer.status_code == 200, found
    names = ("bothRight", "onlyFirst", "onlySecond", "bothWrong", "inFirstAlone", "inSecondAlone")
    assert [found[each] for each in names] == [1, 7, 1, 0, 0, 1]
    assert (found["otherQuestion"], found["unanswered"]) == (1, 1)
    assert found["pValue"] == pytest.approx(2 * (1 + 8) / 2**8)
    first = found["items"][0]
    assert (first["item"], first["isRight"], len(found["items"])) == ("gsm8k/00000", [True, False], 5)
    more = {"run": [one, other], "after": found["next"]}
    rest = (await asking.get("/api/results/pairs", params=more)).json()
    assert ([each["item"] for each in rest["items"]], rest["next"]) == (
        ["gsm8k/00005", "gsm8k/00006", "gsm8k/00008"], None,
    )  # fmt: skip
    page = (await asking.get("/runs/compare/items", params={"ids": f"{one},{other}"})).text
    assert "p = 0.0703" in page
    assert f"/runs/{other}/results/row?set=items&amp;key=gsm8k%2F00008" in page
    assert (
        f"/runs/compare/items?ids={one},{other}"
        in (await asking.get("/runs/compare", params={"ids": f"{one},{other}"})).text
    )
    probe = (await asking.post("/api/runs", json={"kind": "probe", "spec": {}})).json()["id"]
    refused = await asking.get("/api/results/pairs", params={"run": [probe, one]})
    assert (refused.status_code, refused.json()["code"]) == (422, "no_outcome")
    for ids in (one, f"{one},{other},{probe}", f"{probe},{one}"):
        assert (await asking.get("/runs/compare/items", params={"ids": ids})).status_code == 422
    assert (await asking.get("/runs/compare/items", params={"ids": f"{one},none"})).status_code == 404


async def job(deps: Deps, asking: httpx.AsyncClient, rows: int) -> str:
    """Make a job that has recorded rows of a set of its own: one in the middle, and the last, have more."""
    made = await asking.post("/api/runs", json={"kind": "job", "spec": {"command": "true"}})
    run_id = str(made.json()["id"])
    told: list[dict[str, Any]] = [{"loss": float(number)} for number in range(rows)]
    if rows:
        told[rows // 2]["note"], told[-1]["late"] = "middle", True
        await deps.db.results.insert_many(
            [{**row(run_id, f"{n:05}", each), "set": "epochs"} for n, each in enumerate(told)]
        )
    return run_id


async def test_rows_that_no_kind_declares_are_read_exported_and_compared(
    deps: Deps, asking: httpx.AsyncClient
) -> None:
    one, other, none = [await job(deps, asking, rows) for rows in (300, 2, 0)]
    page = (await asking.get(f"/api/runs/{one}/results", params={"limit": 1})).json()
    assert (page["set"], [each["name"] for each in page["columns"]]) == ("epochs", ["loss", "late"])
    address = f"/api/runs/{one}/results/export"
    lines = (await asking.get(address, params={"filter": "note=middle"})).text.splitlines()
    assert lines == ["key,status,loss,note,late,detail", "00150,,150.0,middle,,"], "columns of every row"
    for first, second in ((other, none), (none, other)):
        found = (await asking.get("/api/results/compare", params={"run": [first, second]})).json()
        assert [each["name"] for each in found["columns"]] == ["loss", "note", "late"]
        assert [each["differs"] for each in found["items"]] == [True, True]
    for path in ("compare", "pairs"):
        asked = {"run": [none, other], "set": "no_set"}
        refused = await asking.get(f"/api/results/{path}", params=asked)
        assert (refused.status_code, path) == (200 if path == "compare" else 422, path)
    refused = await asking.get(f"/api/runs/{none}/results")
    assert (refused.status_code, "has recorded no rows" in refused.text) == (422, True)
    assert "This run has recorded no rows so far." in (await asking.get(f"/runs/{none}/results")).text
    assert f'href="/runs/{none}/results"' in (await asking.get(f"/runs/{none}")).text


async def test_twelve_thousand_items_are_paged_gone_through_and_compared_quickly(
    deps: Deps, asking: httpx.AsyncClient
) -> None:
    one, other = await benchmark(deps, asking, "rwru" * 3_000), await benchmark(deps, asking, "rrwe" * 500)
    begun = asyncio.get_running_loop().time()
    page = await asking.get(f"/runs/{one}/results", params={"set": "items", "filter": "outcome=unparsed"})
    assert ">unparsed 3,000</a>" in page.text
    key = {"set": "items", "filter": "outcome=unparsed", "key": "gsm8k/11995"}
    assert "key=gsm8k%2F11999" in (await asking.get(f"/runs/{one}/results/row", params=key)).text
    pages = asyncio.get_running_loop().time()
    found = (await asking.get("/api/results/pairs", params={"run": [one, other]})).json()
    assert [found["bothRight"], found["onlyFirst"], found["onlySecond"]] == [500, 500, 500]
    assert found["inFirstAlone"] == 10_000
    assert pages - begun < 10


async def test_a_leaderboard_has_models_by_suites_with_intervals_and_what_stands_beside(
    deps: Deps, asking: httpx.AsyncClient
) -> None:
    await benchmark(deps, asking, "rrww", model="older", hours=1)
    newest = await benchmark(deps, asking, "rwwwwwwwww", model="older", hours=2)
    mmlu = {"score_mmlu-pro": 0.5, "scored_mmlu-pro": 8, "failures": 3, "cost_usd": 0.25}
    alone = (await asking.get("/boards/view", params={"kind": "benchmark"})).text
    assert '<th class="n">score_gsm8k</th>' in alone
    csv = (await asking.get("/api/boards/export", params={"kind": "benchmark"})).text
    assert csv.startswith("spec.model,score_gsm8k,score_gsm8k low,")
    other = await benchmark(deps, asking, "r", model=HOSTILE, hours=3)
    await deps.db.runs.update_one({"_id": other}, {"$set": {f"summary.{k}": v for k, v in mmlu.items()}})
    board = (await asking.get("/api/boards/view", params={"kind": "benchmark"})).json()
    assert board["columns"] == ["score_mmlu-pro", "score_gsm8k"]
    assert [each["name"] for each in board["beside"]] == ["failures", "cost_usd", "seconds", "tokens"]
    rows = {each["value"]: each["cells"] for each in board["rows"]}
    none, cell = rows["older"]
    assert none is None
    assert (cell["number"], cell["runId"], cell["count"]) == (0.1, newest, 2)
    assert [cell["low"], cell["high"]] == pytest.approx([0.0179, 0.4042], abs=5e-5)
    assert [each["beside"] for each in rows[HOSTILE]] == [[3, 0.25, None, None]] * 2
    complete = {
        "kind": "benchmark",
        "complete": "true",
        "cell": "score_gsm8k,score_mmlu-pro",
        "rows": "spec.model",
    }
    found = (await asking.get("/api/boards/view", params=complete)).json()
    assert ([each["value"] for each in found["rows"]], found["incomplete"]) == ([HOSTILE], 1)
    assert found["columns"] == ["score_gsm8k", "score_mmlu-pro"]
    page = (await asking.get("/boards/view", params={"kind": "benchmark"})).text
    assert "<small>1.8% to 40.4%</small>" in page
    assert HOSTILE not in page
    text = (await asking.get("/api/boards/export", params={"kind": "benchmark"})).text.splitlines()
    assert text[0].startswith("spec.model,score_mmlu-pro,score_mmlu-pro low,score_mmlu-pro high,")
    assert len({line.count(",") for line in text}) == 1
    for listed in ("/models", "/boards"):
        assert "/boards/view?kind=benchmark&amp;rows=spec.model&amp;cell=" in (await asking.get(listed)).text
    for wrong in (
        {"cell": "a,b", "columns": "spec.x", "rows": "spec.x"},
        {"cell": ",".join("abcdefghijklmnopq")},
    ):
        assert (
            await asking.get("/api/boards/view", params={"kind": "benchmark", **wrong})
        ).status_code == 422
    assert (await asking.get("/api/boards/view", params={"kind": "probe"})).status_code == 422


async def test_a_models_score_over_time_has_its_interval_and_its_schedule(
    deps: Deps, asking: httpx.AsyncClient
) -> None:
    one = await benchmark(deps, asking, "rrww", model="tracked", hours=1)
    other = await benchmark(deps, asking, "rrrw", model="tracked", hours=2, schedule="nightly")
    await deps.db.runs.update_one({"_id": other}, {"$set": {"title": HOSTILE}})
    await benchmark(deps, asking, "r", model="another", hours=3)
    wanted = {"kind": "benchmark", "cell": "score_gsm8k", "label": "model=tracked", "rows": "spec.suites"}
    found = (await asking.get("/api/board-history", params=wanted)).json()
    points = found["points"]
    assert [(each["runId"], each["number"], each["schedule"]) for each in points] == [
        (one, 0.5, None), (other, 0.75, "nightly"),
    ]  # fmt: skip
    assert [points[1]["low"], points[1]["high"]] == pytest.approx([0.3006, 0.9544], abs=5e-5)
    assert ({each["line"] for each in points}, found["lookedAt"]) == ({"gsm8k"}, 2)
    page = (await asking.get("/boards/history", params=wanted)).text
    assert '<a href="/schedules/nightly">nightly</a>' in page
    assert "30.1% to 95.4%" in page
    assert HOSTILE not in page
    of_schedule = {"kind": "benchmark", "label": "schedule=nightly"}
    told = (await asking.get("/api/board-history", params=of_schedule)).json()
    assert ([each["runId"] for each in told["points"]], told["cell"]) == ([other], "score")
    (await asking.put("/api/models/tracked", json={"endpoint": MODEL})).raise_for_status()
    assert "/boards/history?kind=benchmark&amp;label=model%3Dtracked" in (await asking.get("/models")).text
    for wrong in ({"cell": "a,b"}, {"kind": "a b"}, {"rows": "$where"}):
        for path in ("/api/board-history", "/boards/history"):
            assert (await asking.get(path, params={**wanted, **wrong})).status_code == 422
