"""The API under input that nobody means well with: each gets a clear answer, and nothing is stored."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from control_plane.reads import paging
from events.runtime.clock import SystemClock

pytestmark = pytest.mark.common_fleet
JSON = {"content-type": "application/json"}
MIB = 1 << 20


def is_problem(answer: httpx.Response, status: int) -> bool:
    """Say whether the answer is a problem document of this status, with words and without a traceback."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert body["detail"], answer.text
    assert "Traceback" not in answer.text, answer.text
    return (answer.status_code, body["status"]) == (status, status)


def wait_until(holds: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Wait for a condition; fail when it does not come."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + limit_s
    while not holds():
        assert clock.monotonic_s() < deadline_s, "it never came"
        clock.wait(threading.Event(), 0.05)


HOSTILE_BODIES = [
    (b"{", 400),
    (b"", 422),
    (b"null", 422),
    (b"[]", 422),
    (b'"text"', 422),
    (b"\xff\xfe", 400),
    (b"[" * 100_000, 400),
    (b'{"kind": "probe", "spec": {"seconds": NaN}}', 422),
    (b'{"kind": "probe", "spec": {"seconds": Infinity}}', 422),
    (b'{"kind": "probe", "priority": 1e999}', 422),
    (b'{"kind": "probe", "priority": "5"}', 422),
    (b'{"kind": "probe\\u0000"}', 422),
    (b'{"kind": "probe\\ud800"}', 422),
    (b'{"kind": "probe", "labels": {"a": "\\ud800"}}', 422),
    (b'{"kind": "probe", "labels": {"$toUpper": "x"}}', 422),
    (b'{"kind": "probe", "labels": {"": "x"}}', 422),
    (b'{"kind": "probe", "labels": {"a": {"$gt": ""}}}', 422),
    (b'{"kind": "probe", "spec": {"$where": "1"}}', 422),
    (b'{"kind": "probe", "requires": {"region": {"$ne": 1}}}', 422),
    (b'{"kind": "probe", "requires": {"region": "a/b"}}', 422),
    (b'{"kind": "probe", "requires": {"gpu_gib": NaN}}', 422),
    (b'{"kind": "probe", "not_before": "9999-12-31T23:59:59-10:00"}', 422),
    (b'{"kind": "probe", "not_before": "0001-01-01T00:00:00+10:00"}', 422),
    (b'{"kind": "probe", "not_before": "tomorrow"}', 422),
    (b'{"kind": "probe", "labels": {' + b",".join(b'"k%d": "v"' % n for n in range(33)) + b"}}", 422),
    (b'{"kind": "experiment", "spec": {"idea": "' + b"x" * (2 * MIB) + b'"}}', 413),
]


def test_a_hostile_run_is_refused_in_words_and_leaves_nothing(fleet: Any, database: Any) -> None:
    for body, status in HOSTILE_BODIES:
        answer = fleet.client.post("/api/runs", content=body, headers=JSON)
        assert is_problem(answer, status), (body[:80], answer.status_code, answer.text)
    assert database.runs.count_documents({}) == database.run_specs.count_documents({}) == 0


def test_a_hostile_hypothesis_is_refused_in_words_and_leaves_nothing(fleet: Any, database: Any) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = {"x": deep}
    ideas: list[Any] = [
        "",
        " ",
        {},
        {"Short Hypothesis": {"$gt": ""}},
        {"Name": "no hypothesis"},
        deep,
        7,
        None,
    ]
    for idea in ideas:
        for enable_ideation in (False, True):
            body = {"title": "t", "idea": idea, "enable_ideation": enable_ideation}
            answer = fleet.client.post("/api/hypotheses", json=body)
            assert is_problem(answer, 422), (str(idea)[:80], enable_ideation, answer.status_code, answer.text)
    for name in ("hypotheses", "runs", "run_specs", "ideation_requests"):
        assert database[name].count_documents({}) == 0, name


def test_labels_are_data_whatever_they_are_called(fleet: Any) -> None:
    labels = {"team.name": "$status", "a/b": "=", "n": "$$NOW"}
    run_id = fleet.submit(labels=labels)
    assert fleet.run(run_id)["labels"] == labels
    found = fleet.client.get("/api/runs", params={"label": "team.name=$status"}).json()
    assert [run["id"] for run in found["items"]] == [run_id]
    fleet.client.post(f"/api/runs/{run_id}/cancel")
    again = fleet.client.post(f"/api/runs/{run_id}/retry").json()
    assert again["labels"] == labels


def test_a_start_in_the_past_is_no_way_to_the_head_of_the_queue(fleet: Any) -> None:
    first = fleet.run(fleet.submit())
    late = fleet.run(fleet.submit(not_before="2001-01-01T00:00:00Z"))
    assert first["queuedAt"] <= late["queuedAt"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_ids_are_looked_up_as_text_and_never_found_by_an_operator(fleet: Any, method: str) -> None:
    fleet.submit()
    ids = ["%00", "%ff%fe", '{"$gt":""}', "$where", "..%2f..%2fetc", "x" * 3_000, "%F0%9F%92%A9", "a%0d%0ab"]
    paths = {
        "GET": ("/api/runs/{}", "/api/runs/{}/events", "/api/runs/{}/artifacts", "/api/hypotheses/{}",
                "/api/pods/{}", "/api/artifacts/{}"),
        "POST": ("/api/runs/{}/cancel", "/api/runs/{}/retry", "/api/pods/{}/drain"),
    }[method]  # fmt: skip
    for path in paths:
        for each in ids:
            answer = fleet.client.request(method, path.format(each))
            assert is_problem(answer, 404), (path, each, answer.status_code, answer.text)


def test_lists_refuse_bad_limits_and_cursors_with_400(fleet: Any) -> None:
    run_id = fleet.submit()
    lists = ("/api/runs", "/api/hypotheses", "/api/pods", f"/api/runs/{run_id}/events",
             f"/api/runs/{run_id}/artifacts")  # fmt: skip
    foreign = paging.encode("elsewhere", "x")
    wrong_types = [paging.encode(name, 7) for name in ("runs", "hypotheses", "pods", "events, newest first")]
    for path in lists:
        for limit in ("0", "-1", "201", "1000000000", "9" * 5_000, "x", "1.5"):
            answer = fleet.client.get(path, params={"limit": limit})
            assert is_problem(answer, 400 if limit.lstrip("-").isdigit() and len(limit) < 20 else 422), limit
        for after in ("", "!", "x" * 10_000, "\x00", foreign, *wrong_types, "é", "eyIkZ3QiOiIifQ"):
            answer = fleet.client.get(path, params={"after": after})
            assert is_problem(answer, 400), (path, after, answer.status_code)
    beyond = {
        f"/api/runs/{run_id}/artifacts": paging.encode("artifacts", 2**63, "x"),
        "/api/pods": paging.encode("pods", "0001-01-01T00:00:00+23:59", "x"),
    }
    for path, after in beyond.items():
        assert is_problem(fleet.client.get(path, params={"after": after}), 400), path
    for query in ({"q": "x" * 300}, {"status": '{"$ne": 1}'}, {"status": "queued"}, {"region": "\x00"}):
        assert is_problem(fleet.client.get("/api/runs", params=query), 422), query
    for query in ({"level": "loud"}, {"text": "a\x00b"}):
        assert is_problem(fleet.client.get(f"/api/runs/{run_id}/events", params=query), 422), query
    for query in ({"q": '{"$gt": ""}'}, {"q": "\x00"}, {"q": ".*"}, {"label": "$where"}, {"pod": "\x00"}):
        assert fleet.client.get("/api/runs", params=query).json()["items"] == [], query


@pytest.mark.parametrize(
    ("path", "known"),
    [("/api/runs", "after"), ("/api/queue", "project"), ("/api/kinds", "none"), ("/api/pods", "region")],
)
def test_an_unknown_query_parameter_is_refused_with_those_that_there_are(
    fleet: Any, path: str, known: str
) -> None:
    """A pager that asks with `before` would else read page 1 for ever."""
    assert fleet.client.get(path).status_code == 200
    answer = fleet.client.get(path, params={"before": "01", "\n": ""})
    assert is_problem(answer, 422)
    assert "before: no such parameter: there" in answer.json()["detail"]
    assert known in answer.json()["detail"]


def test_wrong_paths_and_methods_are_problems_too(fleet: Any) -> None:
    assert is_problem(fleet.client.get("/api/nothing"), 404)
    for method, path in (("PUT", "/api/runs"), ("DELETE", "/api/queue"), ("GET", "/api/ingest/event")):
        answer = fleet.client.request(method, path)
        assert is_problem(answer, 405), (method, path)
        assert answer.headers["allow"]


def test_a_broken_origin_or_host_is_a_403(fleet: Any) -> None:
    run_id = fleet.submit()
    for headers in ({"origin": "http://["}, {"origin": "null"}, {"origin": "http://127.0.0.1:1"},
                    {"sec-fetch-site": "same-site"}, {"host": "["}, {"host": "127.0.0.1.evil.example"},
                    {"host": "evil.example:80"}):  # fmt: skip
        answer = fleet.client.post(f"/api/runs/{run_id}/cancel", headers=headers)
        assert is_problem(answer, 403), headers
    assert fleet.run(run_id)["status"] == "QUEUED"


def test_a_body_without_end_is_cut_off(fleet: Any) -> None:
    """A chunked body declares no size; reading it to its end would be reading it into memory."""
    address = urlsplit(fleet.url)
    head = f"POST /api/runs HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(1_024):
                connection.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            pytest.fail("64 MiB were taken")
    assert fleet.client.get("/healthz").status_code == 200


def test_cancel_against_claim_has_one_winner_each_time(fleet: Any, database: Any) -> None:
    worker = fleet.start_worker()
    fleet.wait_for(fleet.submit(spec={"seconds": 0.0}), "COMPLETED")  # from here on it is awake

    def race(_: int) -> tuple[str, httpx.Response]:
        run_id = fleet.submit(spec={"seconds": 0.0, "events": 1})
        return run_id, fleet.client.post(f"/api/runs/{run_id}/cancel")

    with ThreadPoolExecutor(4) as pool:
        raced = list(pool.map(race, range(24)))
    assert {answer.status_code for _, answer in raced} <= {200, 409}
    for run_id, answer in raced:
        ended = fleet.wait_for(run_id, "CANCELED", "COMPLETED")
        assert (ended["status"] == "COMPLETED") == (answer.status_code == 409)
        if answer.status_code == 409:
            assert "COMPLETED" in answer.json()["detail"]
    is_end = {"$in": ["CANCELED", "COMPLETED"]}
    wait_until(lambda: database.runs.count_documents({"journal.n": {"$gte": 0}}) == 0)
    for run_id, _ in raced:
        ends = {"runId": run_id, "data.to": is_end, "data.from": {"$nin": ["CANCELED", "COMPLETED"]}}
        assert database.events.count_documents(ends) == 1
    assert worker.poll() is None


def test_no_answer_shows_a_token_or_an_index(fleet: Any) -> None:
    run_id = fleet.submit(spec={"seconds": 0.1}, labels={"a": "b"})
    fleet.start_worker()
    fleet.wait_for(run_id, "COMPLETED")
    for path in (f"/api/runs/{run_id}", "/api/runs", f"/api/runs/{run_id}/events", "/api/pods"):
        text = fleet.client.get(path).text
        for word in ("tokenHash", '"words"', "labelList", "idempotency"):
            assert word not in text, (path, word)
    pods = fleet.client.get("/api/pods").json()["items"]
    drained = fleet.client.post(f"/api/pods/{pods[0]['id']}/drain")
    assert drained.json()["orders"]["drain"] is True
    assert json.loads(fleet.client.get(f"/api/pods/{pods[0]['id']}").text)["id"] == pods[0]["id"]
