"""Who is let in, with a key and without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from control_plane.auth import Forbidden, Keyed, Keyless
from control_plane.key_ring import KeyRing, Unauthorized
from control_plane.keys import ALL
from control_plane.run_tokens import RunTokens
from control_plane.sign_in import SignIn
from control_plane.store import database
from control_plane.store.keys import Keys
from control_plane.store.runs import Runs
from control_plane.store.sessions import Sessions
from control_plane.throttle import Throttle, Throttled
from events.clock import SystemClock, SystemIds
from events.key_text import written

URL = "mongodb://127.0.0.1:1/unit"
HOME = {"host": "127.0.0.1:8700"}


@pytest.fixture
async def keyed() -> AsyncIterator[Callable[..., Keyed]]:
    """Make authenticators on a database that is never asked."""
    client = database.connect(URL)
    db, clock, ids = database.database(client, URL), SystemClock(), SystemIds()
    ring = KeyRing(Keys(db), clock, ids)
    sign_in = SignIn(Sessions(db), clock, ids)
    parts = (ring, sign_in, RunTokens(Runs(db), clock), Throttle(clock, 3, 60.0))
    yield lambda *options, **more: Keyed(*parts, *options, **more)
    await client.close()


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


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_browser_that_calls_the_request_foreign_is_believed(site: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify("POST", {**HOME, "sec-fetch-site": site})


async def test_our_own_page_may_act() -> None:
    headers = {**HOME, "origin": "http://127.0.0.1:8700", "sec-fetch-site": "same-origin"}
    assert (await Keyless().identify("POST", headers)).name == "loopback"


async def test_the_key_opens_as_bearer(keyed: Callable[..., Keyed]) -> None:
    assert (await keyed("k").identify("POST", {"authorization": "Bearer k"})).scopes == ALL
    assert (await keyed("k").identify("GET", {"authorization": "bearer  k "})).scopes == ALL


async def test_wrong_keys_are_slowed_down_by_address_and_the_right_one_never(
    keyed: Callable[..., Keyed],
) -> None:
    door = keyed("k")
    for _ in range(3):
        with pytest.raises(Unauthorized):
            await door.identify("GET", {"authorization": "Bearer x"}, "10.0.0.1")
    with pytest.raises(Throttled) as caught:
        await door.identify("GET", {"authorization": "Bearer x"}, "10.0.0.1")
    assert 0 < caught.value.retry_after_s <= 60
    with pytest.raises(Unauthorized):
        await door.identify("GET", {"authorization": "Bearer x"}, "10.0.0.2")
    assert (await door.identify("GET", {"authorization": "Bearer k"}, "10.0.0.1")).name == "root"


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
        "Basic azpr",
        "Bearer é",
        f"Bearer {written('admin', 'A' * 43)[:-1]}",
    ],
)
async def test_anything_but_the_key_is_refused(keyed: Callable[..., Keyed], authorization: str) -> None:
    with pytest.raises(Unauthorized):
        await keyed("k").identify("GET", {**HOME, "authorization": authorization})


async def test_a_key_of_the_environment_closes_the_door_unless_it_was_told_to_stay_open(
    keyed: Callable[..., Keyed],
) -> None:
    with pytest.raises(Unauthorized):
        await keyed("k", Keyless()).identify("GET", HOME)
    stays = keyed("k", Keyless(), stays=True)
    assert (await stays.identify("GET", HOME)).is_shared
    with pytest.raises(Unauthorized):
        await stays.identify("GET", {**HOME, "authorization": "Bearer wrong"})
    with pytest.raises(Forbidden):
        await stays.identify("GET", {"host": "evil.example"})


async def test_everybody_is_trusted_only_where_that_was_said(keyed: Callable[..., Keyed]) -> None:
    trusting = keyed(None, Keyless(anywhere=True), stays=True)
    assert (await trusting.identify("GET", {"host": "fleet.example"})).name == "anybody"
    with pytest.raises(Forbidden):
        await trusting.identify("POST", {"host": "fleet.example", "origin": "https://evil.example"})
