"""What a control plane answers, or something in its place, becomes a value or an error of ours."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec
import pytest

from events.delivery import control_plane_client as module
from events.delivery.control_plane_client import (
    RETRY_AFTER_MAX_S,
    SHOWN_CHARS_MAX,
    Answer,
    ControlPlane,
    control_plane_client,
    retry_after_s,
)
from events.queue.claims import Claim
from events.runtime.clock import SystemClock
from events.runtime.errors import Barred, LeaseLost, PodfleetError, Transient
from events.testing import EPOCH, RUN_ID

CLAIM = Claim("runs", RUN_ID, 3, "the-token", "probe", {}, None)
OK = b"HTTP/1.1 200 OK\r\n"
BYTES_MAX = 100_000

Say = Callable[[socket.socket, threading.Event], None]


class Settled(msgspec.Struct, frozen=True):
    """What is asked for here."""

    settled: bool


@contextmanager
def answering(say: Say) -> Iterator[ControlPlane]:
    """Serve one connection with whatever `say` sends; the limit of bytes is that of the module."""
    enough = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                say(connection, enough)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with control_plane_client(f"http://127.0.0.1:{listener.getsockname()[1]}", "a-key") as client:
                yield ControlPlane(client, SystemClock())
        finally:
            enough.set()
            thread.join()


def once(text: bytes) -> Say:
    return lambda connection, _: connection.sendall(text)


def body(text: bytes, *, head: bytes = OK, more: int = 0) -> Say:
    return once(head + b"Content-Length: %d\r\n\r\n" % (len(text) + more) + text)


def drip(connection: socket.socket, enough: threading.Event) -> None:
    connection.sendall(OK + b"Content-Length: 1000000\r\n\r\n")
    while not enough.wait(0.02):
        connection.sendall(b" ")


def endless(connection: socket.socket, enough: threading.Event) -> None:
    connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while not enough.is_set():
        connection.sendall(b"1000\r\n" + bytes(0x1000) + b"\r\n")


def silent(_: socket.socket, enough: threading.Event) -> None:
    enough.wait()


BOMB = gzip.compress(bytes(100 * BYTES_MAX))


@pytest.mark.parametrize(
    ("say", "code"),
    [
        pytest.param(silent, "control_plane_unreachable", id="silent"),
        pytest.param(once(b""), "control_plane_unreachable", id="hangs-up"),
        pytest.param(once(b"SSH-2.0-OpenSSH\r\n"), "control_plane_unreachable", id="no-http"),
        pytest.param(once(OK + b"X: " + b"x" * 200_000), "control_plane_unreachable", id="head-too-long"),
        pytest.param(body(b'{"settled":true}', more=9), "control_plane_unreachable", id="cut-off"),
        pytest.param(
            body(b"no gzip", head=OK + b"Content-Encoding: gzip\r\n"),
            "control_plane_unreachable",
            id="garbled",
        ),
        pytest.param(drip, "control_plane_odd", id="too-late"),
        pytest.param(body(b""), "control_plane_odd", id="empty"),
        pytest.param(body(b"<html>hello</html>"), "control_plane_odd", id="no-json"),
        pytest.param(body(b"\xff\xfe"), "control_plane_odd", id="no-text"),
        pytest.param(body(b'{"settled":"yes"}'), "control_plane_odd", id="other-type"),
        pytest.param(body(b"[]"), "control_plane_odd", id="other-shape"),
        pytest.param(body(b'{"settled":tr'), "control_plane_odd", id="half"),
    ],
)
def test_a_lie_is_no_answer_and_costs_little_time(say: Say, code: str) -> None:
    is_late = say in (silent, drip)
    begun_s = SystemClock().monotonic_s()
    with answering(say) as control_plane, pytest.raises(Transient) as raised:
        control_plane.send("POST", "/api/claims", json={}, timeout_s=0.5 if is_late else 60.0).read(Settled)
    assert raised.value.code == code
    assert SystemClock().monotonic_s() - begun_s < 30


@pytest.mark.parametrize("say", [endless, body(BOMB, head=OK + b"Content-Encoding: gzip\r\n")])
def test_an_answer_that_is_too_long_is_not_read_to_its_end(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_BYTES_MAX", BYTES_MAX)
    begun_s = SystemClock().monotonic_s()
    with answering(say) as control_plane, pytest.raises(Transient, match="endless") as raised:
        control_plane.send("GET", "/api/wakeups", timeout_s=60.0)
    assert raised.value.code == "control_plane_odd"
    assert SystemClock().monotonic_s() - begun_s < 30


def test_a_truth_is_read_and_the_key_was_shown() -> None:
    with answering(body(b'{"settled":true}')) as control_plane:
        assert control_plane.client.headers["Authorization"] == "Bearer a-key"
        assert control_plane.send("POST", "/api/claims", json={}).read(Settled, CLAIM) == Settled(True)


@pytest.mark.parametrize(
    ("status", "claim", "error", "code"),
    [
        (409, CLAIM, LeaseLost, "lease_lost"),
        (409, None, Transient, "control_plane_refuses"),
        (401, CLAIM, Barred, "control_plane_barred"),
        (403, None, Barred, "control_plane_barred"),
        (302, CLAIM, Transient, "control_plane_refuses"),
        (404, CLAIM, Transient, "control_plane_refuses"),
        (422, CLAIM, Transient, "control_plane_refuses"),
        (429, CLAIM, Transient, "control_plane_refuses"),
        (503, None, Transient, "control_plane_refuses"),
    ],
)
def test_each_status_has_its_error(
    status: int, claim: Claim | None, error: type[PodfleetError], code: str
) -> None:
    with pytest.raises(error) as raised:
        Answer(status, b'{"settled":true}').read(Settled, claim)
    assert (type(raised.value), raised.value.code) == (error, code)


def test_the_error_says_what_the_other_side_said_and_for_how_long_to_wait() -> None:
    words = b'{"title":"x","detail":"the store is away"}'
    head = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n"
    with answering(body(words, head=head)) as control_plane:
        error = control_plane.send("GET", "/api/wakeups", params={"class": ["a"]}).error()
    assert error.message == "the control plane answers 503: the store is away"
    assert error.retry_after_s == 7.0
    assert len(Answer(502, b"x" * 10_000).shown()) == SHOWN_CHARS_MAX


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0", 0.0),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30.0),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0.0),
        ("99999999999", RETRY_AFTER_MAX_S),
        ("Thu, 01 Jan 2026 00:00:30 -0000", None),  # no zone, so no moment
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after_is_read_and_bounded(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, EPOCH) == seconds


def test_who_gives_no_answer_is_named_by_its_address_and_no_secret_of_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://ada:secret@127.0.0.1:{port}/fleet?key=secret"
    with control_plane_client(url, "a-key") as client, pytest.raises(Transient) as caught:
        ControlPlane(client, SystemClock()).send("GET", "/api/runs")
    assert f"no answer from http://127.0.0.1:{port}/fleet: ConnectError" in caught.value.message
    assert "secret" not in caught.value.message
