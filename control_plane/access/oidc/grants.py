"""The tokens of users: kept encrypted in their sessions, refreshed once, handed to their runs, and ended.

Law: a refresh token is spent by one control plane alone, since an issuer that changes them ends the sign-in
of whoever spends one twice. A token leaves this module encrypted, to the issuer, or to an attempt of a run
whose user has named it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec

from control_plane.access.keys import USER
from control_plane.access.oidc.issuer import GrantOver, Issuer, Tokens
from control_plane.access.oidc.people import Person, person_of, scopes_of
from control_plane.access.secrets.encryption import Cipher, Sealed
from control_plane.access.sessions import SESSION_LIFE, SESSIONS_MAX
from control_plane.store.access.sessions import Sessions
from events.runtime.clock import Clock, Ids
from events.runtime.errors import PodfleetError, Transient
from events.text.key_text import digest

log = logging.getLogger(__name__)

REFRESH_AT_S: Final = 60.0  # an access token that is valid for less is refreshed before it is handed out
TURN: Final = timedelta(seconds=45)  # of one control plane to refresh a token; longer than its requests
LOOK_EVERY_S: Final = 0.2
WRITES_MAX: Final = 20  # tries to keep what a refresh has brought
NAMED: Final = "user token "  # no name of a secret has this form


@dataclass(frozen=True, slots=True)
class Access:
    """An access token that is valid now, and after how long there is a newer one to ask for."""

    token: str = field(repr=False)
    renew_in_s: float


@dataclass(frozen=True, slots=True)
class Grants:
    """The sessions of users with their tokens. Raises `Transient`."""

    store: Sessions
    issuer: Issuer
    cipher: Cipher
    clock: Clock
    ids: Ids
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def begin(self, person: Person, tokens: Tokens) -> str:
        """Return the secret of a new session of a person, which keeps their tokens."""
        secret, now = self.ids.token(), self.clock.now()
        session_id = digest(secret)
        document = {
            "_id": session_id,
            "keyId": None,
            "keyHash": f"{USER}{person.id}",  # the digest of no key
            "formToken": self.ids.token(),
            "createdAt": now,
            "expiresAt": now + SESSION_LIFE,
            "user": {"name": person.name, "held": list(person.held)},
            "grant": self._kept(session_id, tokens, 1),
        }
        await self.store.create(document, SESSIONS_MAX)
        return secret

    async def access(self, person_id: str) -> Access | None:
        """Return the access token of a person that is valid now; None where they are signed in no more.

        One whose role is gone is nobody. Raises `Transient` where it has to be refreshed, and cannot be now.
        """
        late: Transient | None = None
        for session in await self.store.of_user(f"{USER}{person_id}"):
            if not scopes_of(session["user"]["held"], self.issuer.settings.roles):
                continue
            try:
                found = await self._current(session)
            except Transient as error:
                late = error
                continue
            if found is not None:
                return found
        if late is not None:
            raise late
        return None

    def look_after(self, session: Mapping[str, Any]) -> None:
        """Refresh the tokens of a session that is used, if it is time, beside the request that uses it.

        So a session that the issuer has ended ends here with its access token.
        """
        if session["grant"]["expiresAt"] <= self.clock.now() and len(self._tasks) < SESSIONS_MAX:
            task = asyncio.create_task(self._looked_after(session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def end(self, session_id: str) -> None:
        """End a session, and revoke its tokens at the issuer, as far as it answers."""
        session = await self.store.take(session_id)
        if session is not None and "grant" in session:
            tokens = self._opened(session)
            if tokens is not None:
                await self.give_back(tokens)

    async def give_back(self, tokens: Tokens) -> None:
        """Revoke tokens that nobody will use; an issuer that does not answer keeps nobody signed in here."""
        wanted = (("refresh_token", tokens.refresh), ("access_token", tokens.access))
        for hint, token in wanted:
            if token is not None:
                try:
                    await self.issuer.revoke(token, hint)
                except PodfleetError as error:
                    log.warning("user_token.not_revoked", extra={"which": hint, "why": error.message})

    async def _looked_after(self, session: Mapping[str, Any]) -> None:
        try:
            await self._current(session)
        except PodfleetError as error:
            log.warning("user_token.not_refreshed", extra={"why": error.message})

    async def _current(self, session: Mapping[str, Any]) -> Access | None:
        """Return the access token of a session, refreshed once by whoever is first; None if it is over."""
        begun_s, found = self.clock.monotonic_s(), session
        while self.clock.monotonic_s() - begun_s < TURN.total_seconds():
            now, grant = self.clock.now(), found["grant"]
            tokens = self._opened(found)
            if tokens is None or found["expiresAt"] <= now:
                return None
            left_s = (grant["expiresAt"] - now).total_seconds()
            if left_s > _margin_s(tokens):
                return Access(tokens.access, left_s - (0.0 if tokens.refresh is None else _margin_s(tokens)))
            if tokens.refresh is None:
                return Access(tokens.access, left_s) if left_s > 0 else None
            if await self.store.take_turn(found["_id"], grant["revision"], now, now + TURN):
                return await self._refreshed(found, tokens.refresh)
            await asyncio.sleep(LOOK_EVERY_S)
            again = await self.store.find(found["_id"])
            if again is None:
                return None
            found = again
        raise Transient("issuer_unreachable", "another control plane refreshes the token of this user")

    async def _refreshed(self, session: Mapping[str, Any], refresh: str) -> Access | None:
        session_id, revision = session["_id"], session["grant"]["revision"]
        try:
            tokens, claims = await self.issuer.refresh(refresh)
        except GrantOver:
            await self.store.remove(session_id)
            log.warning("user_token.over", extra={"user": session["user"]["name"]})
            return None
        except PodfleetError as error:
            await self.store.leave_turn(session_id, revision)
            raise Transient("issuer_unreachable", error.message) from error
        user = session["user"]
        if claims is not None:
            person = person_of(self.issuer.settings.issuer, claims, self.issuer.settings.roles)
            if f"{USER}{person.id}" != session["keyHash"]:
                await self.store.remove(session_id)
                return None
            user = {"name": user["name"], "held": list(person.held)}
        kept = self._kept(session_id, tokens, revision + 1)
        if not await self._keep(session_id, revision, {"grant": kept, "user": user}):
            await self.give_back(tokens)  # the session was ended meanwhile
            return None
        return Access(tokens.access, tokens.life_s - _margin_s(tokens))

    async def _keep(self, session_id: str, revision: int, fields: Mapping[str, Any]) -> bool:
        """Store what a refresh has brought, which is had only once: an outage is waited for."""
        for _ in range(WRITES_MAX - 1):
            try:
                return await self.store.regrant(session_id, revision, fields)
            except Transient:
                await asyncio.sleep(LOOK_EVERY_S)
        return await self.store.regrant(session_id, revision, fields)

    def _kept(self, session_id: str, tokens: Tokens, revision: int) -> dict[str, Any]:
        sealed = self.cipher.seal(f"{NAMED}{session_id}", msgspec.json.encode(tokens).decode())
        return {
            "sealed": sealed.data,
            "keyId": sealed.key_id,
            "expiresAt": self.clock.now() + timedelta(seconds=tokens.life_s),
            "revision": revision,
            "turnUntil": None,
        }

    def _opened(self, session: Mapping[str, Any]) -> Tokens | None:
        grant = session["grant"]
        sealed = Sealed(grant["keyId"], grant["sealed"])
        text = self.cipher.open(f"{NAMED}{session['_id']}", sealed) if self.cipher.has(sealed) else None
        return None if text is None else msgspec.json.decode(text, type=Tokens)


def _margin_s(tokens: Tokens) -> float:
    """Return how long before its end a token is refreshed; a short-lived one is not at each look."""
    return min(REFRESH_AT_S, tokens.life_s / 2)
