"""Results of real runs over HTTP, on their page, in files, and on the command line."""

from __future__ import annotations

import csv
import io
import json
from math import hypot
from typing import Any

import pyarrow.parquet
import pytest

from events.testing import EPOCH
from tests.integration.command_line import podfleet

pytestmark = pytest.mark.common_fleet
ROWS = 130


def must_be_exported(fleet: Any, run_id: str) -> None:
    address = f"/api/runs/{run_id}/results"
    text = fleet.client.get(f"{address}/export", params={"sort": "-number", "filter": "number>100"}).text
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [each["key"] for each in lines][:2] == ["row-000129", "row-000128"]
    assert (len(lines), lines[0]["is_even"]) == (29, "false")
    told = fleet.client.get(f"{address}/export", params={"format": "ndjson"}).text.splitlines()
    assert [json.loads(each)["key"] for each in told] == [f"row-{number:06}" for number in range(ROWS)]
    file = fleet.client.get(f"{address}/export", params={"format": "parquet"}).content
    table = pyarrow.parquet.read_table(io.BytesIO(file))
    assert (table.num_rows, table.column("number").to_pylist()[3]) == (ROWS, 3.0)


def must_be_told_in_a_terminal(fleet: Any, one: str, other: str) -> None:
    listed = podfleet(fleet.url, "results", "list", one, "--sort", "-number", "-f", "number<9", "--json")
    assert [each["key"] for each in json.loads(listed.stdout)][:1] == ["row-000008"]
    exported = podfleet(fleet.url, "results", "export", one, "--format", "ndjson", "-f", "number<2")
    assert [json.loads(each)["key"] for each in exported.stdout.splitlines()] == ["row-000000", "row-000001"]
    compared = podfleet(fleet.url, "results", "compare", one, other, "--limit", "1", "--json")
    assert json.loads(compared.stdout)["rows"][0]["key"] == "row-000000"
    refused = podfleet(fleet.url, "results", "list", one, "--set", "laps")
    assert refused.returncode == 2
    assert "it has rows" in refused.stderr


def must_be_shown_as_text(fleet: Any, database: Any, run_id: str) -> None:
    """Hold that a row of a damaged store is no formula of a table, and no tag of a page."""
    address = f"/api/runs/{run_id}/results"
    damaged = {
        "_id": f"{run_id}/a1/rows/x", "runId": run_id, "attempt": 1, "set": "rows", "key": "=cmd()", "seq": 1,
        "values": {"group": "@SUM(A1)"}, "status": "<b>", "detail": "a.txt", "at": EPOCH,
    }  # fmt: skip
    database.results.insert_one(damaged)
    hostile = fleet.client.get(f"{address}/export", params={"filter": "status=<b>"}).text
    assert hostile.splitlines()[1].startswith("'=cmd(),<b>,")
    assert "'@SUM(A1)" in hostile
    html = fleet.client.get(f"/runs/{run_id}/results?filter=status%3D%3Cb%3E").text
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_a_run_records_rows_that_are_read_sorted_filtered_exported_and_compared(
    fleet: Any, database: Any
) -> None:
    fleet.start_quick_worker(name="w1")
    spec = {"seconds": 0.1, "events": 1, "results": ROWS, "x": 1.0, "y": -2.0}
    one, other = fleet.submit(spec=spec), fleet.submit(spec={**spec, "y": 0.0})
    summaries = {one: {"value": 0.0, "radius": hypot(1, 2)}, other: {"value": 4.0, "radius": 1.0}}
    for run_id, summary in summaries.items():
        assert fleet.wait_for(run_id, "COMPLETED")["summary"] == summary
    assert {
        each["id"]: each["summary"] for each in fleet.client.get("/api/runs").json()["items"]
    } == summaries

    address = f"/api/runs/{one}/results"
    first = fleet.client.get(address).json()
    assert (first["set"], first["attempt"], first["refused"], len(first["items"])) == ("rows", 1, 0, 50)
    assert first["sets"] == [{"name": "rows", "title": "Rows"}]
    assert first["items"][7]["values"]["number"] == 7
    keys: list[str] = []
    after: str | None = None
    while True:
        asked = {"sort": "-number", "limit": 60, "filter": ["number>=5", "is_even=true"]}
        page = fleet.client.get(address, params={**asked, **({"after": after} if after else {})}).json()
        keys += [each["key"] for each in page["items"]]
        after = page["next"]
        if after is None:
            break
        wrong = fleet.client.get(address, params={"after": after})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_cursor")
    assert keys == [f"row-{number:06}" for number in range(ROWS - 2, 5, -2)]
    found = fleet.client.get(address, params={"q": "GROUP 3", "limit": 200}).json()["items"]
    assert [each["values"]["number"] % 7 for each in found] == [3] * len(found) != []

    must_be_exported(fleet, one)

    beside = fleet.client.get("/api/results/compare", params={"run": [one, other], "limit": 3}).json()
    assert [each["key"] for each in beside["items"]] == [f"row-{number:06}" for number in range(3)]
    assert [each["value"] for each in beside["items"][0]["values"]] == [0.0, 4.0]

    html = fleet.client.get(f"/runs/{one}/results", headers={"accept": "text/html"}).text
    assert "row-000049" in html
    assert "row-000050" not in html
    assert 'aria-sort="ascending"' in html

    must_be_told_in_a_terminal(fleet, one, other)
    must_be_shown_as_text(fleet, database, one)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("set=laps", 422, "it has rows"),
        ("sort=color", 422, "it is by key, number, value"),
        ("sort=status", 422, "it is by key"),
        ("filter=color=1", 422, "it has key, status, number, value"),
        ("filter=number", 422, "is no filter"),
        ("filter=number=x", 422, "is a number"),
        ("filter=number=1e999", 422, "is a number"),
        ("filter=number=nan", 422, "is a number"),
        ("filter=is_even=1", 422, "true or false"),
        ("filter=is_even>true", 422, "compared by ="),
        ("filter=group=a%00", 422, "NUL"),
        ("q=%00", 422, "NUL"),
        ("&".join(["filter=number=1"] * 9), 422, ""),
        ("filter=" + "x" * 3_000, 422, ""),
        ("q=" + "x" * 201, 422, ""),
        ("limit=0", 400, "limit"),
        ("limit=100000", 400, "limit"),
        ("after=x", 400, "cursor"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_names_what_there_is(
    fleet: Any, query: str, status: int, words: str
) -> None:
    run_id = fleet.submit()
    answer = fleet.client.get(f"/api/runs/{run_id}/results?{query}")
    assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_a_run_without_rows_has_an_empty_page_and_an_unknown_one_none(fleet: Any) -> None:
    run_id = fleet.submit()
    empty = fleet.client.get(f"/api/runs/{run_id}/results").json()
    assert (empty["attempt"], empty["items"], empty["next"]) == (None, [], None)
    assert fleet.client.get(f"/runs/{run_id}/results").status_code == 200
    assert fleet.client.get(f"/api/runs/{run_id}/results/export").text.count("\n") == 1
    for path in ("/api/runs/none/results", "/runs/none/results", "/api/runs/none/results/export"):
        assert fleet.client.get(path).status_code == 404
    assert fleet.client.get("/api/results/compare", params={"run": [run_id]}).status_code == 422
