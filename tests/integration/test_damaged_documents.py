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
# What a worker with a database of its own may write of itself, in the place of each field.
HUGE: list[Any] = [2**62, 1e300, -1.0]
ODD = (float("inf"), float("nan"))
CHECK = {"name": "disk", "ok": False, "code": "FULL", "message": "full", "at": NOW, "kinds": ["x"]}
CAPABILITIES = {
    "cpus": 2, "memoryMib": 1024, "device": "cpu", "cpu": "x", "engines": ["vllm"], "services": ["ollama"],
    "gpus": [{"name": "g", "memoryMib": 80_000, "computeCapability": "9.0"}],
    "models": [{"name": "m", "bytes": 7, "engine": None}],
    "disks": [{"path": "/", "totalMib": 2, "freeMib": 1}], "cuda": {"ok": True, "code": None, "message": ""},
}  # fmt: skip
TELEMETRY = {"cpuUtil": 0.5, "memoryMib": 512.0, "gpuUtil": 0.5, "gpuMemoryMib": 2.0, "gpuFaults": []}
FAILURES = [{"code": "C", "count": 1}]
DELIVERY = {"waiting": 1, "oldestS": 2.0, "diskFreeBytes": 3, "uploadFailures": FAILURES}
POD = {
    "pod": "p", "mode": "hybrid", "region": None, "kinds": ["probe"], "state": "idle", "runId": None,
    "attempt": None, "version": "1", "labels": {"gpu": "h100"}, "clockOffsetS": 0.1, "keyId": None,
    "capabilities": CAPABILITIES, "telemetry": TELEMETRY, "checks": [CHECK], "delivery": DELIVERY,
    "startedAt": NOW, "orders": {"drain": False}, "resets": [],
}  # fmt: skip
ORDER = {
    "id": "r", "service": "ollama", "force": False, "by": "ann", "at": NOW, "until": NOW, "entry": "e",
    "isRecorded": False,
}  # fmt: skip
ORDERS: list[tuple[str, Any]] = [
    ("drain", {}), ("resets", {"service": "ollama"}), ("cordon", {"reason": "x"}), ("restart", {}),
]  # fmt: skip
RESETS: tuple[Any, ...] = (5, [5], [{}], [{**ORDER, "isRecorded": {}}], [{"isRecorded": False}])
GPUS: tuple[Any, ...] = ([{}], [{"name": {}}], [{"name": "g", "memoryMib": 1e308}] * 9)
OF_A_POD: list[tuple[str, Any]] = [
    *((name, lie) for name in POD for lie in (MISSING, None, 5, "text", [{"a": 1}], {"a": {"b": []}})),
    *((f"capabilities.{name}", lie) for name in CAPABILITIES for lie in (MISSING, "x", [5], *HUGE)),
    *((f"telemetry.{name}", lie) for name in TELEMETRY for lie in (MISSING, "x", [5], *HUGE)),
    *((f"delivery.{name}", lie) for name in DELIVERY for lie in (MISSING, "x", [5], *HUGE)),
    *((name, lie) for name in ("clockOffsetS", "telemetry.memoryMib", "delivery.waiting") for lie in ODD),
    *(("clockOffsetS", lie) for lie in HUGE),
    *(("capabilities.gpus", lie) for lie in GPUS),
    *(("checks", [lie]) for lie in (5, {}, {**CHECK, "kinds": 5}, {"ok": False, "name": {}})),
    *(("orders", {"resets": lie}) for lie in RESETS),
    ("orders", {"drain": "x", "resets": [{**ORDER, "until": "never"}]}),
    ("startedAt", datetime(9999, 12, 31, tzinfo=UTC)), ("startedAt", datetime(1, 1, 1, tzinfo=UTC)),
    ("labels", {"x" * 10_000: "y" * 100_000}), ("kinds", ["probe"] * 50_000), ("state", "s" * 100_000),
    ("capabilities.models", [{"name": "m" * 200, "bytes": 2**62, "engine": None}] * 2_000),
]  # fmt: skip
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


