"""Documents that a hand has damaged: each is named with what is wrong in it, and the others are shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from control_plane.server.app import create_app
from tests.integration.in_process import control_plane

RUN = {"kind": "probe", "spec": {"seconds": 1}}
PLAN = {"kind": "matrix", "values": {"seconds": [1, 2]}}
NOW = datetime(2026, 3, 1, tzinfo=UTC)
MISSING = object()

# what is put in the place of each of these fields, and in which documents
LIES: dict[str, list[tuple[str, Any]]] = {
    "groups": [
        ("plan", MISSING), ("plan", "matrix"), ("plan", {}), ("plan.kind", []), ("plan.parallel", MISSING),
        ("run", MISSING), ("run", []), ("run.kind", {}), ("status", MISSING), ("status", 7),
        ("counts", MISSING), ("counts", "many"), ("counts.failed", -1), ("counts.failed", "1"),
        ("first", None), ("first", "0"), ("next", {}), ("round", 1.5), ("createdAt", MISSING),
        ("createdAt", {"a": 1}), ("revision", "1"),
    ],
    "boards": [
        ("page", MISSING), ("page", "other"), ("page", []), ("query", MISSING), ("query", "kind=probe"),
        ("query", {"kind": 5}), ("revision", []), ("createdAt", MISSING), ("updatedBy", {}),
    ],
    "schedules": [
        ("cron", MISSING), ("cron", 5), ("timeZone", {}), ("run", MISSING), ("run", "probe"),
        ("run.kind", []), ("run.requires", "all"), ("run.labels", {"a": 1}), ("paused", "no"),
        ("last", {"slot": 5}), ("createdAt", MISSING), ("revision", None),
    ],
    "models": [
        ("endpoint", "https://a.example"), ("endpoint.baseUrl", MISSING), ("endpoint.secret", ["A"]),
        ("served", {"engine": "x"}), ("inputUsdPerMtok", "0.5"), ("contextTokens", -1),
        ("title", MISSING), ("createdAt", {}), ("revision", "1"), ("syncedAt", 5),
    ],
    "secrets": [
        ("kinds", "all"), ("kinds", [5]), ("keys", {}), ("setBy", MISSING), ("setAt", {}),
        ("createdAt", None),
    ],
}  # fmt: skip
# what a list does not read
OF_A_PAGE: list[tuple[str, Any]] = [
    ("plan.values", {"x": 5}), ("plan.values", [1]), ("plan.values", {"$x": [1]}), ("plan.rows", [5]),
    ("journal", [{}]), ("journal", [{"n": "x"}]), ("rounds", [{"round": []}]),
]  # fmt: skip


@pytest.fixture
async def deps(emptied_url: str) -> AsyncIterator[Any]:
    async with control_plane(emptied_url) as found:
        yield found


@pytest.fixture
async def asking(deps: Any) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(deps), raise_app_exceptions=False)
    headers = {"accept": "text/html"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        yield client


async def made(deps: Any, asking: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Return one document of each collection, as it is stored."""
    schedule = {"id": "good", "cron": "0 3 * * *", "run": RUN}
    board = {"query": {"kind": "probe", "rows": "spec.seconds", "cell": "value"}}
    for method, path, body in (
        ("POST", "/api/groups", {"id": "good", "run": RUN, "plan": PLAN, "paused": True}),
        ("POST", "/api/schedules", schedule),
        ("PUT", "/api/boards/good", board),
        ("PUT", "/api/models/good", {"endpoint": {"model": "m", "base_url": "https://a.example/v1"}}),
    ):
        (await asking.request(method, path, json=body)).raise_for_status()
    lists = {"kinds": [], "keys": [], "sealed": {}, "keyId": "k", "setBy": "ada", "setAt": NOW}
    await deps.db.secrets.insert_one({"_id": "good", **lists, "createdAt": NOW})
    return {name: await deps.db[name].find_one({"_id": "good"}) for name in LIES}


def damaged(document: dict[str, Any], path: str, lie: Any, identity: str) -> dict[str, Any]:
    found = {**document, "_id": identity}
    *way, last = path.split(".")
    place = found
    for part in way:
        place[part] = place = dict(place[part])
    if lie is MISSING:
        del place[last]
    else:
        place[last] = lie
    return found


