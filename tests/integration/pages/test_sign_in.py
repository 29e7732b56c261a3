"""Sign in with a key, in a real browser and over plain HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from control_plane.access.cookies import COOKIE
from control_plane.server.web.pages.sign_in import own_path
from events.runtime.clock import SystemIds
from podfleet.embedded.mongod import Mongod
from podfleet.embedded.ports import choose
from tests.integration.conftest import end, fleet_on, start_control_plane
from tests.integration.pages.conftest import patient
from tests.integration.programs.oidc_issuer import OidcIssuer
from tests.servers import S3Server, own_database

pytestmark = pytest.mark.xdist_group("pages")

ROOT_KEY = "a-key-of-the-test"


@pytest.fixture(scope="module")
def keyed_url(mongod: Mongod, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a fleet with a key, for all tests here, each of which has a run of its own."""
    home = tmp_path_factory.mktemp("keyed")
    with own_database(mongod) as url, fleet_on(url, s3, home, ROOT_KEY) as started:
        yield started.url


@pytest.fixture
def root(keyed_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=keyed_url, headers={"authorization": f"Bearer {ROOT_KEY}"}) as client:
        yield client


def key_of(root: httpx.Client, kind: str) -> dict[str, Any]:
    return dict(root.post("/api/keys", json={"kind": kind, "name": f"{kind} <b>Vera</b>"}).json())


