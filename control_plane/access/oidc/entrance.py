"""Signs a browser in by the issuer: begun with a sealed cookie, ended with the issuer's code.

Law: nothing is stored for a sign-in that was only begun; an answer counts once, within minutes, and in the
browser that has asked for it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from control_plane.access.cookies import LOGIN_COOKIE, login_in
from control_plane.access.keys import Scope
from control_plane.access.oidc.grants import Grants
from control_plane.access.oidc.issuer import Issuer
from control_plane.access.oidc.people import person_of, scopes_of
from control_plane.access.secrets.encryption import Cipher, Sealed
from control_plane.store.access.sessions import Sessions
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Rejected
from events.text.key_text import digest

LOGIN_LIFE: Final = timedelta(minutes=10)
USED: Final = "used:"  # before the digest of a state that came back
BOUND: Final = "sign-in"  # no name of a secret has this form
FOREIGN: Final = "foreign_sign_in"  # the code of a sign-in that is of another browser, or was used
TEXT_CHARS_MAX: Final = 4_096


class _Begun(msgspec.Struct):
    """A sign-in that was begun, as the cookie has it, sealed."""

    state: str
    nonce: str
    verifier: str
    to: str
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Leading:
    """Where a browser is sent, and the cookie by which it is known again."""

    url: str
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Entered:
    """The secret of a new session, and where in this site its browser wanted to go."""

    secret: str = field(repr=False)
    to: str
    name: str


@dataclass(frozen=True, slots=True)
class Entrance:
    """Begins and ends sign-ins. Raises `Rejected`, `Transient`."""

    issuer: Issuer
    grants: Grants
    store: Sessions
    cipher: Cipher
    clock: Clock
    ids: Ids

    async def begin(self, to: str) -> Leading:
        """Begin the sign-in of a browser that wants to go `to`; to the first page where that is too long."""
        state, nonce, verifier = (self.ids.token() for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        url = await self.issuer.leading(state, nonce, challenge.decode())
        begun = _Begun(state, nonce, verifier, to, self.clock.now() + LOGIN_LIFE)
        cookie = self._sealed(begun)
        if login_in(f"{LOGIN_COOKIE}={cookie}") is None:  # a browser would not keep it
            cookie = self._sealed(msgspec.structs.replace(begun, to="/"))
        return Leading(url, cookie)

    async def end(self, cookie: str | None, *, state: str, code: str, error: str, iss: str | None) -> Entered:
        """End the sign-in that the issuer has answered, in the browser that has begun it."""
        begun = self._begun(cookie)
        is_own = begun is not None and hmac.compare_digest(begun.state.encode(), state.encode())
        if begun is None or not is_own or begun.ends_at <= self.clock.now():
            raise Rejected(FOREIGN, "this browser has not begun this sign-in, or too long ago")
        if not await self.store.use(f"{USED}{digest(state)}", begun.ends_at):
            raise Rejected(FOREIGN, "this answer of the issuer was used already; sign in again")
        await self.issuer.require_own(iss)
        if error or not code or len(code) > TEXT_CHARS_MAX:
            raise Rejected("not_signed_in", "the issuer has not signed you in")
        tokens, claims = await self.issuer.redeem(code, begun.verifier, begun.nonce)
        person = person_of(self.issuer.settings.issuer, claims, self.issuer.settings.roles)
        if "read" not in self.scopes(person.held):
            await self.grants.give_back(tokens)
            message = f"{person.name} has no role here; the administrator gives one by PODFLEET_OIDC_ROLES"
            raise Rejected("no_role", message)
        return Entered(await self.grants.begin(person, tokens), begun.to, person.name)

    def scopes(self, held: Collection[str]) -> frozenset[Scope]:
        """Return what somebody may do today of whose claims these are named by the settings."""
        return scopes_of(held, self.issuer.settings.roles)

    def look_after(self, session: Mapping[str, Any]) -> None:
        """Have the tokens of a stored session refreshed that is used, if it is time."""
        self.grants.look_after(session)

    def _sealed(self, begun: _Begun) -> str:
        sealed = self.cipher.seal(BOUND, msgspec.json.encode(begun).decode())
        return f"{sealed.key_id}.{base64.urlsafe_b64encode(sealed.data).decode().rstrip('=')}"

    def _begun(self, cookie: str | None) -> _Begun | None:
        key_id, _, text = (cookie or "").partition(".")
        try:
            sealed = Sealed(key_id, base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            opened = self.cipher.open(BOUND, sealed) if self.cipher.has(sealed) else None
            return None if opened is None else msgspec.json.decode(opened, type=_Begun)
        except (binascii.Error, ValueError):
            return None
