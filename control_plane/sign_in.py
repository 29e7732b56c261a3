"""Sessions of browsers: a key is shown once, from then on a cookie with an opaque secret stands for it.

The store has the digests of the secret and of the key, and a token that every form has to bring back.
A session may do what its key may, and ends with it.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.cookies import CookieError, SimpleCookie
from typing import Final

from control_plane.key_ring import KeyRing, Unauthorized
from control_plane.keys import digest
from control_plane.store.sessions import Sessions
from events.clock import Clock, Ids

COOKIE: Final = "__Host-podfleet"  # browsers take it only with Secure, for this host and all of its paths
SESSION_LIFE: Final = timedelta(days=7)
BELIEVED_S: Final = 2.0
REMEMBERED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that was signed in: with which key, what its forms bring back, and until when."""

    key_id: str | None
    key_hash: str = field(repr=False)
    form_token: str = field(repr=False)
    ends_at: datetime


@dataclass(slots=True)
class SignIn:
    """Opens, finds and ends sessions; what was read of one is believed for `BELIEVED_S`."""

    store: Sessions
    ring: KeyRing
    clock: Clock
    ids: Ids
    _remembered: OrderedDict[str, tuple[float, Session | None]] = field(default_factory=OrderedDict)

    async def begin(self, key_text: str, key_id: str | None) -> str:
        """Return the secret of a new session of a key that opens; its id is None for the environment's."""
        secret, now = self.ids.token(), self.clock.now()
        await self.store.create(
            {
                "_id": digest(secret),
                "keyId": key_id,
                "keyHash": digest(key_text),
                "formToken": self.ids.token(),
                "createdAt": now,
                "expiresAt": now + SESSION_LIFE,
            }
        )
        return secret

    async def end(self, cookies: str) -> None:
        """End the session of a browser, if it has one."""
        secret = secret_in(cookies)
        if secret is not None:
            self._remembered.pop(digest(secret), None)
            await self.store.remove(digest(secret))

    async def session(self, cookies: str) -> Session | None:
        """Return the session that a browser's cookies name; None where they name none.

        Raises `Unauthorized` where it is over.
        """
        secret = secret_in(cookies)
        if secret is None:
            return None
        found = await self._known(digest(secret))
        if found is None or found.ends_at <= self.clock.now():
            raise Unauthorized("session_over", "you were signed out; sign in again")
        return found

    async def _known(self, session_id: str) -> Session | None:
        now_s = self.clock.monotonic_s()
        remembered = self._remembered.get(session_id)
        if remembered is not None and now_s - remembered[0] <= BELIEVED_S:
            return remembered[1]
        stored = await self.store.find(session_id)
        session = None
        if stored is not None:
            session = Session(stored["keyId"], stored["keyHash"], stored["formToken"], stored["expiresAt"])
        self._remembered[session_id] = (now_s, session)
        self._remembered.move_to_end(session_id)
        while len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return session


def secret_in(cookies: str) -> str | None:
    """Return the secret of a session that a Cookie header holds."""
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return found.value if found is not None and found.value else None


def is_brought_back(token: str, offered: str | None) -> bool:
    """Say whether a form brought back the token that it was given."""
    return offered is not None and hmac.compare_digest(offered.encode(), token.encode())