async def test_a_damaged_document_is_named_and_the_others_are_shown(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    stored = await made(deps, asking)
    for name, lies in LIES.items():
        broken = [
            damaged(stored[name], path, lie, f"bad-{number}") for number, (path, lie) in enumerate(lies)
        ]
        await deps.db[name].insert_many([*broken, {"_id": 5}])
        page = await asking.get(f"/{name}")
        assert page.status_code == 200, (name, page.text)
        assert "good</" in page.text
        found = (await asking.get(f"/api/{name}")).json()
        assert [each["id"] for each in found["items"]] == ["good"]
        told = {each["id"]: each["problem"] for each in found["unreadable"]}
        assert {*told} == {"5", *(each["_id"] for each in broken)}
        for number, lie in enumerate(lies):
            assert told[f"bad-{number}"], (name, lie)
            assert f"<code>bad-{number}</code>" in page.text, (name, lie)
        few = (await asking.get(f"/api/{name}", params={"limit": 1})).json()
        assert len([*few["items"], *few.get("unreadable", [])]) == 1
        if name == "secrets":
            continue
        for number, lie in enumerate(lies):
            has_page = number % 2 and name != "models"
            path = f"/{name}/bad-{number}" if has_page else f"/api/{name}/bad-{number}"
            answer = await asking.get(path)
            assert (answer.status_code, f"bad-{number}" in answer.text) == (409, True), (path, lie)


async def test_an_order_to_a_damaged_group_is_refused_in_words(deps: Any, asking: httpx.AsyncClient) -> None:
    stored = await made(deps, asking)
    for number, (path, lie) in enumerate(OF_A_PAGE):
        await deps.db.groups.insert_one(damaged(stored["groups"], path, lie, f"torn-{number}"))
        for address in (
            f"/groups/torn-{number}",
            f"/groups/torn-{number}/edit",
            f"/api/groups/torn-{number}",
        ):
            assert (await asking.get(address)).status_code == 409, (address, lie)
    assert (await asking.get("/groups")).status_code == 200
    for number, (path, lie) in enumerate((("status", 7), ("run", "x"), ("plan", MISSING), ("revision", "1"))):
        identity = f"bad-{number}"
        await deps.db.groups.insert_one(damaged(stored["groups"], path, lie, identity))
        for order in ("pause", "resume", "cancel", "again"):
            answer = await asking.post(f"/api/groups/{identity}/{order}", headers={"accept": "*/*"})
            assert answer.status_code == 409, (path, order, answer.text)
            assert answer.json()["code"] == "unreadable_document"
        for part in ("curves", "edit"):
            assert (await asking.get(f"/groups/{identity}/{part}")).status_code == 409


async def test_damaged_rows_of_results_are_named_beside_the_others(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    run_id = (await asking.post("/api/runs", json=RUN)).json()["id"]
    good = {"runId": run_id, "attempt": 1, "set": "rows", "key": "good", "values": {"number": 1}, "seq": 1}
    lies: list[tuple[str, Any]] = [
        ("values", MISSING), ("values", "many"), ("values", {"number": {"$gt": 1}}),
        ("values", {"number": [1]}), ("status", 5), ("detail", {}), ("key", MISSING), ("key", 7),
    ]  # fmt: skip
    rows = [damaged(good, path, lie, f"bad-{number}") for number, (path, lie) in enumerate(lies)]
    strays = [{**good, "_id": "stray", "attempt": "last"}, {**good, "_id": "odd", "set": 5}]
    await deps.db.results.insert_many([{**good, "_id": "good"}, *rows, *strays])
    found = await asking.get(f"/api/runs/{run_id}/results", params={"set": "rows"})
    assert found.status_code == 200, found.text
    assert ([each["key"] for each in found.json()["items"]], len(found.json()["unreadable"])) == (["good"], 8)
    page = await asking.get(f"/runs/{run_id}/results")
    assert page.status_code == 200
    assert "8 of the stored rows" in page.text
    for number in range(1, 9):
        few = await asking.get(f"/api/runs/{run_id}/results", params={"set": "rows", "limit": number})
        assert few.status_code == 200, few.text
    by_column = {"set": "rows", "sort": "number"}
    assert (await asking.get(f"/api/runs/{run_id}/results", params=by_column)).status_code == 200
