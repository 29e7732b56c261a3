"""What the ring of keys lets in, and how long it believes what it read; sessions end with their keys."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from control_plane.access.auth import Forbidden, Keyed, Keyless, is_still_admitted
from control_plane.access.cookies import COOKIE
from control_plane.access.key_ring import USE_NOTED_EVERY, KeyRing, Unauthorized, WantedKey
from control_plane.access.keys import LIFE_MAX, bound, id_of
from control_plane.access.run_tokens import RunTokens
from control_plane.access.sessions import LINK, LINK_LIFE, SESSION_LIFE, SESSIONS_MAX, SignIn, is_brought_back
from control_plane.concurrency.cache import BELIEVED_S
from control_plane.concurrency.rate_limit import RateLimit
from control_plane.model.run import AttemptToken
from events.runtime.clock import SystemIds
from events.runtime.errors import Conflict, Rejected, Transient
from events.testing import ManualClock
from events.text.attempt_id import AttemptId
from events.text.key_text import digest, run_token, written

HOME = {"host": "127.0.0.1:8700"}
NEAR = "127.0.0.1"
TOKEN = "T" * 43


class KeptKeys:
    """Keys, as the store keeps them; `reads` counts how often it was asked for one."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.kept: dict[str, Any] = {}
        self.reads = 0
        self.uses = 0

    async def create(self, document: Any) -> None:
        self.kept[document["_id"]] = copy.deepcopy(document)

    async def find(self, key_id: str) -> Any:
        self.reads += 1
        return copy.deepcopy(self.kept.get(key_id))

    async def has_any(self, scope: str) -> bool:
        return any(scope in each["scopes"] for each in self.kept.values())

    async def succeed(self, key_id: str, successor: str, until: Any) -> Any:
        key = self.kept[key_id]
        if key["successor"] is not None or key["revokedAt"] is not None:
            return None
        key |= {"successor": successor, "endsAt": min(key["endsAt"] or until, until)}
        return key

    async def revoke(self, key_id: str, by: str) -> Any:
        if key_id in self.kept:
            self.kept[key_id] |= {"revokedAt": self.clock.now(), "revokedBy": by}
        return copy.deepcopy(self.kept.get(key_id))

    async def used(self, key_id: str, at: Any) -> None:
        self.uses += 1


