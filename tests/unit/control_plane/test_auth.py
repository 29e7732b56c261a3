"""Who is let in, with a key and without one."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from control_plane.access.audit_log import OBJECT_CHARS_MAX, object_of
from control_plane.access.auth import FORM_HEADER, Forbidden, Keyed, Keyless, Principal, require, sender_of
from control_plane.access.key_ring import KeyRing, Unauthorized
from control_plane.access.keys import ALL
from control_plane.access.run_tokens import RunTokens
from control_plane.access.sessions import SignIn
from control_plane.access.socket_owner import GONE, user_of
from control_plane.concurrency.rate_limit import RateLimit, RateLimited
from control_plane.store import database
from control_plane.store.access.keys import Keys
from control_plane.store.access.sessions import Sessions
from control_plane.store.queue.runs import Runs
from events.runtime.clock import SystemClock, SystemIds
from events.text.key_text import written

URL = "mongodb://127.0.0.1:1/unit"
NEAR = "127.0.0.1"
HOME = {"host": "127.0.0.1:8700"}


@pytest.fixture
async def keyed() -> AsyncIterator[Callable[..., Keyed]]:
    """Make authenticators on a database that is never asked."""
    client = database.connect(URL)
    db, clock, ids = database.database(client, URL), SystemClock(), SystemIds()
    ring = KeyRing(Keys(db), clock, ids)
    sign_in = SignIn(Sessions(db), clock, ids)
    parts = (ring, sign_in, RunTokens(Runs(db), clock), RateLimit(clock, 3, 60.0))
    yield lambda *options, **more: Keyed(*parts, *options, **more)
    await client.close()


@pytest.mark.parametrize("host", ["localhost", "localhost:8700", "127.0.0.1", "[::1]:8700", "LOCALHOST:1"])
async def test_without_a_key_this_machine_may_do_everything(host: str) -> None:
    assert (await Keyless().identify("POST", {"host": host}, NEAR)).scopes == ALL


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "[",
        "[::2]",
        "localhost.evil",
        "@",
        "x@localhost",
        "localhost/x",
        "::1",
    ],
)
async def test_without_a_key_a_name_that_is_not_this_machine_is_refused(host: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify("GET", {"host": host}, NEAR)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://[", "http://127.0.0.1:1", "", "x"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_a_foreign_page_may_change_nothing(origin: str, method: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify(method, {**HOME, "origin": origin}, NEAR)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_browser_that_calls_the_request_foreign_is_believed(site: str) -> None:
    with pytest.raises(Forbidden):
        await Keyless().identify("POST", {**HOME, "sec-fetch-site": site}, NEAR)


async def test_our_own_page_may_act() -> None:
    headers = {**HOME, "origin": "http://127.0.0.1:8700", "sec-fetch-site": "same-origin"}
    assert (await Keyless().identify("POST", headers, NEAR)).name == "loopback"


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
    with pytest.raises(RateLimited) as caught:
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


async def test_without_a_key_only_a_connection_of_this_machine_is_served() -> None:
    for near in (NEAR, "::1"):
        assert (await Keyless().identify("GET", HOME, near)).is_shared
    for far in ("", "10.0.0.1", "8.8.8.8", "::2", "localhost.evil", "]["):
        with pytest.raises(Forbidden):
            await Keyless().identify("GET", HOME, far)


async def test_without_a_key_only_programs_of_the_same_user_are_served() -> None:
    for user in (None, 0, os.geteuid()):
        assert (await Keyless().identify("GET", HOME, NEAR, lambda user=user: user)).is_shared
    with pytest.raises(Forbidden, match="of the user who started it"):
        await Keyless().identify("GET", HOME, NEAR, lambda: os.geteuid() + 1)


async def test_without_a_key_nobody_is_served_whose_connection_is_gone() -> None:
    with pytest.raises(Forbidden, match="of the user who started it"):
        await Keyless().identify("GET", HOME, NEAR, lambda: GONE)


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_kernel_tells_whose_connection_it_is(family: socket.AddressFamily, host: str) -> None:
    with socket.create_server((host, 0), family=family) as listener:
        with socket.create_connection(listener.getsockname()[:2]) as client:
            ours, server = client.getsockname()[:2], listener.getsockname()[:2]
            if os.geteuid() != 0:
                assert user_of(ours, server) == os.geteuid()
                return
            os.fchown(client.fileno(), 4242, -1)
            assert user_of(ours, server) == 4242
            os.fchown(client.fileno(), os.geteuid(), -1)
            _reset(client)
        with socket.create_connection(listener.getsockname()[:2]) as client:
            closed = client.getsockname()[:2]
        for gone in (closed, ours, (host, 1), ("host", 1), ("[", 1)):
            assert user_of(gone, server) == GONE
    assert user_of(None, server) is None
    assert user_of(ours, None) is None
    assert user_of(ours, ("/a/socket", None)) is None


@pytest.fixture
def open_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stored key may do everything, as at the first start."""

    async def none(_: KeyRing) -> bool:
        return False

    monkeypatch.setattr(KeyRing, "has_admin", none)


