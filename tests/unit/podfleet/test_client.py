"""The clients: what they send, what becomes of each answer, and that both know the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
import typer
from typer.testing import CliRunner

from events.testing import RUN_ID, ManualClock, make_run
from podfleet import (
    AsyncClient,
    BadAddress,
    Busy,
    Client,
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    Refused,
    Unreachable,
    connection,
)
from podfleet.client import call, endpoints, following, synchronous, transport
from podfleet.client.endpoints import PAGE
from podfleet.client.following import Follower
from podfleet.connection import status_of
from podfleet.nouns import Nouns

URL = "http://127.0.0.1:8700"
Answering = Callable[[httpx.Request], httpx.Response]


def client_of(answering: Answering) -> Client:
    return Client(URL, "a-key", transport=httpx.MockTransport(answering))


def answered(status: int, body: object) -> Client:
    return client_of(lambda _: httpx.Response(status, json=body))


def paged(request: httpx.Request) -> httpx.Response:
    """Three pages of runs, two on each."""
    page = int(request.url.params.get("after", "0"))
    rows = [msgspec.to_builtins(make_run(id=f"{RUN_ID[:-2]}{page}{number}")) for number in range(2)]
    return httpx.Response(200, json={"items": rows, "next": None if page == 2 else str(page + 1)})


def test_a_run_is_submitted_and_read_as_a_struct() -> None:
    sent: list[httpx.Request] = []

    def answering(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(201, content=msgspec.json.encode(make_run(classKey="probe/cpu/any")))

    run = client_of(answering).submit("probe", {"seconds": 1}, labels={"a": "b"}, idempotency_key="k")
    assert (run.id, run.class_key, run.usage.cost_usd) == (RUN_ID, "probe/cpu/any", 0)
    (request,) = sent
    assert (request.method, request.url.path) == ("POST", "/api/runs")
    assert (request.headers["authorization"], request.headers["idempotency-key"]) == ("Bearer a-key", "k")
    assert msgspec.json.decode(request.content) == {
        "kind": "probe", "spec": {"seconds": 1}, "labels": {"a": "b"},
    }  # fmt: skip


def test_a_list_comes_page_by_page_and_no_further_than_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answering(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.params))
        return paged(request)

    client = client_of(answering)
    runs = client.runs(status="QUEUED")
    assert next(runs).id.endswith("00")
    assert asked == [f"status=QUEUED&limit={PAGE}"]
    assert [run.id[-2:] for run in runs] == ["01", "10", "11", "20", "21"]
    assert asked[-1] == f"status=QUEUED&limit={PAGE}&after=2"
    monkeypatch.setattr(synchronous, "PAGES_MAX", 2)
    with pytest.raises(Unreachable, match="more than 2 pages"):
        list(client.runs())


def test_a_list_that_has_no_pages_ends_in_words_where_there_are_some() -> None:
    with pytest.raises(Unreachable, match="pages that this version does not know"):
        list(answered(200, {"items": [], "next": "2"}).kinds())


def test_what_a_list_cannot_show_is_said(caplog: pytest.LogCaptureFixture) -> None:
    damaged = [{"id": "bad\x1b", "problem": "it has no plan"}]
    assert list(answered(200, {"items": [], "next": None, "unreadable": damaged}).groups()) == []
    assert caplog.messages == [r"left out, since it is damaged: 'bad\x1b': 'it has no plan'"]


def test_lines_and_refusals_are_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "LINE_BYTES_MAX", 100)
    with pytest.raises(Unreachable, match="more than 100 bytes"):
        list(answered(200, {"long": "x" * 200}).export_audit_log())
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 100)
    with pytest.raises(Unreachable, match="more than 100 bytes"):
        list(answered(500, {"code": "x" * 200, "detail": "no"}).export_audit_log())


def streaming(content: bytes) -> Client:
    head = {"content-type": "text/event-stream"}
    return client_of(lambda _: httpx.Response(200, content=content, headers=head))


def test_a_message_of_the_stream_is_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LINE_BYTES_MAX", 100)
    monkeypatch.setattr(following, "PATIENCE_S", 0.0)
    clock = ManualClock()
    news = Follower(streaming(b"data: xxxxxxxxx\n" * 11), RUN_ID, clock).news()
    clock.wait = lambda *_: clock.advance(1.0)  # type: ignore[method-assign, assignment]
    with pytest.raises(Unreachable, match="more than 100 bytes"):
        next(news)


def test_an_answer_that_is_no_stream_is_asked_for_once_and_then_it_polls() -> None:
    asked: list[str] = []

    def answering(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, content=b"event: run\ndata: {}\n\n", headers={"content-type": "text/html"})

    news = Follower(client_of(answering), RUN_ID, ManualClock()).news()
    assert [next(news) for _ in range(9)] == [following.Look()] * 9
    assert asked == ["/api/stream"]


def test_patience_with_a_silent_control_plane_ends_and_each_wait_is_short() -> None:
    clock, waits = ManualClock(), []

    def wait(_: object, seconds: float) -> bool:
        waits.append(seconds)
        clock.advance(seconds)
        return False

    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    clock.wait = wait  # type: ignore[method-assign, assignment]
    for ask in (
        lambda follower: next(follower.news()),
        lambda follower: follower.look(endpoints.run(RUN_ID)),
    ):
        follower = Follower(client_of(silent), RUN_ID, clock)
        follower._hear()
        waits.clear()
        with pytest.raises(Unreachable, match="goes on without us"):
            ask(follower)
        assert max(waits) == following.AGAIN_MAX_S
        assert following.PATIENCE_S < sum(waits) <= following.PATIENCE_S + following.AGAIN_MAX_S


def test_lines_are_those_of_the_answer_however_it_is_cut() -> None:
    text = "eins\r\nzwei ü\n\ndrei\n".encode()
    for size in range(1, len(text) + 1):
        lines = call.Lines()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert [line for piece in pieces for line in lines.of(piece)] == ["eins", "zwei ü", "", "drei"]
        assert lines.rest == b""


def test_a_method_has_the_parameters_of_its_call() -> None:
    assert list(inspect.signature(Client.runs).parameters)[:2] == ["self", "status"]
    assert list(inspect.signature(answered(200, {}).submit).parameters)[:2] == ["kind", "spec"]


def test_what_a_run_logs_is_no_reason_to_ask_for_it_again() -> None:
    over = make_run(status="COMPLETED", finishedAt="2026-01-01T00:00:09.000Z")
    event = {
        **dict.fromkeys(("time", "revision", "traceparent")), "runId": "r", "id": "e", "source": "s",
        "position": "0", "type": "ai.run.log", "attempt": 1, "sequence": 1, "data": {},
        "receivedAt": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    states, asked = [make_run()], []

    def stream() -> Iterator[bytes]:
        yield b"event: at\ndata: {}\nid: 1\n\n"
        for _ in range(50):
            yield b"event: event\ndata: " + msgspec.json.encode(event) + b"\n\n"
        states.append(over)
        yield b"event: run\ndata: {}\n\n"

    def answering(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if request.url.path == "/api/stream":
            return httpx.Response(200, content=stream(), headers={"content-type": "text/event-stream"})
        return httpx.Response(200, content=msgspec.json.encode(states[-1]))

    assert [run.status for run in client_of(answering).watch(RUN_ID)] == ["QUEUED", "COMPLETED"]
    assert len(asked) == 3


async def test_the_other_client_asks_the_same() -> None:
    async with AsyncClient(URL, transport=httpx.MockTransport(paged)) as client:
        assert [run.id[-2:] async for run in client.runs()] == ["00", "01", "10", "11", "20", "21"]
    over = make_run(status="COMPLETED", finishedAt="2026-01-01T00:00:09.000Z")
    seen = iter([make_run(), make_run(), make_run(status="RUNNING"), over])
    answers = httpx.MockTransport(lambda _: httpx.Response(200, content=msgspec.json.encode(next(seen))))
    watching = AsyncClient(URL, transport=answers)
    statuses = [run.status async for run in watching.watch(RUN_ID, every_s=0)]
    assert statuses == ["QUEUED", "RUNNING", "COMPLETED"]
    with pytest.raises(NotFound):
        await AsyncClient(URL, transport=httpx.MockTransport(_missing)).run("x")


def test_a_run_is_watched_until_it_is_over_and_told_of_when_it_changes() -> None:
    over = make_run(status="COMPLETED", finishedAt="2026-01-01T00:00:09.000Z")
    states = iter([make_run(), make_run(), over])
    change = b"event: run\ndata: {}\n\n"
    stream = b"event: at\ndata: {}\nid: 1\n\n" + 3 * change

    def answering(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/stream":
            return httpx.Response(200, content=stream, headers={"content-type": "text/event-stream"})
        return httpx.Response(200, content=msgspec.json.encode(next(states)))

    assert [run.status for run in client_of(answering).watch(RUN_ID)] == ["QUEUED", "COMPLETED"]
    with pytest.raises(NotAllowed):
        next(answered(401, {"code": "bad_key", "detail": "no"}).watch(RUN_ID))


def test_a_log_is_read_to_its_end_in_its_order() -> None:
    def answering(request: httpx.Request) -> httpx.Response:
        asked = dict(request.url.params)
        assert (asked["type"], asked["order"], asked["level"]) == ("ai.run.log", "oldest", "warn")
        event = {
            **dict.fromkeys(("time", "revision", "traceparent")), "runId": "r", "id": "e", "source": "s",
            "position": asked.get("after", "0"), "type": "ai.run.log", "attempt": 1, "sequence": 1,
            "data": {}, "receivedAt": "2026-01-01T00:00:00.000Z",
        }  # fmt: skip
        return httpx.Response(200, json={"items": [event], "next": None if "after" in asked else "1"})

    assert [event.position for event in client_of(answering).logs("r", level="warn")] == ["0", "1"]


def _missing(_: httpx.Request) -> httpx.Response:
    return httpx.Response(404, json={"code": "unknown_run", "detail": "there is no run 'x'"})


def test_both_clients_have_the_same_methods_with_the_same_parameters_and_words() -> None:
    def methods(kind: type) -> dict[str, Any]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: each for name, each in found if not name.startswith("_")}

    ours, others = methods(Client), methods(AsyncClient)
    assert ours.keys() == others.keys()
    for name in ours.keys() - {
        "sent",
        "watch",
        "close",
        "ask",
        "lines",
        "events",
        "logs",
        "export_audit_log",
        "export_race",
        "export_results",
        "pieces",
    }:
        assert inspect.signature(ours[name]) == inspect.signature(others[name]), name
        assert ours[name].__doc__ == others[name].__doc__, name
        assert ours[name].__doc__, name


@pytest.mark.parametrize(
    ("status", "code", "kind", "exit_status"),
    [
        (401, "bad_key", NotAllowed, 1), (403, "forbidden", NotAllowed, 1), (404, "unknown_run", NotFound, 1),
        (409, "not_paused", Conflict, 1), (422, "invalid", Invalid, 2), (400, "bad_json", Invalid, 2),
        (503, "contended", Busy, 1), (429, "rate_limited", Busy, 1), (500, "internal", Refused, 1),
    ],
)  # fmt: skip
def test_a_refusal_is_an_exception_with_code_and_advice(
    status: int, code: str, kind: type[Refused], exit_status: int
) -> None:
    with pytest.raises(kind) as refused:
        answered(status, {"code": code, "detail": "not so", "retry_after_s": 2.5}).cancel("x")
    error = refused.value
    assert (error.status, error.code, error.detail, error.retry_after_s) == (status, code, "not so", 2.5)
    assert str(error) == f"{status}: not so"
    assert (error.advice is None) == (status in (400, 422))
    assert status_of(error) == exit_status


@pytest.mark.parametrize("code", ["illegal_group_action", "round_has_begun", "changed_meanwhile"])
def test_what_a_group_refuses_names_the_command_that_shows_groups(code: str) -> None:
    with pytest.raises(Refused) as refused:
        answered(412 if code == "changed_meanwhile" else 409, {"code": code, "detail": "not so"}).pause_group(
            "g"
        )
    assert "podfleet groups show" in str(refused.value.advice)


def test_of_a_control_plane_that_is_too_old_the_route_is_not_there() -> None:
    for body in ({"detail": "Not Found"}, {"code": "http", "detail": "Not Found"}):
        with pytest.raises(NotFound) as unknown:
            answered(404, body).explain("x")
        assert unknown.value.is_route
    with pytest.raises(NotFound) as unknown:
        answered(404, {"code": "unknown_run", "detail": "there is no run 'x'"}).explain("x")
    assert not unknown.value.is_route


@pytest.mark.parametrize(
    "body", [None, [], "x", {"items": "abc"}, {"items": [1]}, {"items": [{}], "next": None}]
)
def test_what_no_control_plane_answers_is_said_to_be_none(body: object) -> None:
    for status in (200, 500):
        if status == 500 and isinstance(body, dict):
            continue  # any object may be a problem
        with pytest.raises(Unreachable, match="is no control plane"):
            list(answered(status, body).runs())


async def test_an_answer_has_bounds_in_bytes_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1_000)
    with pytest.raises(Unreachable, match="more than 1000 bytes"):
        client_of(lambda _: httpx.Response(200, content=b" " * 1_001)).run("x")

    def never(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"]["read"] == 3.0
        raise httpx.ReadTimeout("too long", request=request)

    with pytest.raises(Unreachable, match=r"no control plane at http://127.0.0.1:8700 \(ReadTimeout\)"):
        Client(URL, timeout_s=3.0, transport=httpx.MockTransport(never)).run("x")
    with pytest.raises(Unreachable, match="ReadTimeout"):
        await AsyncClient(URL, timeout_s=3.0, transport=httpx.MockTransport(never)).run("x")
    long = httpx.MockTransport(lambda _: httpx.Response(200, content=b" " * 1_001))
    with pytest.raises(Unreachable, match="more than 1000 bytes"):
        await AsyncClient(URL, transport=long).run("x")


@pytest.mark.parametrize("url", ["localhost:8700", "http://me:a-password@[::1", "ftp://x"])
def test_an_address_that_is_none_is_named_without_its_password(url: str) -> None:
    with pytest.raises(BadAddress) as bad:
        Client(url).queue()
    assert "CONTROL_PLANE_URL" in str(bad.value)
    assert "a-password" not in str(bad.value)


def test_an_id_cannot_lead_to_another_path() -> None:
    paths: list[bytes] = []

    def answering(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.raw_path)
        return httpx.Response(404, json={})

    client = client_of(answering)
    for ask in (
        lambda: client.run("../keys?x#y"),
        lambda: client.pod("p 1/3f2a"),
        lambda: client.cancel(".."),
        lambda: client.drain("../runs/./r1"),
    ):
        with pytest.raises(NotFound):
            ask()
    assert paths == [
        b"/api/runs/..%2Fkeys%3Fx%23y",
        b"/api/pods/p%201/3f2a",
        b"/api/runs/%2E%2E/cancel",
        b"/api/pods/%2E%2E/runs/%2E/r1/drain",
    ]


@pytest.mark.parametrize("content", [b'{"a": "\xff"}', b'{"a":' * 100_000, b'{"a": "\xed\xa0\x80"}'])
def test_what_cannot_be_decoded_is_no_answer(content: bytes) -> None:
    with pytest.raises(call.Malformed):
        call.decoded(content, dict[str, Any])


@pytest.mark.parametrize(
    ("url", "by_proxy", "checks"),
    [
        (URL, False, True),
        ("http://localhost:1", False, True),
        ("https://127.0.0.1:1", False, True),
        ("http://far.example", True, True),
        ("https://far.example", True, True),
    ],
)
def test_no_proxy_stands_before_this_machine_and_certificates_are_checked(
    url: str, *, by_proxy: bool, checks: bool
) -> None:
    target = transport.Target(url, "a-secret-key")
    options = target.options()
    assert options["trust_env"] is by_proxy
    verify = options["verify"]
    assert (verify if isinstance(verify, bool) else verify.check_hostname) is checks
    assert isinstance(verify, bool) is not (url.startswith("http://") and not by_proxy)
    assert options["headers"] == {"Authorization": "Bearer a-secret-key"}
    assert "a-secret-key" not in repr(target)


def test_where_a_file_lies_is_where_the_control_plane_sends_whoever_asks() -> None:
    client = client_of(lambda _: httpx.Response(302, headers={"location": "http://storage/x"}))
    assert client.artifact_address("r/a1/0").location == "http://storage/x"
    assert answered(204, None).remove_schedule("x") is None


def test_an_export_is_read_line_by_line() -> None:
    entry = {"id": "1", "at": "2026-01-01T00:00:00.000Z", "by": "me", "keyId": None, "address": None,
             "action": "POST /api/runs", "object": None, "made": "/api/runs/x", "status": 201}  # fmt: skip
    lines = b"".join(msgspec.json.encode({**entry, "id": str(number)}) + b"\n" for number in range(3))
    client = client_of(lambda _: httpx.Response(200, content=lines))
    assert [each.id for each in client.export_audit_log()] == ["0", "1", "2"]
    with pytest.raises(NotAllowed):
        list(answered(403, {"code": "forbidden", "detail": "no"}).export_audit_log())


def test_a_command_ends_with_what_the_client_met_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer(cls=Nouns)

    @app.command()
    def one() -> None:
        raise NotFound(404, {"code": "unknown_run", "detail": "there is no run 'x'"})

    @app.command()
    def two() -> None:
        raise Unreachable("nobody")

    told = CliRunner().invoke(app, ["one"])
    assert (told.exit_code, told.stderr) == (
        1, "404: there is no run 'x'\n`podfleet runs list` shows the runs that there are\n",
    )  # fmt: skip
    assert CliRunner().invoke(app, ["two"]).exit_code == connection.EXIT_UNREACHABLE
    assert transport.ANSWER_S == 30
