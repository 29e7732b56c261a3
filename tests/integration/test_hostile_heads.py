"""Heads and forms of strangers, each of which would hold up everybody where a parser is not linear."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from control_plane.access.cookies import COOKIE
from events.runtime.clock import SystemClock

pytestmark = pytest.mark.common_fleet(key="a-key-of-the-test")
FORM = "application/x-www-form-urlencoded"
SECRET = "x" * 43
ROOM = 60_000  # bytes of a head, whose limit is 64 KiB

COOKIES = [
    f'{COOKIE}="' + "\\" * ROOM + '"',
    'a="' + "\\" * ROOM + '"',
    f'{COOKIE}="' + "\\073" * (ROOM // 4) + '"',
    f'{COOKIE}="' + '\\"' * (ROOM // 2) + '"',
    f"{COOKIE}={SECRET};" * (ROOM // 60),
    "a=b;" * (ROOM // 4),
    ";" * ROOM,
    "a" + " " * (ROOM // 2) + "=" * (ROOM // 2),
    "\xff" * ROOM,
]
HEADS: list[list[tuple[str, str]]] = [[("Cookie", each)] for each in COOKIES]
HEADS += [
    [("Cookie", f"{COOKIE}={SECRET}"), ("Cookie", f"{COOKIE}={SECRET}")],
    [("Accept", "text/html," * (ROOM // 10))],
    [("Range", "bytes=" + "0-0," * (ROOM // 4))],
    [("Range", "bytes=0-" + "9" * ROOM)],
    [("If-None-Match", "W/'a'," * (ROOM // 7))],
    [("If-Modified-Since", "Mon, 1 Jan 2020 " + "1" * ROOM + ":00:00")],
    [("If-Modified-Since", "(" * ROOM)],
    [("X-Forwarded-For", "1.1.1.1," * (ROOM // 8))],
    [("Forwarded", "for=1;" * (ROOM // 6))],
    [("Authorization", "Bearer " + "_" * ROOM)],
    [("Origin", "http://[" + ":" * ROOM)],
    [("Content-Type", 'text/x; a="' + ";" * ROOM)],
    [(f"x{number}", "") for number in range(6_000)],
]
TRIES = 5  # as often as something else of the machine may come between a request and its answer
FORMS = [
    (FORM, b"&" * 2_000_000, 413),
    (FORM, b"a=&" * 2_000, 413),
    (
        "multipart/form-data; boundary=a",
        b"".join(
            b'--a\r\nContent-Disposition: form-data; name="' + b";" * 2_000 + b'"\r\n\r\nx\r\n'
            for _ in range(900)
        )
        + b"--a--\r\n",
        415,
    ),
]


def asked(url: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b"") -> tuple[int, float]:
    """Return the status of a request that is sent byte for byte, and how many seconds it took."""
    lines = [("Host", "127.0.0.1"), ("Connection", "close"), *headers]
    if body:
        lines.append(("Content-Length", str(len(body))))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    asking = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1")
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=60) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
            connection.sendall(asking + body)
        status = int(connection.makefile("rb").readline().split()[1])
    return status, clock.monotonic_s() - begun_s


def least(
    url: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b"", *, bound_s: float
) -> tuple[int, float]:
    """Return the status, and the least time of some requests: the first that is below the bound is enough."""
    costs_s: list[float] = []
    while len(costs_s) < TRIES and min(costs_s, default=bound_s) >= bound_s:
        status, cost_s = asked(url, path, headers, body)
        costs_s.append(cost_s)
    return status, min(costs_s)


def test_no_head_or_form_of_a_stranger_holds_up_the_others(fleet: Any) -> None:
    """Each costs at most many times an ordinary request; where a parser is quadratic, it is thousands."""
    paths = ("/api/runs", "/static/style.css")
    usual = sorted(asked(fleet.url, path, [])[1] for path in paths * 10)
    bound_s = max(0.5, 50 * usual[len(usual) // 2])
    for headers in HEADS:
        for path in paths:
            status, cost_s = least(fleet.url, path, headers, bound_s=bound_s)
            assert status < 500, (headers[0][0], headers[0][1][:40], path, status)
            assert cost_s < bound_s, (headers[0][0], headers[0][1][:40], path, cost_s, bound_s)
    assert asked(fleet.url, "/api/runs", HEADS[-1])[0] == 431, "as many headers are read by nobody"
    for media, body, wanted in FORMS:
        status, cost_s = least(fleet.url, "/signin", [("Content-Type", media)], body, bound_s=bound_s)
        assert status == wanted, (media, body[:40], status)
        assert cost_s < bound_s, (media, body[:40], cost_s, bound_s)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Host", ["127.0.0.1"]),  # there is one already
        ("Origin", ["http://127.0.0.1", "http://evil.example"]),
        ("origin", ["http://evil.example", "http://127.0.0.1"]),
        ("Authorization", ["Bearer a", "Bearer b"]),
        ("Sec-Fetch-Site", ["same-origin", "cross-site"]),
    ],
)
def test_a_header_that_admits_a_request_is_there_once(fleet: Any, name: str, values: list[str]) -> None:
    assert asked(fleet.url, "/healthz", [(name, value) for value in values])[0] == 400
    assert asked(fleet.url, "/healthz", [(name, values[-1])] if name != "Host" else [])[0] == 200