@pytest.mark.usefixtures("open_ring")
@pytest.mark.parametrize(
    "header",
    [
        "x-forwarded-for", "X-Forwarded-Proto", "X-Forwarded-Whatever", "Forwarded", "Via", "x-real-ip",
        "CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "X-Original-URL", "X-Rewrite-URL", "CDN-Loop",
        "Fly-Client-IP", "X-Envoy-Original-Path", "X-Azure-ClientIP", "X-Host", "Proxy-Connection",
        "X_Forwarded_For", "X-Client-Addr", "DO-Connecting-IP", "Incap-Client-IP", "X-Appengine-User-IP",
        "X-Vercel-Forwarded-For", "Proxy-Authorization", "X-Varnish", "Surrogate-Capability", "Remote_Addr",
        "X-Cluster-Client-Ip", "X-ProxyUser-Ip", "WL-Proxy-Client-IP", "X-Nginx-Proxy", "X-Remote-IP",
        "Tailscale-User-Login", "X-ARR-LOG-ID",
    ],
)  # fmt: skip
async def test_a_header_of_a_proxy_ends_keyless_work_for_good(
    keyed: Callable[..., Keyed], header: str
) -> None:
    door = keyed(None, Keyless())
    assert (await door.identify("GET", HOME, NEAR)).name == "loopback"
    for headers in ({**HOME, header: "127.0.0.1"}, HOME):
        with pytest.raises(Unauthorized):
            await door.identify("GET", headers, NEAR)


@pytest.mark.usefixtures("open_ring")
async def test_what_programs_send_for_themselves_ends_nothing(keyed: Callable[..., Keyed]) -> None:
    door = keyed(None, Keyless())
    names = (
        *(
            "accept",
            "accept-encoding",
            "cache-control",
            "connection",
            "content-length",
            "content-type",
            "cookie",
        ),
        *("dnt", "expect", "if-none-match", "last-event-id", "origin", "priority", "range", "referer", "te"),
        *("sec-fetch-mode", "sec-ch-ua-platform", "traceparent", "upgrade-insecure-requests", "user-agent"),
        *("x-request-id", "x-requested-with"),
    )
    headers = {**dict.fromkeys(names, "x"), **HOME, "origin": "http://127.0.0.1:8700"}
    await door.identify("GET", headers, NEAR)
    assert await door.is_open()


@pytest.mark.usefixtures("open_ring")
async def test_a_request_as_proxies_send_it_ends_keyless_work_for_good(keyed: Callable[..., Keyed]) -> None:
    door = keyed(None, Keyless())
    assert (await door.identify("GET", HOME, NEAR, "1.1")).name == "loopback"
    for version in ("1.0", "1.1"):
        with pytest.raises(Unauthorized):
            await door.identify("GET", HOME, NEAR, version)


@pytest.mark.usefixtures("open_ring")
async def test_a_header_of_a_proxy_beside_a_key_counts_too(keyed: Callable[..., Keyed]) -> None:
    door = keyed("k", Keyless())
    assert (await door.identify("GET", HOME, NEAR)).name == "loopback", "its own key does not end it"
    await door.identify("GET", {**HOME, "via": "1.1 x", "authorization": "Bearer k"}, NEAR)
    with pytest.raises(Unauthorized):
        await door.identify("GET", HOME, NEAR)


async def test_who_was_not_told_to_be_keyless_asks_everybody(keyed: Callable[..., Keyed]) -> None:
    with pytest.raises(Unauthorized):
        await keyed(None).identify("GET", HOME, NEAR)


def asked(principal: Principal, method: str, headers: dict[str, str], body: bytes = b"") -> Request:
    """Return a request that `principal` makes."""

    async def identify(*_: object) -> Principal:
        return principal

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    state = SimpleNamespace(authenticator=SimpleNamespace(identify=identify))
    scope = {
        "type": "http", "method": method, "path": "/", "query_string": b"", "path_params": {},
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "app": SimpleNamespace(state=state), "client": (NEAR, 1), "server": (NEAR, 8700),
    }  # fmt: skip
    return Request(scope, receive)


async def test_a_key_does_what_its_scopes_say_and_no_more() -> None:
    viewer = Principal("vera", frozenset({"read"}), "id")
    assert await require("read")(asked(viewer, "GET", {})) is viewer
    with pytest.raises(Forbidden, match="lacks the scope submit"):
        await require("submit")(asked(viewer, "POST", {}))


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("headers", "body", "is_ours"),
    [
        ({FORM_HEADER: "token"}, b"", True),
        ({"content-type": FORM}, b"form_token=token", True),
        ({"content-type": f"{FORM.title()} ; charset=utf-8"}, b"form_token=token", True),
        ({}, b"", False),
        ({FORM_HEADER: "other"}, b"", False),
        ({FORM_HEADER: ""}, b"", False),
        ({FORM_HEADER: "other", "content-type": FORM}, b"form_token=token", False),
        ({"content-type": FORM}, b"form_token=", False),
        ({"content-type": FORM}, b"other=token", False),
        ({"content-type": "application/json"}, b'{"form_token": "token"}', False),
    ],
)
async def test_a_browser_changes_something_by_a_form_of_its_session(
    headers: dict[str, str], body: bytes, *, is_ours: bool
) -> None:
    browser = Principal("olga", ALL, "id", form_token="token")
    for method in ("GET", "HEAD"):
        await require("admin")(asked(browser, method, headers, body))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        order = require("admin")(asked(browser, method, headers, body))
        if is_ours:
            await order
        else:
            with pytest.raises(Forbidden, match="another session"):
                await order


def test_a_sender_is_a_key_at_an_address_and_nobody_where_no_key_is_needed() -> None:
    request = asked(Principal("n", ALL), "POST", {})
    assert sender_of(request, Principal("n", ALL, "id")) == "id@127.0.0.1"
    assert sender_of(request, Principal("r1/a1", ALL)) == "r1/a1@127.0.0.1"
    assert sender_of(request, Principal("loopback", ALL, is_shared=True)) is None


def test_the_audit_log_names_an_object_in_few_letters() -> None:
    assert object_of({"run_id": "r1"}) == "run/r1"
    assert object_of({"file": "x"}) is None
    assert len(object_of({"run_id": "x" * 60_000}) or "") == OBJECT_CHARS_MAX
