"""Who is let in, with a key and without one."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest

from control_plane.auth import Forbidden, Keyed, Keyless
from control_plane.key_ring import KeyRing, Unauthorized
from control_plane.keys import ALL, written
from control_plane.store import database
from control_plane.store.keys import Keys
from events.clock import SystemClock, SystemIds

URL = "mongodb://127.0.0.1:1/unit"
HOME = {"host": "127.0.0.1:8700"}


@pytest.fixture
async def ring() -> AsyncIterator[KeyRing]:
    """Keys on a database that is never asked."""
    client = database.connect(URL)
    yield KeyRing(Keys(database.database(client, URL)), SystemClock(), SystemIds())
    await client.close()


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
async def test_a_foreign_page_may_change_nothing(ring: KeyRing, origin: str, method: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify(method, {**HOME, "origin": origin})
    with pytest.raises(Forbidden):
        await Keyed(ring, "k").identify(method, {**basic("me:k"), "origin": origin})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_browser_that_calls_the_request_foreign_is_believed(site: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify("POST", {**HOME, "sec-fetch-site": site})


async def test_our_own_page_may_act() -> None:
    headers = {**HOME, "origin": "http://127.0.0.1:8700", "sec-fetch-site": "same-origin"}
    assert (await Keyless().identify("POST", headers)).name == "loopback"


async def test_the_key_opens_as_bearer_and_as_password(ring: KeyRing) -> None:
    assert (await Keyed(ring, "k").identify("POST", {"authorization": "Bearer k"})).scopes == ALL
    assert (await Keyed(ring, "k").identify("GET", {"authorization": "bearer  k "})).scopes == ALL
    assert (await Keyed(ring, "k").identify("POST", basic("anybody:k"))).scopes == ALL
    assert (await Keyed(ring, "a:b").identify("POST", basic("anybody:a:b"))).scopes == ALL


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
        f"Bearer {written('admin', 'A' * 43)[:-1]}",
    ],
)
async def test_anything_but_the_key_is_refused(ring: KeyRing, authorization: str) -> None:
    with pytest.raises(Unauthorized):
        await Keyed(ring, "k").identify("GET", {**HOME, "authorization": authorization})


async def test_a_key_of_the_environment_closes_the_door_unless_it_was_told_to_stay_open(
    ring: KeyRing,
) -> None:
    with pytest.raises(Unauthorized):
        await Keyed(ring, "k", Keyless()).identify("GET", HOME)
    stays = Keyed(ring, "k", Keyless(), stays=True)
    assert (await stays.identify("GET", HOME)).is_shared
    with pytest.raises(Unauthorized):
        await stays.identify("GET", {**HOME, "authorization": "Bearer wrong"})
    with pytest.raises(Forbidden):
        await stays.identify("GET", {"host": "evil.example"})


async def test_everybody_is_trusted_only_where_that_was_said(ring: KeyRing) -> None:
    trusting = Keyed(ring, None, Keyless(anywhere=True), stays=True)
    assert (await trusting.identify("GET", {"host": "fleet.example"})).name == "anybody"
    with pytest.raises(Forbidden):
        await trusting.identify("POST", {"host": "fleet.example", "origin": "https://evil.example"})