class KeptSessions:
    """Sessions, as the store keeps them."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.most = 0

    async def create(self, document: Any, most: int) -> None:
        self.kept[document["_id"]], self.most = document, most

    async def find(self, session_id: str) -> Any:
        return self.kept.get(session_id)

    async def take(self, session_id: str) -> Any:
        return self.kept.pop(session_id, None)

    async def remove(self, session_id: str) -> None:
        self.kept.pop(session_id, None)


class OneRun:
    """Runs, of which there is one; its first attempt has the token `TOKEN` until a moment."""

    def __init__(self, ends_at: Any) -> None:
        self.token = AttemptToken(attempt=1, hash=digest(TOKEN), key_id=None, ends_at=ends_at)

    async def find(self, run_id: str) -> Any:
        return SimpleNamespace(run=self) if run_id == "r1" else None

    async def token_of_deleted(self, _: Any) -> AttemptToken | None:
        return None

    def token_of(self, attempt: int) -> AttemptToken | None:
        return self.token if attempt == 1 else None


class Door:
    """All that lets somebody in, on stores in memory."""

    def __init__(self, root: str | None = None, keyless: Keyless | None = None) -> None:
        self.clock = ManualClock()
        self.keys, self.sessions = KeptKeys(self.clock), KeptSessions()
        self.ring = KeyRing(self.keys, self.clock, SystemIds())  # type: ignore[arg-type]
        self.sign_in = SignIn(self.sessions, self.clock, SystemIds())  # type: ignore[arg-type]
        runs = OneRun(self.clock.now() + timedelta(hours=1))
        tokens = RunTokens(runs, self.clock)  # type: ignore[arg-type]
        failures = RateLimit(self.clock, 3, 60.0)
        self.keyed = Keyed(self.ring, self.sign_in, tokens, failures, root, keyless)

    async def of_browser(self, secret: str, method: str = "GET", **more: str) -> Any:
        headers = {**HOME, "cookie": f"{COOKIE}={secret}", **more}
        return await self.keyed.identify(method, headers, NEAR)


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-1), LIFE_MAX + timedelta(seconds=1)])
async def test_a_key_lives_for_a_while_that_ends(door: Door, life: timedelta) -> None:
    await door.ring.make(WantedKey(kind="pod", name="n", life=LIFE_MAX), by="root")
    with pytest.raises(Rejected, match="3650 days"):
        await door.ring.make(WantedKey(kind="pod", name="n", life=life), by="root")


def test_a_pod_is_named_for_a_pods_key_alone_and_by_its_lasting_name() -> None:
    assert bound("pod", "pod-7") == "pod-7"
    assert bound("viewer", None) is None
    with pytest.raises(Rejected, match="for no pod"):
        bound("viewer", "pod-7")
    with pytest.raises(Rejected, match="mark of a start"):
        bound("pod", "pod-7/01ABC")


@pytest.mark.parametrize(
    "text", [written("other", "A" * 43), written("admin", "A" * 42), written("admin", "A" * 44)]
)
def test_a_text_of_another_kind_or_length_is_no_key(text: str) -> None:
    assert id_of(text) is None


async def test_of_a_key_nothing_is_stored_that_opens(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="admin", name="n"), by="root")
    assert new.text not in str(door.keys.kept)
    assert door.keys.kept[new.document["_id"]]["hash"] == digest(new.text)
    assert new.text not in repr(new)


async def test_a_key_with_the_id_of_another_opens_nothing(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="pod", name="n"), by="root")
    _, _, random, _ = new.text.split("_")
    forged = written("pod", random[:10] + "A" * 33)
    assert id_of(forged) == new.document["_id"]
    with pytest.raises(Unauthorized, match="not valid here"):
        await door.ring.whose(forged)
    with pytest.raises(Unauthorized, match="not valid here"):
        await door.ring.same(new.document["_id"], digest(forged))
    assert (await door.ring.same(new.document["_id"], digest(new.text))).name == "n"


async def test_a_key_that_is_over_opens_nothing(door: Door) -> None:
    short = await door.ring.make(WantedKey(kind="pod", name="n", life=timedelta(minutes=1)), by="root")
    assert (await door.ring.whose(short.text)).name == "n"
    door.clock.advance(60)
    with pytest.raises(Unauthorized, match="has expired"):
        await door.ring.whose(short.text)
    with pytest.raises(Unauthorized, match="has expired"):
        await door.ring.same(short.document["_id"], digest(short.text))


async def test_who_revokes_a_key_believes_it_no_longer_and_others_for_seconds_only(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="pod", name="n"), by="root")
    other = KeyRing(door.keys, door.clock, SystemIds())  # type: ignore[arg-type]
    for ring in (door.ring, other, other):
        await ring.whose(new.text)
    assert door.keys.reads == 2
    await door.ring.revoke(new.document["_id"], by="root")
    with pytest.raises(Unauthorized, match="is revoked"):
        await door.ring.whose(new.text)
    await other.whose(new.text)
    door.clock.advance(BELIEVED_S + 0.1)
    with pytest.raises(Unauthorized, match="is revoked"):
        await other.whose(new.text)


async def test_the_use_of_a_key_is_not_written_at_each_request(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="pod", name="n"), by="root")
    for _ in range(3):
        await door.ring.whose(new.text)
    assert door.keys.uses == 1
    door.clock.advance(USE_NOTED_EVERY.total_seconds())
    await door.ring.whose(new.text)
    assert door.keys.uses == 2


async def test_the_next_key_is_like_the_last_and_ends_as_late(door: Door) -> None:
    wanted = WantedKey(
        kind="pod", name="n", scopes=frozenset({"claim"}), life=timedelta(hours=1), pod="pod-7"
    )
    old = await door.ring.make(wanted, by="root")
    await door.ring.whose(old.text)
    new = await door.ring.rotate(old.document["_id"], overlap=timedelta(0), by="root")
    alike = ("kind", "name", "scopes", "pod", "endsAt")
    assert [new.document[name] for name in alike] == [old.document[name] for name in alike]
    with pytest.raises(Unauthorized, match="has expired"):
        await door.ring.whose(old.text)  # at once, where it was cached


async def test_a_key_that_has_a_next_or_is_over_has_no_next(door: Door) -> None:
    old = await door.ring.make(WantedKey(kind="pod", name="n"), by="root")
    key_id = old.document["_id"]
    for overlap in (timedelta(seconds=-1), LIFE_MAX + timedelta(seconds=1)):
        with pytest.raises(Rejected, match="both keys"):
            await door.ring.rotate(key_id, overlap=overlap, by="root")
    new = await door.ring.rotate(key_id, overlap=timedelta(days=1), by="root")
    with pytest.raises(Conflict, match="rotated already"):
        await door.ring.rotate(key_id, overlap=timedelta(0), by="root")
    await door.ring.revoke(new.document["_id"], by="root")
    with pytest.raises(Conflict, match="revoked or expired"):
        await door.ring.rotate(new.document["_id"], overlap=timedelta(0), by="root")
    assert len(door.keys.kept) == 2


async def test_of_two_next_keys_made_at_once_one_opens_nothing(door: Door) -> None:
    old = await door.ring.make(WantedKey(kind="pod", name="n"), by="root")
    key_id = old.document["_id"]
    find = door.keys.find

    async def find_late(asked: str) -> Any:
        found = await find(asked)
        await door.keys.succeed(key_id, "another", door.clock.now())
        return found

    door.keys.find = find_late  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="meanwhile"):
        await door.ring.rotate(key_id, overlap=timedelta(0), by="root")
    assert [each["revokedAt"] is not None for each in door.keys.kept.values()] == [False, True]


async def test_the_first_key_that_may_do_everything_ends_keyless_work_at_once() -> None:
    door = Door(keyless=Keyless())
    await door.ring.make(WantedKey(kind="pod", name="n"), by="root")
    assert (await door.keyed.identify("GET", HOME, NEAR)).is_shared
    await door.ring.make(WantedKey(kind="admin", name="n"), by="root")
    with pytest.raises(Unauthorized):
        await door.keyed.identify("GET", HOME, NEAR)


def test_a_proxy_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    keyless = Keyless()
    for _ in range(3):
        keyless.look({"via": "1.1 x"}, "1.1")
    assert [each.message for each in caplog.records] == ["keyless.over"]


async def test_the_token_of_an_attempt_may_send_events_of_it_alone(door: Door) -> None:
    bearer = {"authorization": f"Bearer {run_token('r1', 1, TOKEN)}"}
    found = await door.keyed.identify("POST", bearer)
    assert (found.scopes, found.attempt) == ({"ingest"}, AttemptId("r1", 1))
    for wrong in (("r1", 1, "U" * 43), ("r1", 2, TOKEN), ("r2", 1, TOKEN)):
        with pytest.raises(Unauthorized):
            await door.keyed.owner(run_token(*wrong))
    door.clock.advance(3600)
    with pytest.raises(Unauthorized):
        await door.keyed.identify("POST", bearer)


async def test_a_session_is_its_keys_and_ends_with_it(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="viewer", name="vera"), by="root")
    secret = await door.sign_in.begin(new.text, new.document["_id"])
    found = await door.of_browser(secret)
    assert (found.name, found.scopes) == ("vera", {"read"})
    assert found.form_token
    assert found.form_token not in repr(found)
    assert secret not in str(door.sessions.kept)
    assert door.sessions.most == SESSIONS_MAX
    await door.ring.revoke(new.document["_id"], by="root")
    with pytest.raises(Unauthorized, match="is revoked"):
        await door.of_browser(secret)


async def test_a_session_is_over_after_its_life_and_at_once_where_it_was_ended(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="viewer", name="vera"), by="root")
    ended, left = [await door.sign_in.begin(new.text, new.document["_id"]) for _ in range(2)]
    await door.of_browser(ended)
    await door.sign_in.end(f"{COOKIE}={ended}")
    with pytest.raises(Unauthorized):
        await door.of_browser(ended)
    await door.of_browser(left)
    door.clock.advance(SESSION_LIFE.total_seconds())
    with pytest.raises(Unauthorized):
        await door.of_browser(left)


async def test_a_session_of_the_environments_key_ends_with_that_key() -> None:
    secret = await (begun := Door("root-key")).sign_in.begin("root-key", None)
    assert (await begun.of_browser(secret)).name == "root"
    for root in ("another", None):
        later = Door(root)
        later.sessions.kept = begun.sessions.kept
        with pytest.raises(Unauthorized, match="signed out"):
            await later.of_browser(secret)


async def test_a_session_acts_from_pages_of_ours_alone(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="operator", name="olga"), by="root")
    secret = await door.sign_in.begin(new.text, new.document["_id"])
    await door.of_browser(secret, "POST", origin="http://127.0.0.1:8700")
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        with pytest.raises(Forbidden):
            await door.of_browser(secret, "POST", **headers)


async def test_a_link_opens_one_session_for_a_while_and_is_none_itself(door: Door) -> None:
    for late in (False, True):
        token = await door.sign_in.offer("k", "id")
        assert await door.sign_in.session(f"{COOKIE}={token}") is None
        assert all(name.startswith(LINK) and token not in name for name in door.sessions.kept)
        if late:
            door.clock.advance(LINK_LIFE.total_seconds())
        assert (await door.sign_in.take_up(token) is None) is late
        assert await door.sign_in.take_up(token) is None
        door.sessions.kept.clear()


@pytest.mark.parametrize("offered", [None, "", "b", "aa"])
def test_a_form_brings_the_token_of_its_session(offered: str | None) -> None:
    assert is_brought_back("a", "a")
    assert not is_brought_back("a", offered)


def asked(keyed: Any, headers: Mapping[str, str]) -> Any:
    state = SimpleNamespace(authenticator=keyed)
    client = SimpleNamespace(host=NEAR)
    return SimpleNamespace(
        method="GET", headers=headers, client=client, scope={}, app=SimpleNamespace(state=state)
    )


async def test_an_answer_without_end_ends_with_its_key_and_not_with_the_store(door: Door) -> None:
    new = await door.ring.make(WantedKey(kind="viewer", name="vera"), by="root")
    headers = {"authorization": f"Bearer {new.text}"}
    request = asked(door.keyed, headers)
    assert await is_still_admitted(request, headers, "read")
    assert not await is_still_admitted(request, headers, "claim")
    await door.ring.revoke(new.document["_id"], by="root")
    assert not await is_still_admitted(request, headers, "read")

    async def away(_: str) -> Any:
        raise Transient("away", "nobody can tell")

    door.keys.find = away  # type: ignore[method-assign]
    door.clock.advance(BELIEVED_S + 1)
    assert await is_still_admitted(request, headers, "read")
