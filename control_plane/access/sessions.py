"""Sessions of browsers: a key is sent once, then a cookie with an opaque secret stands for it.

The store has the digests of the secret and of the key, and a token that every form has to send back.
A session has the scopes of its key, and ends with it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

from control_plane.access.cookies import secret_in
from control_plane.concurrency.cache import Cache
from control_plane.store.access.sessions import Sessions
from events.runtime.clock import Clock, Ids
from events.text.key_text import digest

SESSION_LIFE: Final = timedelta(days=7)
LINK_LIFE: Final = timedelta(minutes=10)
SESSIONS_MAX: Final = 100  # of one key, links that nobody took up among them
LINK: Final = "link:"  # before the digest: what opens a session is none itself


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a browser: its key, its form token, and its expiry."""

    key_id: str | None
    key_hash: str = field(repr=False)
    form_token: str = field(repr=False)
    ends_at: datetime
    user: Mapping[str, Any] | None = None  # the stored session, of a user who signed in by the issuer


class Grants(Protocol):
    """What keeps the tokens of users."""

    async def end(self, session_id: str) -> None:
        """End a session, and revoke what it keeps."""
        ...


@dataclass(slots=True)
class SignIn:
    """Opens, finds and ends sessions."""

    store: Sessions
    clock: Clock
    ids: Ids
    grants: Grants | None = None  # where users sign in by an issuer
    _sessions: Cache[Session | None] = field(init=False)

    def __post_init__(self) -> None:
        self._sessions = Cache(self.clock)

    async def begin(self, key_text: str, key_id: str | None) -> str:
        """Return the secret of a new session of a key that opens; its id is None for the environment's."""
        return await self._begin(digest(key_text), key_id)

    async def offer(self, key_text: str, key_id: str | None) -> str:
        """Return a one-time token that begins a session of this key within `LINK_LIFE`."""
        token = self.ids.token()
        await self._keep(f"{LINK}{digest(token)}", digest(key_text), key_id, LINK_LIFE)
        return token

    async def take_up(self, token: str) -> str | None:
        """Begin the session of a one-time token; return its secret, None if the token was used or expired."""
        stored = await self.store.take(f"{LINK}{digest(token)}")
        if stored is None or stored["expiresAt"] <= self.clock.now():
            return None
        return await self._begin(stored["keyHash"], stored["keyId"])

    async def _begin(self, key_hash: str, key_id: str | None) -> str:
        secret = self.ids.token()
        await self._keep(digest(secret), key_hash, key_id, SESSION_LIFE)
        return secret

    async def _keep(self, name: str, key_hash: str, key_id: str | None, life: timedelta) -> None:
        now = self.clock.now()
        await self.store.create(
            {
                "_id": name,
                "keyId": key_id,
                "keyHash": key_hash,
                "formToken": self.ids.token(),
                "createdAt": now,
                "expiresAt": now + life,
            },
            SESSIONS_MAX,
        )

    async def end(self, cookies: str) -> None:
        """End the session of a browser, if it has one."""
        secret = secret_in(cookies)
        if secret is not None:
            self._sessions.forget(digest(secret))
            if self.grants is None:
                await self.store.remove(digest(secret))
            else:
                await self.grants.end(digest(secret))

    async def session(self, cookies: str) -> Session | None:
        """Return the session that a browser's cookies name; None where they name none, or one that is over.

        A browser sends a cookie to all ports of a host, so one of another fleet may arrive here.
        """
        secret = secret_in(cookies)
        if secret is None:
            return None
        found = await self._sessions.get(digest(secret), partial(self._find, digest(secret)))
        return None if found is None or found.ends_at <= self.clock.now() else found

    async def _find(self, session_id: str) -> Session | None:
        stored = await self.store.find(session_id)
        if stored is None or "formToken" not in stored:
            return None
        return Session(
            stored["keyId"],
            stored["keyHash"],
            stored["formToken"],
            stored["expiresAt"],
            stored if "user" in stored else None,
        )


def is_brought_back(token: str, offered: str | None) -> bool:
    """Say whether a form was sent with the session's form token."""
    return offered is not None and hmac.compare_digest(offered.encode(), token.encode())