@pytest.mark.slow("each field of a worker's line in each wrong form, before each page that reads them")
async def test_a_damaged_line_of_a_worker_is_named_and_holds_up_no_page_no_race_and_no_other_pod(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    now = await deps.reading.pod_rules.store.now()
    good = {**POD, "reportedAt": now}
    lines = [damaged(good, path, lie, f"bad-{number}/1") for number, (path, lie) in enumerate(OF_A_POD)] + [
        damaged(good, "reportedAt", lie, f"time-{number}/1") for number, lie in enumerate((MISSING, 5, "now"))
    ]
    await deps.db.pods.insert_many([*lines, {**good, "_id": "good/1"}, {**good, "_id": "fine/1"}, {"_id": 5}])
    samples: list[Any] = [5, {"at": 5}, {"at": now, "cpuUtil": "x", "memoryMib": 1e300, "gpuFaults": 5}]
    for number, lie in enumerate((samples, "x", 5)):
        span = {"_id": f"good/1/{now:%Y-%m-%dT%H:%M}{number}", "podId": "good/1", "samples": lie}
        await deps.db.pod_telemetry.insert_one(span)
    lanes = [{"pod": "good"}, {"pod": "fine"}]
    race = {"kind": "probe", "spec": {"seconds": 0}, "name": "r", "lanes": lanes}
    run_id = (await asking.post("/api/runs", json=RUN)).json()["id"]
    for _ in range(3):  # the last with another pod in quarantine, and after all that was decided
        await deps.quarantiner.run_once()
        await deps.pod_resets.run_once()
    listed = await whole_list(asking)
    assert {"good/1", "fine/1"} <= listed["items"].keys()
    for number, (path, lie) in enumerate(OF_A_POD):
        pod = f"bad-{number}/1"
        is_shown = pod in listed["items"]
        if path != "startedAt":  # those are the end of the list, which a page does not go beyond
            assert is_shown != (pod in listed["unreadable"]), (path, lie)
        address = f"/pods/{pod}" if is_shown or number % 4 else f"/api/pods/{pod}"
        answer = await asking.get(address)
        assert answer.status_code in ((200,) if is_shown else (200, 409)), (path, lie, answer.text[-2_000:])
        order, body = ORDERS[number % 4]
        answer = await asking.post(f"/api/pods/{pod}/{order}", json=body, headers={"accept": "*/*"})
        assert answer.status_code < 500, (order, path, lie, answer.text)
    pages = (
        "/", "/metrics", "/api/queue", "/api/kinds", "/numbers", "/pods/good/1", "/api/pods/good/1/telemetry",
        "/races", "/races/r", "/races/new?kind=probe", "/api/races/r", "/api/races/r/samples", "/tasks/new",
        f"/runs/{run_id}", f"/api/runs/{run_id}/explain", "/runs/new?kind=prompt",
    )  # fmt: skip
    for address in ("/api/race-checks", "/api/races"):
        answer = await asking.post(address, json=race)
        assert answer.status_code in (200, 201), (address, answer.text)
    for address in pages:
        answer = await asking.get(address)
        assert answer.status_code == 200, (address, answer.text[-2_000:])
    line = {"id": "new/1", **{name: POD[name] for name in ("pod", "mode", "kinds", "state", "version")}}
    told = {"capabilities": {"cpus": 1, "memoryMib": 1, "gpus": []}, "telemetry": {"memoryMib": 1}}
    heard = await asking.post("/api/pods", json={**line, **told, "startedAt": "2026-01-01T00:00:00Z"})
    assert heard.status_code == 200, heard.text


async def whole_list(asking: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Return all that `/api/pods` and `/pods` show, page after page."""
    found: dict[str, dict[str, Any]] = {"items": {}, "unreadable": {}}
    after: dict[str, str] = {}
    while True:
        told = (await asking.get("/api/pods", params={"limit": 200, **after})).json()
        for part, known in found.items():
            known |= {each["id"]: each for each in told.get(part, ())}
        page = await asking.get("/pods", params={"limit": 200, **after})
        assert page.status_code == 200, page.text[-2_000:]
        assert all(f"<code>{each['id']}</code>" in page.text for each in told.get("unreadable", ()))
        if told["next"] is None:
            return found
        after = {"after": told["next"]}
