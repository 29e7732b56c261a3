"""Boards and lists of runs on a real MongoDB, over HTTP: bounded, sieved, and nothing but fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from control_plane.runs.boards import saved
from control_plane.server.deps import Deps
from control_plane.store import pages
from control_plane.store.queue import run_fields

START = datetime(2026, 3, 1, tzinfo=UTC)
BOARD = {"kind": "probe", "rows": "spec.x", "columns": "label.team.io/name", "cell": "value"}
VALUES = [(0, "a", 5.0), (0, "a", 3.0), (0, "b", 4.0), (1, "a", 2.0), (1, "b", None), (0, "a", 7.0)]
HOSTILE = [
    "spec.$where", "spec.a..b", "$expr", "tokens.hash", "label.", "label.a b", "spec.x\x00", "_id", "lease",
    "spec." + ".".join("abcdefghi"), "spec." + "a" * 300, "spec.a'; drop", "spec.{$gt:1}", "idempotency.key",
]  # fmt: skip


@pytest.fixture
async def run_ids(deps: Deps, asking: httpx.AsyncClient) -> list[str]:
    """Completed runs, each an hour after the one before."""
    made = []
    for number, (x, team, value) in enumerate(VALUES):
        body = {"kind": "probe", "spec": {"x": x}, "labels": {"team.io/name": team, "n": str(number)}}
        answer = await asking.post("/api/runs", json=body)
        run_id = answer.json()["id"]
        summary = {} if value is None else {"summary": {"value": value}, "summaryAttempt": 1}
        ended = {"status": "COMPLETED", "finishedAt": START + timedelta(hours=number), **summary}
        await deps.db.runs.update_one({"_id": run_id}, {"$set": ended})
        made.append(run_id)
    return made


async def board(asking: httpx.AsyncClient, **wanted: Any) -> dict[str, Any]:
    answer = await asking.get("/api/boards/view", params={**BOARD, **wanted})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def numbers(found: dict[str, Any]) -> list[Any]:
    return [[row["value"], *(cell and cell["number"] for cell in row["cells"])] for row in found["rows"]]


async def test_a_board_has_a_number_of_its_runs_in_each_cell(
    asking: httpx.AsyncClient, run_ids: list[str]
) -> None:
    newest = await board(asking)
    assert (newest["columns"], numbers(newest)) == (["a", "b"], [[0, 7.0, 4.0], [1, 2.0, None]])
    assert (newest["lookedAt"], newest["unmeasured"], newest["isPartial"]) == (6, 1, False)
    cell = newest["rows"][0]["cells"][0]
    assert (cell["count"], cell["runId"]) == (3, run_ids[5])
    assert cell["runs"] == [run_ids[5], run_ids[1], run_ids[0]]
    best = await board(asking, show="best")
    assert (best["direction"], numbers(best)[0]) == ("lower", [0, 3.0, 4.0])
    mean = await board(asking, show="mean", complete=True)
    assert (numbers(mean), mean["incomplete"]) == ([[0, 5.0, 4.0]], 1)
    assert mean["rows"][0]["cells"][0]["low"] == pytest.approx(5 - 4.302652729911275 * 2 / 3**0.5)
    assert "95 % t interval" in mean["method"]
    one_column = await board(asking, columns="", label="team.io/name=b")
    assert (one_column["columns"], numbers(one_column)) == ([None], [[0, 4.0]])


async def test_a_board_is_of_all_that_succeeded_of_one_status_or_of_a_group(
    deps: Deps, asking: httpx.AsyncClient, run_ids: list[str]
) -> None:
    await deps.db.runs.update_one(
        {"_id": run_ids[5]}, {"$set": {"status": "HUMAN_VALIDATED", "title": "<b>x"}}
    )
    await deps.db.runs.update_one({"_id": run_ids[0]}, {"$set": {"status": "HUMAN_REJECTED"}})
    await deps.db.runs.update_one({"_id": run_ids[1]}, {"$set": {"groupId": "sweep", "slot": 0}})
    found = await board(asking)
    assert (found["lookedAt"], numbers(found)[0]) == (5, [0, 7.0, 4.0])
    cell = found["rows"][0]["cells"][0]
    assert (cell["runs"], cell["titles"][0]) == ([run_ids[5], run_ids[1]], "<b>x")
    assert numbers(await board(asking, status="HUMAN_VALIDATED")) == [[0, 7.0]]
    assert numbers(await board(asking, status="COMPLETED"))[0] == [0, 3.0, 4.0]
    assert numbers(await board(asking, group="sweep")) == [[0, 3.0]]
    assert numbers(await board(asking, group="other")) == []
    page = (await asking.get("/boards/view", params={**BOARD, "group": "sweep", "status": ""})).text
    assert 'name="group" value="sweep"' in page
    listed = (await asking.get("/boards/view", params=BOARD)).text
    assert "&lt;b&gt;x</a>" in listed
    assert f"<code>{run_ids[5]}</code>" not in listed
    for wrong in ({"status": "FAILED"}, {"status": "$where"}, {"group": "x" * 201}):
        assert (await asking.get("/api/boards/view", params={**BOARD, **wrong})).status_code == 422
        assert (await asking.get("/boards/view", params={**BOARD, **wrong})).status_code == 422


async def test_a_parameter_that_was_not_given_counts_with_its_default(
    asking: httpx.AsyncClient, run_ids: list[str]
) -> None:
    found = await board(asking, rows="spec.y", columns="spec.end")
    assert (found["columns"], numbers(found)) == (["completed"], [[0, 7.0]])


async def test_a_board_says_of_how_many_runs_it_is(
    asking: httpx.AsyncClient, run_ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SCAN_MAX", 2)
    found = await board(asking)
    assert (found["lookedAt"], found["isPartial"]) == (2, True)
    assert numbers(found) == [[0, 7.0]]
    monkeypatch.undo()
    monkeypatch.setattr(run_fields, "BYTES_MAX", 500)
    found = await board(asking)
    assert found["isPartial"]
    assert 0 < found["lookedAt"] < len(run_ids)


async def test_fields_that_overlap_are_read_once(asking: httpx.AsyncClient, run_ids: list[str]) -> None:
    found = await board(asking, rows="spec.x", columns="spec.x.deeper")
    assert (found["columns"], len(found["rows"])) == ([None], 2)


async def test_what_is_no_field_is_refused_at_every_door(asking: httpx.AsyncClient) -> None:
    for name in HOSTILE:
        doors = [("/api/boards/view", {**BOARD, each: name}) for each in ("rows", "columns")]
        doors += [("/api/boards/view", {**BOARD, "cell": f"{name}$"})]
        doors += [("/api/boards/export", {**BOARD, "rows": name})]
        doors += [("/api/runs", {"columns": name}), ("/api/runs", {"sort": name})]
        for path, query in doors:
            answer = await asking.get(path, params=query)
            assert answer.status_code == 422, (path, query, answer.text)
        answer = await asking.put("/api/boards/x", json={"query": {**BOARD, "rows": name}})
        assert answer.status_code == 422


async def test_a_board_that_cannot_be_made_says_why(asking: httpx.AsyncClient) -> None:
    for wanted, says in (
        ({"show": "best", "cell": "other"}, "no direction of other is declared"),
        ({"show": "worst"}, "newest"),
        ({"kind": "a b"}, "no kind of run"),
        ({"cell": ""}, "is no field"),
        ({"q": "x" * 201}, "200"),
    ):
        answer = await asking.get("/api/boards/view", params={**BOARD, **wanted})
        assert answer.status_code == 422
        assert says in answer.text


async def test_a_board_as_a_file_executes_nothing(
    deps: Deps, asking: httpx.AsyncClient, run_ids: list[str]
) -> None:
    labels = {"labels": {"team.io/name": "=1+1"}}
    await deps.db.runs.update_many({"_id": {"$in": run_ids}}, {"$set": labels})
    answer = await asking.get("/api/boards/export", params={**BOARD, "show": "mean"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    head, first, *_ = answer.text.splitlines()
    assert head == "spec.x,'=1+1,'=1+1 low,'=1+1 high,'=1+1 runs"
    assert first.startswith("0,4.75,")


async def test_a_board_is_saved_replaced_listed_and_removed(asking: httpx.AsyncClient) -> None:
    made = await asking.put("/api/boards/by-x", json={"query": BOARD})
    assert made.status_code == 200, made.text
    assert made.json()["revision"] == 1
    again = (await asking.put("/api/boards/by-x", json={"query": {**BOARD, "show": "mean"}})).json()
    assert (again["revision"], again["createdAt"]) == (2, made.json()["createdAt"])
    assert (await asking.get("/api/boards/by-x")).json() == again
    view = {
        "page": "runs",
        "query": {"status": "COMPLETED", "columns": "kind,summary.value", "sort": "spec.x"},
    }
    assert (await asking.put("/api/boards/a-view", json=view)).json()["address"].startswith("/runs?status=")
    listed = (await asking.get("/api/boards", params={"limit": 1})).json()
    assert [each["id"] for each in listed["items"]] == ["a-view"]
    rest = (await asking.get("/api/boards", params={"after": listed["next"]})).json()
    assert ([each["id"] for each in rest["items"]], rest["next"]) == (["by-x"], None)
    assert (await asking.delete("/api/boards/by-x")).status_code == 204
    assert (await asking.delete("/api/boards/by-x")).status_code == 404
    assert (await asking.get("/api/boards/by-x")).status_code == 404


UNFIT: list[tuple[str, Any]] = [
    ("view", {"query": BOARD}),
    ("export", {"query": BOARD}),
    ("Name", {"query": BOARD}),
    ("x" * 64, {"query": BOARD}),
    ("$x", {"query": BOARD}),
    ("x", {"query": {}}),
    ("x", {"query": {**BOARD, "colour": "blue"}}),
    ("x", {"query": {**BOARD, "$where": "1"}}),
    ("x", {"query": {**BOARD, "rows": ["spec.x"]}}),
    ("x", {"query": {**BOARD, "label": "y" * 2_000}}),
    ("x", {"query": {**BOARD, "show": "worst"}}),
    ("x", {"query": {**BOARD, "q": "a\x00"}}),
    ("x", {"query": {f"a{'b' * n}": "c" for n in range(19)}}),
    ("x", {"query": BOARD, "page": "pods"}),
    ("x", {"query": {"columns": "spec.$x"}, "page": "runs"}),
    ("x", {"query": {"sort": "status"}, "page": "runs"}),
    ("x", {"query": {"status": "BLUE"}, "page": "runs"}),
    ("x", {"query": BOARD, "more": 1}),
    ("x", []),
]


async def test_what_no_page_could_show_is_not_saved(deps: Deps, asking: httpx.AsyncClient) -> None:
    for name, body in UNFIT:
        answer = await asking.put(f"/api/boards/{name}", json=body)
        assert answer.status_code == 422, (name, body, answer.text)
    assert await deps.db.boards.count_documents({}) == 0


async def test_so_many_boards_are_saved_and_no_more(
    asking: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asking.put("/api/boards/first", json={"query": BOARD})
    monkeypatch.setattr(saved, "SAVED_MAX", 1)
    assert (await asking.put("/api/boards/first", json={"query": BOARD})).status_code == 200
    refused = await asking.put("/api/boards/second", json={"query": BOARD})
    assert (refused.status_code, refused.json()["code"]) == (422, "too_many_boards")


async def test_runs_are_listed_with_columns_of_choice_and_sorted_by_one(
    asking: httpx.AsyncClient, run_ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "summary.value,label.team.io/name,spec.x,spec.unknown"
    plain = (await asking.get("/api/runs", params={"columns": columns, "limit": 1})).json()
    expected = {"summary.value": 7.0, "label.team.io/name": "a", "spec.x": 0, "spec.unknown": None}
    assert plain["items"][0]["columns"] == expected
    assert "lookedAt" not in plain
    wanted: dict[str, Any] = {"kind": "probe", "sort": "-summary.value", "columns": "spec.x", "limit": 4}
    first = (await asking.get("/api/runs", params=wanted)).json()
    assert [each["columns"]["summary.value"] for each in first["items"]] == [7.0, 5.0, 4.0, 3.0]
    assert (first["lookedAt"], first["isPartial"]) == (6, False)
    rest = (await asking.get("/api/runs", params={**wanted, "after": first["next"]})).json()
    assert [each["columns"]["summary.value"] for each in rest["items"]] == [2.0, None]
    assert rest["next"] is None
    foreign = await asking.get("/api/runs", params={**wanted, "sort": "spec.x", "after": first["next"]})
    assert (foreign.status_code, foreign.json()["code"]) == (400, "bad_cursor")
    monkeypatch.setattr(pages, "SCAN_MAX", 3)
    few = (await asking.get("/api/runs", params=wanted)).json()
    assert (few["lookedAt"], few["isPartial"], len(few["items"])) == (3, True, 3)


async def test_the_pages_show_boards_and_say_what_is_wrong(
    deps: Deps, asking: httpx.AsyncClient, run_ids: list[str]
) -> None:
    hostile = {"labels": {"team.io/name": "<script>a</script>"}}
    await deps.db.runs.update_many({"_id": {"$in": run_ids[:3]}}, {"$set": hostile})
    shown = await asking.get("/boards/view", params={**BOARD, "show": "mean"})
    assert shown.status_code == 200
    assert "<td" in shown.text
    assert "<script>a" not in shown.text
    assert f"/runs/{run_ids[0]}" in shown.text
    assert "3 runs" in shown.text
    wrong = await asking.get("/boards/view", params={**BOARD, "rows": "spec.$x"})
    assert (wrong.status_code, "is no field" in wrong.text) == (422, True)
    assert (await asking.get("/boards/view")).status_code == 422
    query = str(httpx.QueryParams(BOARD))
    made = await asking.post("/boards", data={"id": "by-x", "query": query})
    assert made.headers["location"] == "/boards/by-x"
    assert "Remove by-x" in (await asking.get("/boards/by-x")).text
    refused = await asking.post("/boards", data={"id": "by x", "query": query})
    assert refused.status_code == 422
    for unfit in ("&".join(f"a{number}=1" for number in range(100)), f"{query}&q=a%00"):
        assert (await asking.post("/boards", data={"id": "x", "query": unfit})).status_code == 422
    one_column = str(httpx.QueryParams({**BOARD, "columns": ""}))
    assert (await asking.post("/boards", data={"id": "one", "query": one_column})).status_code == 303
    assert "value of probe by" in (await asking.get("/boards")).text
    listed = await asking.get("/runs", params={"columns": "kind,summary.value,spec.x", "sort": "spec.x"})
    assert 'aria-sort="ascending"' in listed.text
    assert "data-rows" not in listed.text
    view = {"id": "my-view", "page": "runs", "query": "columns=summary.value&status=COMPLETED"}
    assert (await asking.post("/boards", data=view)).status_code == 303
    assert (await asking.get("/boards/my-view")).headers["location"].startswith("/runs?columns=")
    assert "my-view" in (await asking.get("/boards")).text
    assert (await asking.post("/boards/by-x/remove")).headers["location"] == "/boards"
    assert (await asking.get("/boards/by-x")).status_code == 404
