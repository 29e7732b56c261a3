"""Who is let in, with a key and without one."""

from __future__ import annotations

import base64

import pytest

from control_plane.auth import ALL, Forbidden, Keyless, OneKey, Unauthorized

HOME = {"host": "127.0.0.1:8700"}


def basic(text: str) -> dict[str, str]:
    return {**HOME, "authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize("host", ["localhost", "localhost:8700", "127.0.0.1", "[::1]:8700", "LOCALHOST:1"])
async def test_without_a_key_this_machine_may_do_everything(host: str) -> None:
    assert (await Keyless().identify("POST", {"host": host})).scopes == ALL


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example", "[", "[::2]", "localhost.evil", "@"]
)
async def test_without_a_key_a_name_that_is_not_this_machine_is_refused(host: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify("GET", {"host": host})


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://[", "http://127.0.0.1:1", "", "x"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_a_foreign_page_may_change_nothing(origin: str, method: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify(method, {**HOME, "origin": origin})
    with pytest.raises(Forbidden):
        await OneKey("k").identify(method, {**basic("me:k"), "origin": origin})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_browser_that_calls_the_request_foreign_is_believed(site: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify("POST", {**HOME, "sec-fetch-site": site})


async def test_our_own_page_may_act() -> None:
    headers = {**HOME, "origin": "http://127.0.0.1:8700", "sec-fetch-site": "same-origin"}
    assert (await Keyless().identify("POST", headers)).name == "loopback"


async def test_the_key_opens_as_bearer_and_as_password() -> None:
    assert (await OneKey("k").identify("POST", {"authorization": "Bearer k"})).scopes == ALL
    assert (await OneKey("k").identify("GET", {"authorization": "bearer  k "})).scopes == ALL
    assert (await OneKey("k").identify("POST", basic("anybody:k"))).scopes == ALL
    assert (await OneKey("a:b").identify("POST", basic("anybody:a:b"))).scopes == ALL


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer K",
        "Bearer k1",
        "Token k",
        "k",
        "Basic",
        "Basic !",
        "Basic /w==",
        "Bearer é",
    ],
)
async def test_anything_but_the_key_is_refused(authorization: str) -> None:
    with pytest.raises(Unauthorized):
        await OneKey("k").identify("GET", {**HOME, "authorization": authorization})
