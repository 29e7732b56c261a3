"""Users sign in by an issuer, and their runs get their own access token: an issuer that is real, and lies."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
from joserfc import jwk, jws
from pymongo import MongoClient

from control_plane.access.cookies import COOKIE, LOGIN_COOKIE
from events.delivery.control_plane_client import bearer
from events.text.secret_names import USER_TOKEN
from podfleet.embedded.mongod import Mongod
from tests.integration.conftest import Fleet, end, local_client, start_control_plane
from tests.integration.programs.model_server import Asked, ModelServer, Reply
from tests.integration.programs.oidc_issuer import CLIENT, Claims, OidcIssuer
from tests.integration.test_benchmark import MODEL, start_pod
from tests.integration.test_pods_without_database import asked
from tests.servers import S3Server, own_database

ROOT_KEY: Final = "the-key-of-the-test"
Until = Callable[..., None]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("users")


@pytest.fixture(scope="module")
def common(mongod: Mongod, s3: S3Server, home: Path) -> Iterator[tuple[OidcIssuer, Fleet, str]]:
    """An issuer, a control plane that knows it, and the address of a second one beside that."""
    with OidcIssuer() as issuer, own_database(mongod) as url:
        settings = {"PODFLEET_API_KEY": ROOT_KEY, **issuer.settings}
        one, first = start_control_plane(home, url, s3, **settings)
        two, second = start_control_plane(home, url, s3, **settings)
        with local_client(first, headers=bearer(ROOT_KEY), timeout=30) as client:
            fleet = Fleet(first, url, home, home / "control.log", client)
            yield issuer, fleet, second
            end([one, two, *fleet.workers])


@pytest.fixture
def issuer(common: tuple[OidcIssuer, Fleet, str]) -> Iterator[OidcIssuer]:
    found = common[0]
    before = dict(vars(found))
    yield found
    names = ("user", "life_s", "refreshing_s", "lie", "sign", "published")
    vars(found).update({name: before[name] for name in names})
    found.odd.clear()
    found.ended.clear()


@pytest.fixture
def fleet(common: tuple[OidcIssuer, Fleet, str]) -> Fleet:
    return common[1]


@pytest.fixture
def second(common: tuple[OidcIssuer, Fleet, str]) -> str:
    return common[2]


def cookie_in(answer: httpx.Response, name: str) -> str:
    found = [re.match(rf'{name}="?([^";]+)', each.strip()) for each in answer.headers.get_list("set-cookie")]
    return next((each[1] for each in found if each), "")


def begun(url: str, to: str = "/runs") -> tuple[str, str]:
    """Begin a sign-in; return where the browser is sent, and its cookie."""
    answer = httpx.get(f"{url}/signin/oidc", params={"to": to})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"], cookie_in(answer, LOGIN_COOKIE)


def authorized(place: str) -> dict[str, str]:
    """Go where the issuer is; return what it sends the browser back with."""
    back = urlsplit(httpx.get(place).headers["location"])
    assert f"{back.scheme}://{back.netloc}{back.path}" == "http://localhost:8700/signin/oidc/done"
    return {name: each[0] for name, each in parse_qs(back.query).items()}


def done(url: str, back: dict[str, str], cookie: str) -> httpx.Response:
    return httpx.get(
        f"{url}/signin/oidc/done", params=back, headers={"cookie": f"{LOGIN_COOKIE}={cookie}"}, timeout=30
    )


@contextmanager
def signed_in(url: str) -> Iterator[httpx.Client]:
    place, cookie = begun(url)
    back = authorized(place)
    answer = done(url, back, cookie)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/runs"), answer.text
    session = cookie_in(answer, COOKIE)
    with httpx.Client(base_url=url, headers={"cookie": f"{COOKIE}={session}"}, timeout=30) as client:
        form = re.search(r'name="form_token" value="([^"]+)"', client.get("/runs/new?kind=probe").text)
        client.headers["Podfleet-Form-Token"] = form[1] if form else ""
        yield client


def refused(url: str) -> str:
    """Sign in, where that has to fail; return what the page says."""
    place, cookie = begun(url)
    answer = done(url, authorized(place), cookie)
    assert answer.status_code == 401, answer.text
    assert cookie_in(answer, COOKIE) == ""
    found = re.search(r'role="alert">([^<]+)<', answer.text)
    assert found
    return found[1]


def submitted(client: httpx.Client, seconds: float = 0.0, **body: Any) -> httpx.Response:
    spec = {"seconds": seconds}
    return client.post("/api/runs", json={"kind": "probe", "spec": spec, "secrets": [USER_TOKEN], **body})


def claimed(fleet: Fleet) -> dict[str, Any]:
    answer = fleet.client.post("/api/claims", json=asked(wait_s=10))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] | None = answer.json()["claim"]
    assert found is not None, fleet.client.get("/api/runs").text
    return found


def handed(url: str, claim: dict[str, Any]) -> httpx.Response:
    path = f"{url}/api/runs/{claim['runId']}/secrets"
    return httpx.post(path, headers=bearer(claim["runToken"]), timeout=60)


def test_a_user_signs_in_has_a_role_and_signs_out(issuer: OidcIssuer, fleet: Fleet) -> None:
    with signed_in(fleet.url) as ada:
        assert ada.get("/runs").status_code == 200
        assert ada.put("/api/secrets/A", json={"value": "v"}).json()["code"] == "missing_scope"
        held = list(issuer.families)[-1]
        with MongoClient(fleet.database_url) as client:
            stored = str(client.get_default_database().sessions.find().to_list())
        assert not any(each in stored for each in (*issuer.access, held))
        assert ada.post("/signout").status_code == 303
        assert ada.get("/api/runs").status_code == 401
        assert {held, issuer.access[-1]} <= set(issuer.revoked)
    log = fleet.client.get("/api/audit").json()["items"]
    names = [(each["action"], each["by"].rpartition(":")[0]) for each in log]
    assert ("GET /signin/oidc/done", "user:ada@example.com") in names
    assert ("POST /signout", "user:ada@example.com") in names


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"sub": "stranger"}, "has no role here"),
        ({"sub": "8", "email": "ada@example.com"}, "has no role here"),  # not verified
        ({"sub": "8", "groups": "none"}, "has no role here"),
        ({"sub": ""}, "it names nobody"),
    ],
)
def test_who_has_no_role_is_not_let_in(issuer: OidcIssuer, fleet: Fleet, claims: Claims, words: str) -> None:
    issuer.user = claims
    assert words in refused(fleet.url)


def test_a_group_gives_a_role(issuer: OidcIssuer, fleet: Fleet) -> None:
    issuer.user = {"sub": "9", "groups": ["x", "admins"]}
    with signed_in(fleet.url) as admin:
        assert admin.get("/api/keys").status_code == 200


LIES: Final[dict[str, tuple[Claims, str]]] = {
    "another nonce": ({"nonce": "of another"}, "of another sign-in"),
    "no nonce": ({"nonce": None}, "of another sign-in"),
    "another client": ({"aud": "somebody"}, "for another client"),
    "given to another": ({"aud": [CLIENT, "b"], "azp": "b"}, "given to another client"),
    "two clients": ({"aud": [CLIENT, "b"]}, "given to another client"),
    "another issuer": ({"iss": "https://other.example"}, "of another issuer"),
    "expired": ({"exp": 1_000}, "has expired"),
    "no end": ({"exp": True}, "has no exp"),
    "a long time": ({"exp": 10**400}, "its exp is no moment"),
    "long ago": ({"iat": -(10**400)}, "its iat is no moment"),
    "of yesterday": ({"iat": 1_000}, "not issued now"),
    "of tomorrow": ({"iat": 9_000_000_000}, "not issued now"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_id_token_that_is_not_for_us_signs_nobody_in(issuer: OidcIssuer, fleet: Fleet, lie: str) -> None:
    claims, words = LIES[lie]
    issuer.lie = lambda said: said.update(claims)
    assert words in refused(fleet.url)


def unsigned(claims: Claims) -> str:
    parts = ({"alg": "none"}, claims)
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
        + "."
    )


@pytest.mark.parametrize("how", ["none", "HS256", "RS512", "another's key", "its own key", "cut"])
def test_an_id_token_that_the_issuer_has_not_signed_signs_nobody_in(
    issuer: OidcIssuer, fleet: Fleet, how: str
) -> None:
    public = issuer.key.as_pem(private=False)
    shared = jwk.OctKey.import_key(base64.urlsafe_b64encode(public).decode())
    own = issuer.foreign.as_dict(private=False)
    free = jwk.RSAKey.import_key(issuer.key.as_pem(private=True))

    def signed_by(key: Any, **header: Any) -> Callable[[Claims], str]:
        head = {"alg": "RS256", "kid": "first", **header}
        return lambda claims: jws.serialize_compact(head, json.dumps(claims), key, algorithms=[head["alg"]])

    issuer.sign = {
        "none": unsigned,
        "HS256": signed_by(shared, alg="HS256"),
        "RS512": signed_by(free, alg="RS512"),
        "another's key": signed_by(issuer.foreign),
        "its own key": signed_by(issuer.foreign, jwk=own),
        "cut": lambda claims: issuer.signed(claims)[:-4],
    }[how]
    assert "ID token is not accepted" in refused(fleet.url)


def test_a_new_key_is_asked_for_once_and_an_unknown_one_signs_nobody_in(
    issuer: OidcIssuer, second: str
) -> None:
    with signed_in(second):
        before = issuer.key_requests
    other = jwk.ECKey.generate_key("P-256", {"kid": "second", "use": "sig"})
    head = {"alg": "ES256", "kid": "second"}
    issuer.sign = lambda claims: jws.serialize_compact(head, json.dumps(claims), other)
    for _ in range(4):
        assert "no key of the issuer fits" in refused(second)
    assert issuer.key_requests - before <= 1


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        for _ in range(400):
            request.wfile.write(b" " * 65_536)
    except OSError:
        return
    raise AssertionError("all of it was read")


def leading(request: BaseHTTPRequestHandler) -> None:
    request.send_response(307)
    request.send_header("location", "/elsewhere")
    request.end_headers()


@pytest.mark.parametrize(("odd", "words"), [(endless, "more than"), (leading, "answers 307")])
def test_an_answer_without_end_or_that_leads_elsewhere_is_not_followed(
    issuer: OidcIssuer, fleet: Fleet, odd: Callable[[BaseHTTPRequestHandler], None], words: str
) -> None:
    issuer.odd["/token"] = odd
    assert words in refused(fleet.url)


def test_an_answer_counts_once_and_in_the_browser_that_has_asked(issuer: OidcIssuer, fleet: Fleet) -> None:
    place, cookie = begun(fleet.url)
    other, others_cookie = begun(fleet.url)
    back = authorized(place)
    assert done(fleet.url, back, others_cookie).status_code == 401
    assert done(fleet.url, back, "").status_code == 401
    assert done(fleet.url, {**back, "iss": "https://other.example"}, cookie).status_code == 401
    assert done(fleet.url, back, cookie).status_code == 401  # its state was used by what came before
    assert back["code"] in issuer.codes
    assert done(fleet.url, authorized(other), others_cookie).status_code == 303
    again, cookie = begun(fleet.url)
    stolen = {**authorized(again), "code": back["code"]}  # a code of another sign-in: PKCE
    assert done(fleet.url, stolen, cookie).status_code == 401


@pytest.mark.parametrize("to", ["https://other.example/", "//other.example", "/\\other.example", "x"])
def test_a_sign_in_leads_to_this_site_alone(issuer: OidcIssuer, fleet: Fleet, to: str) -> None:
    place, cookie = begun(fleet.url, to)
    assert done(fleet.url, authorized(place), cookie).headers["location"] == "/"


@pytest.mark.parametrize("letter", ["a", "\U0001f600", '"'])
def test_a_place_that_no_cookie_holds_is_the_first_page(
    issuer: OidcIssuer, fleet: Fleet, letter: str
) -> None:
    wanted = f"/runs?q={letter * 1_980}"
    place, cookie = begun(fleet.url, wanted)
    answer = done(fleet.url, authorized(place), cookie)
    to = answer.headers.get("location", "").encode("latin-1").decode()
    assert (answer.status_code, unquote(to)) == (303, wanted if letter == "a" else "/")


def test_another_page_begins_no_sign_in(issuer: OidcIssuer, fleet: Fleet) -> None:
    answer = httpx.get(f"{fleet.url}/signin/oidc", headers={"sec-fetch-site": "cross-site"})
    assert (answer.status_code, cookie_in(answer, LOGIN_COOKIE)) == (200, "")


def test_a_key_has_no_access_of_a_user_and_none_may_have_its_name(issuer: OidcIssuer, fleet: Fleet) -> None:
    assert submitted(fleet.client).json()["code"] == "no_user_access"
    forged = {"kind": "operator", "name": "user:ada@example.com:0123456789abcdef0123"}
    assert fleet.client.post("/api/keys", json=forged).json()["code"] == "bad_name"
    assert fleet.client.put(f"/api/secrets/{USER_TOKEN}", json={"value": "fleet's"}).status_code == 422


def test_a_run_gets_the_token_of_its_user_until_they_sign_out(issuer: OidcIssuer, fleet: Fleet) -> None:
    issuer.user = {"sub": "reader", "email": "ada@example.com", "email_verified": True}
    with signed_in(fleet.url) as ada:
        run = submitted(ada)
        assert run.status_code == 201, run.text
        claim = claimed(fleet)
        given = handed(fleet.url, claim).json()
        assert given.pop("renewInS") == pytest.approx(issuer.life_s - 60, abs=30)
        assert given == {"values": {USER_TOKEN: issuer.access[-1]}, "missing": []}
        ada.post("/signout")
        assert handed(fleet.url, claim).json() == {"values": {}, "missing": [USER_TOKEN]}


def test_two_control_planes_spend_a_refresh_token_once(issuer: OidcIssuer, fleet: Fleet, second: str) -> None:
    issuer.user = {"sub": "12", "groups": ["admins"]}
    issuer.life_s, issuer.refreshing_s = 300, 1.0  # none is under way before all are over
    with signed_in(fleet.url) as user:
        submitted(user)
        claim, spent = claimed(fleet), len(issuer.refreshed)
        expire(fleet)
        with ThreadPoolExecutor(8) as pool:
            asks = [pool.submit(handed, url, claim) for url in (fleet.url, second) * 4]
            tokens = {str(each.result().json()["values"]) for each in asks}
    assert tokens == {str({USER_TOKEN: issuer.access[-1]})}
    assert len(issuer.refreshed) == spent + 1


def test_a_sign_in_that_the_issuer_has_ended_ends_here(
    issuer: OidcIssuer, fleet: Fleet, until: Until
) -> None:
    issuer.user = {"sub": "13", "groups": ["admins"]}
    with signed_in(fleet.url) as user:
        submitted(user)
        claim = claimed(fleet)
        issuer.families.clear()
        expire(fleet)
        until(lambda: user.get("/api/runs").status_code == 401)
        assert handed(fleet.url, claim).json()["missing"] == [USER_TOKEN]


def test_an_issuer_that_is_away_throws_nobody_out(issuer: OidcIssuer, fleet: Fleet) -> None:
    issuer.user = {"sub": "14", "groups": ["admins"]}
    with signed_in(fleet.url) as user:
        submitted(user)
        claim = claimed(fleet)
        expire(fleet)
        issuer.odd["/token"] = lambda request: request.send_error(503)
        answer = handed(fleet.url, claim)
        assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unreachable")
        assert user.get("/api/runs").status_code == 200
        issuer.odd.clear()
        assert handed(fleet.url, claim).json()["values"] == {USER_TOKEN: issuer.access[-1]}


@pytest.mark.slow("a pod whose child imports what evaluates, and a token that is over meanwhile")
def test_a_long_attempt_asks_with_the_newest_token_of_its_user(issuer: OidcIssuer, fleet: Fleet) -> None:
    issuer.user = {"sub": "16", "groups": ["admins"]}
    issuer.life_s = 10  # a newer one is there after five
    key = fleet.client.post("/api/keys", json={"kind": "pod", "name": "long"}).json()["key"]
    for each in fleet.client.get("/api/runs").json()["items"]:  # of other tests
        fleet.client.post(f"/api/runs/{each['id']}/cancel")
    tokens: list[str] = []
    pause = threading.Event()

    def script(asked: Asked) -> Reply:
        tokens.append(asked.headers["authorization"].removeprefix("Bearer "))
        if len({*tokens}) == 1:  # the items last until there is another one
            pause.wait(0.5)
        return Reply(text="Answer: 1")

    with ModelServer(script) as server, signed_in(fleet.url) as user:
        endpoint = {"provider": "openai", "model": MODEL, "base_url": server.openai_url, "secret": USER_TOKEN}
        assert fleet.client.put("/api/models/long", json={"endpoint": endpoint}).is_success
        spec = {"model": "long", "suites": "gsm8k", "concurrency": 1}
        run = user.post("/api/runs", json={"kind": "benchmark", "spec": spec, "secrets": [USER_TOKEN]})
        run_id = run.json()["id"]
        worker = start_pod(fleet, server, PODFLEET_API_KEY=key)
        try:
            found = fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=300)
        finally:
            end([worker])
    assert (found["status"], found["attempt"], len(tokens)) == ("COMPLETED", 1, 40)
    places = [issuer.access.index(each) for each in tokens]
    assert len({*places}) > 1, "one attempt, and more than one token"
    assert places == sorted(places), "no earlier one after a newer one"
    must_not_be_told(fleet, set(tokens), {})


@pytest.mark.slow("a pod whose child imports what evaluates")
def test_a_benchmark_asks_its_model_as_its_user_and_tells_nobody_the_token(
    issuer: OidcIssuer, fleet: Fleet
) -> None:
    issuer.user = {"sub": "15", "groups": ["admins"], "email": "b@example.com", "email_verified": True}
    key = fleet.client.post("/api/keys", json={"kind": "pod", "name": "pod"}).json()["key"]
    for each in fleet.client.get("/api/runs").json()["items"]:  # of other tests
        fleet.client.post(f"/api/runs/{each['id']}/cancel")
    with ModelServer(lambda _: Reply(text="Answer: 1")) as server, signed_in(fleet.url) as user:
        endpoint = {"provider": "openai", "model": MODEL, "base_url": server.openai_url, "secret": USER_TOKEN}
        put = fleet.client.put("/api/models/theirs", json={"endpoint": endpoint})
        assert put.status_code == 201, put.text
        spec = {"model": "theirs", "suites": "gsm8k", "sample_size": 2}
        run = user.post("/api/runs", json={"kind": "benchmark", "spec": spec, "secrets": [USER_TOKEN]})
        assert run.status_code == 201, run.text
        run_id = run.json()["id"]
        token = issuer.access[-1]
        worker = start_pod(fleet, server, PODFLEET_API_KEY=key)
        try:
            assert fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=300)["status"] == "COMPLETED"
        finally:
            end([worker])  # the fleet is that of other tests, too
        assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {token}"}
        pages = ("", "/spec", "/log", "/attempts", "/results", "/files")
        found = {page: user.get(f"/runs/{run_id}{page}").content for page in pages}
        found |= {page: user.get(page).content for page in (f"/api/runs/{run_id}", "/api/audit", "/secrets")}
    must_not_be_told(fleet, {token}, found)


def must_not_be_told(fleet: Fleet, tokens: set[str], found: dict[str, bytes]) -> None:
    """No token is in what was found, in the store, or in a file of the fleet."""
    with MongoClient(fleet.database_url) as client:
        db = client.get_default_database()
        found |= {name: str(db[name].find().to_list()).encode() for name in db.list_collection_names()}
    found |= {str(each): each.read_bytes() for each in fleet.home.rglob("*") if each.is_file()}
    assert {"runs", "events", "sessions", str(fleet.home / "pod.log")} <= found.keys()
    told = [(place, each) for place, content in found.items() for each in tokens if each.encode() in content]
    assert told == []


def expire(fleet: Fleet) -> None:
    """Have every access token of a user be over."""
    with MongoClient(fleet.database_url) as client:
        sessions = client.get_default_database().sessions
        sessions.update_many({"user": {"$exists": True}}, [{"$set": {"grant.expiresAt": "$createdAt"}}])