def signed_in(url: str, key: str) -> httpx.Client:
    """Return a client that holds the session's cookie, as a browser on loopback does."""
    answer = httpx.post(f"{url}/signin", data={"key": key, "to": "/runs"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs"), answer.text
    cookie = answer.headers["set-cookie"]
    for part in (f"{COOKIE}=", "HttpOnly", "Secure", "SameSite=lax", "Path=/"):
        assert part in cookie
    secret = cookie.partition("=")[2].partition(";")[0]
    return httpx.Client(base_url=url, headers={"cookie": f"{COOKIE}={secret}"})


def form_token(client: httpx.Client, path: str) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', client.get(path).text)
    assert found, f"no form on {path} has a token"
    return found[1]


def test_a_person_signs_in_steers_and_signs_out_in_a_browser(
    root: httpx.Client, keyed_url: str, browser: Browser
) -> None:
    key = key_of(root, "operator")
    run_id = root.post("/api/runs", json={"kind": "probe"}).json()["id"]
    with patient(browser.new_context(base_url=keyed_url)) as context:
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.goto(f"/runs/{run_id}?tab=1")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Key").fill(key["key"][:-1])
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("not valid")
        page.get_by_label("Key").fill(key["key"])
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(f"{keyed_url}/runs/{run_id}?tab=1")
        expect(page.get_by_text("operator <b>Vera</b>").first).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("CANCELED").first).to_be_visible()
        assert root.get(f"/api/runs/{run_id}").json()["cancelRequested"]["by"] == f"user:{key['name']}"
        page.goto("/runs")
        expect(page.locator(f"#r-{run_id}").get_by_role("cell", name="CANCELED")).to_be_visible()
        later = root.post("/api/runs", json={"kind": "probe"}).json()["id"]
        expect(
            page.locator(f"#r-{later}").get_by_role("cell", name="QUEUED")
        ).to_be_visible()  # the live stream has the session
        (complaint,) = said  # the browser itself calls an answer of 401 an error
        assert "401" in complaint
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.goto("/runs")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_person_signs_in_by_the_issuer_in_a_browser(
    mongod: Mongod, s3: S3Server, tmp_path: Path, browser: Browser
) -> None:
    port = choose(SystemIds())
    with OidcIssuer() as issuer, own_database(mongod) as database:
        settings = {**issuer.settings, "PODFLEET_PUBLIC_URL": f"http://127.0.0.1:{port}"}
        program, url = start_control_plane(
            tmp_path, database, s3, port=port, PODFLEET_API_KEY=ROOT_KEY, **settings
        )

        def lead(request: BaseHTTPRequestHandler) -> None:
            content = f'<a href="{url}/signin/oidc">prize</a>'.encode()
            request.send_response(200)
            request.send_header("content-type", "text/html")
            request.send_header("content-length", str(len(content)))
            request.end_headers()
            request.wfile.write(content)

        issuer.odd["/led"] = lead
        try:
            with patient(browser.new_context(base_url=url)) as context:
                page = context.new_page()
                page.goto(f"{issuer.url.replace('127.0.0.1', 'localhost')}/led")
                page.get_by_role("link", name="prize").click()
                expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
                assert not context.cookies(), "another page begins no sign-in"
                page.goto("/runs?status=QUEUED")
                page.get_by_role("link", name="Sign in with 127.0.0.1").click()
                expect(page).to_have_url(f"{url}/runs?status=QUEUED")
                expect(page.get_by_text("user:ada@example.com").first).to_be_visible()
                assert [each["name"] for each in context.cookies()] == [COOKIE]
                page.get_by_role("button", name="Sign out").click()
                expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
                assert not context.cookies()
        finally:
            end([program])


def test_a_session_does_what_its_key_may_and_only_from_a_form_of_its_own(
    root: httpx.Client, keyed_url: str, until: Any
) -> None:
    run_id = root.post("/api/runs", json={"kind": "probe"}).json()["id"]
    viewer, operator = key_of(root, "viewer"), key_of(root, "operator")
    cancel = f"/runs/{run_id}/cancel"
    with signed_in(keyed_url, viewer["key"]) as client:
        answer = client.post(cancel, data={"form_token": "x"})
        assert (answer.status_code, "scope submit" in answer.text) == (403, True)
        for page in (f"/runs/{run_id}", "/runs", "/hypotheses", "/schedules", "/reviews", "/pods"):
            shown = client.get(page).text
            offered = set(re.findall(r'<form[^>]* method="post"[^>]*action="([^"]+)"', shown))
            assert offered == {"/signout"}, "a viewer is offered nothing that is refused"
    with signed_in(keyed_url, operator["key"]) as client:
        assert "Drain" not in client.get("/pods").text
        foreign = form_token(client, f"/runs/{run_id}")
    with signed_in(keyed_url, operator["key"]) as client:
        token = form_token(client, f"/runs/{run_id}")
        for bad in ({}, {"form_token": ""}, {"form_token": foreign}):
            assert client.post(cancel, data=bad).status_code == 403
        assert client.post(f"/api{cancel}").status_code == 403
        away = {"origin": "https://evil.example"}
        assert client.post(cancel, data={"form_token": token}, headers=away).status_code == 403
        assert root.get(f"/api/runs/{run_id}").json()["status"] == "QUEUED"
        assert client.post(f"/api{cancel}", headers={"Podfleet-Form-Token": token}).status_code == 200
        root.post(f"/api/keys/{operator['id']}/revoke")
        assert client.get("/api/runs").status_code == 401
        assert (
            client.get("/runs", headers={"accept": "text/html"}).headers["location"] == "/signin?to=%2Fruns"
        )
    refused = httpx.post(f"{keyed_url}/signin", data={"key": key_of(root, "pod")["key"]})
    assert (refused.status_code, "opens no page" in refused.text) == (401, True)
    assert "set-cookie" not in refused.headers
    with signed_in(keyed_url, ROOT_KEY) as client:
        assert client.get("/api/keys").status_code == 200
        assert client.post("/signout").status_code == 303
        assert client.get("/api/runs").status_code == 401


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/runs?status=FAILED", "/runs?status=FAILED"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/runs\\..", "/"),
        ("/\t/evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_nobody_is_sent_to_another_site(place: str, path: str) -> None:
    assert own_path(place) == path


def test_the_cookie_of_another_fleet_on_this_machine_shuts_nobody_out(fleet: Any) -> None:
    foreign = {"cookie": f"{COOKIE}=of-another-port"}
    assert fleet.client.get("/runs", headers=foreign).status_code == 200
