"""The heads of requests: which cookie is read, and that no head takes long, whatever is in it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fastapi import FastAPI, Form, Request
from starlette.testclient import TestClient

from control_plane.access.cookies import COOKIE, COOKIE_BYTES_MAX, secret_in
from control_plane.server.http.head_limits import HEADERS_MAX, VALUE_BYTES_MAX, HeadLimits

ROOM = COOKIE_BYTES_MAX - 100
# How much longer than an ordinary request a hostile one may take: 16 s were 5,000 times as long.
FACTOR = 20
SLACK_S = 0.05


@pytest.fixture(scope="module")
def client() -> TestClient:
    """An application that FastAPI gives every cookie, and which reads a form."""
    app = FastAPI()
    app.add_middleware(HeadLimits)

    @app.get("/cookies")
    async def cookies(request: Request) -> dict[str, str]:
        return dict(request.cookies)

    @app.post("/form")
    async def form(request: Request, to: str = Form("")) -> dict[str, Any]:
        return {"to": to}

    return TestClient(app)


@pytest.mark.parametrize(
    ("cookies", "secret"),
    [
        (f"{COOKIE}=abc_-9", "abc_-9"),
        (f"a=b; {COOKIE}=abc", "abc"),
        (f"a=b;{COOKIE} =\tabc ;c", "abc"),
        (f"{COOKIE}=\xe9; {COOKIE}=good", "good"),
        (f"{COOKIE}=first; {COOKIE}=second", "first"),
        ("", None),
        (";;;=;", None),
        (f"x{COOKIE}=abc", None),
        (COOKIE, None),
        (f"{COOKIE}=", None),
        (f'{COOKIE}="abc"', None),
        (f"{COOKIE}=a\\141", None),
        (f"{COOKIE}=a=b", None),
        (f"{COOKIE}={'a' * 129}", None),
        (f"{COOKIE}=٣", None),
        (f"{COOKIE}=abc; {'x' * COOKIE_BYTES_MAX}", None),
    ],
)
def test_only_our_cookie_in_our_alphabet_is_read(cookies: str, secret: str | None) -> None:
    assert secret_in(cookies) == secret


HOSTILE = {
    "backslashes": f'{COOKIE}="' + "\\" * ROOM + '"',
    "somebody else's backslashes": 'a="' + "\\" * ROOM + '"',
    "octal escapes": f'{COOKIE}="' + "\\101" * (ROOM // 4) + '"',
    "quotes": f"{COOKIE}=" + '"' * ROOM,
    "escaped quotes": f'{COOKIE}="' + '\\"' * (ROOM // 2) + '"',
    "pairs": "a=b;" * (ROOM // 4),
    "our own again and again": f"{COOKIE}=!;" * (ROOM // 20),
    "separators": ";" * ROOM,
    "blanks": f"{COOKIE}=" + " \t" * (ROOM // 2) + "!",
    "signs of equality": "=" * ROOM,
    "letters of no alphabet": f"{COOKIE}=" + "\xff" * (ROOM // 2),
}


def took_s(client: TestClient, cookie: str) -> float:
    """Return the processor time of a request, the least of three: other programs take none of it."""
    times_s = []
    for _ in range(3):
        begun_s = time.process_time()
        answer = client.get("/cookies", headers={"cookie": cookie.encode("latin-1")})
        times_s.append(time.process_time() - begun_s)
        assert (answer.status_code, answer.json()) == (200, {})
    return min(times_s)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_cookie_takes_no_longer_than_an_ordinary_one(client: TestClient, name: str) -> None:
    took_s(client, "a=b")  # what the first request imports is not measured
    ordinary_s = took_s(client, "a=b")
    assert took_s(client, HOSTILE[name]) < FACTOR * ordinary_s + SLACK_S


def test_the_application_sees_our_cookie_and_no_other(client: TestClient) -> None:
    answer = client.get("/cookies", headers=[("cookie", "a=b"), ("cookie", f'x="\\101"; {COOKIE}=s')])
    assert answer.json() == {COOKIE: "s"}


@pytest.mark.parametrize(
    "headers",
    [
        {"accept": "a" * (VALUE_BYTES_MAX + 1)},
        {"content-type": 'multipart/form-data; a="' + ";" * 60_000},
        {"content-type": "a" * 257},
        {"range": "bytes=" + "0-1," * 1_000},
        {"if-range": "a" * 257},
        {"if-modified-since": "(" * 65},
        {f"x-{number}": "" for number in range(HEADERS_MAX + 1)},
        {"cookie": "a" * (COOKIE_BYTES_MAX + 1)},
    ],
)
def test_a_head_that_is_too_long_is_refused_in_words(client: TestClient, headers: dict[str, str]) -> None:
    begun_s = time.process_time()
    answer = client.post("/form", content=b"to=x", headers=headers)
    assert time.process_time() - begun_s < 1.0
    assert (answer.status_code, answer.json()["code"]) == (431, "head_too_long")
    assert "the limit is" in answer.json()["detail"]
