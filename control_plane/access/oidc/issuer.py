"""Asks an issuer: what it is, its keys, tokens for a code or a refresh token, and to revoke one.

Law: each request is bounded in bytes and time, follows no redirect and goes to an allowed address only; what
is told of an answer never quotes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httpx
import msgspec

from control_plane.access.oidc.id_token import Jwk, UnknownKey, read_keys, verified
from control_plane.config import Oidc
from events.runtime.allowed_addresses import AddressRefused, Guard
from events.runtime.clock import Clock
from events.runtime.egress_policy import EgressPolicy
from events.runtime.errors import Rejected, Transient
from events.text.secret_names import VALUE_BYTES_MAX

ANSWER_BYTES_MAX: Final = 1 << 20
TIME_MAX_S: Final = 10.0
FRESH_S: Final = 3_600.0  # what the issuer says of itself is believed for so long, and so are its keys
KEYS_EVERY_S: Final = 30.0  # a token of an unknown key has the keys asked for once in so long
LIFE_S_DEFAULT: Final = 300  # of an access token of which the issuer says no end
LIFE_S_MAX: Final = 30 * 86_400
WELL_KNOWN: Final = "/.well-known/openid-configuration"
GONE: Final = "invalid_grant"  # the issuer's word for a code or a refresh token that is worth nothing
HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "podfleet"}
VISIBLE: Final = re.compile(r"[!-~]+", re.ASCII)  # RFC 6750: a token is no more than this

Url = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]


class _Discovery(msgspec.Struct):
    issuer: Url
    authorization_endpoint: Url
    token_endpoint: Url
    jwks_uri: Url
    revocation_endpoint: Url | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _Answer(msgspec.Struct):
    access_token: Annotated[str, msgspec.Meta(min_length=1, max_length=VALUE_BYTES_MAX)]
    token_type: Annotated[str, msgspec.Meta(max_length=100)]
    expires_in: int | None = None
    refresh_token: Annotated[str, msgspec.Meta(min_length=1, max_length=VALUE_BYTES_MAX)] | None = None
    id_token: str | None = None


class _Refusal(msgspec.Struct):
    error: Annotated[str, msgspec.Meta(max_length=100)] = ""


class GrantOver(Rejected):
    """The issuer takes a code or a refresh token no more."""


class Tokens(msgspec.Struct, frozen=True):
    """The tokens of a user; `life_s` is how long the access token is valid."""

    access: str
    refresh: str | None
    life_s: int

    def __repr__(self) -> str:
        return f"Tokens(life_s={self.life_s})"


@dataclass(slots=True)
class Issuer:
    """One issuer. Raises `Rejected`, `GrantOver`, and `Transient` where another time may do."""

    settings: Oidc
    egress: EgressPolicy
    clock: Clock
    time_max_s: float = TIME_MAX_S
    _known: tuple[float, _Discovery] | None = None
    _keys: tuple[float, tuple[Jwk, ...]] | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def leading(self, state: str, nonce: str, challenge: str) -> str:
        """Return the address at the issuer to which a browser is sent, and which sends it back."""
        found = await self._discovered()
        wanted = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_uri,
            "scope": self.settings.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(found.authorization_endpoint).query else "?"
        return f"{found.authorization_endpoint}{joint}{urlencode(wanted)}"

    async def require_own(self, iss: str | None) -> None:
        """Check the issuer that an answer in a browser names (RFC 9207). Raises `Rejected`."""
        found = await self._discovered()
        is_named = iss is not None or found.authorization_response_iss_parameter_supported
        if is_named and iss != self.settings.issuer:
            raise Rejected("foreign_issuer", "this answer is of another issuer")

    async def redeem(self, code: str, verifier: str, nonce: str) -> tuple[Tokens, Mapping[str, Any]]:
        """Return the tokens for a code, and the claims of whoever signed in, verified."""
        form = {"code": code, "redirect_uri": self.settings.redirect_uri, "code_verifier": verifier}
        answer = await self._token({"grant_type": "authorization_code", **form})
        if answer.id_token is None:
            raise _bad("it sent no ID token")
        return _tokens(answer, None), await self._claims(answer.id_token, nonce)

    async def refresh(self, token: str) -> tuple[Tokens, Mapping[str, Any] | None]:
        """Return new tokens for a refresh token, and the claims of the user where the issuer tells them."""
        answer = await self._token({"grant_type": "refresh_token", "refresh_token": token})
        claims = None if answer.id_token is None else await self._claims(answer.id_token, None)
        return _tokens(answer, token), claims

    async def revoke(self, token: str, hint: str) -> None:
        """Revoke a token, where the issuer has a place for that."""
        found = await self._discovered()
        if found.revocation_endpoint is None:
            return
        status, _ = await self._post(found.revocation_endpoint, {"token": token, "token_type_hint": hint})
        if status != httpx.codes.OK:
            raise _bad(f"it answers {status} to a revocation")

    async def _claims(self, token: str, nonce: str | None) -> Mapping[str, Any]:
        keys = await self._key_set(FRESH_S)
        settings, now = self.settings, self.clock.now()
        verify = partial(
            verified, token, issuer=settings.issuer, client_id=settings.client_id, nonce=nonce, now=now
        )
        try:
            return verify(keys)
        except UnknownKey:
            return verify(await self._key_set(KEYS_EVERY_S))

    async def _token(self, form: Mapping[str, str]) -> _Answer:
        status, body = await self._post((await self._discovered()).token_endpoint, form)
        if status != httpx.codes.OK:
            try:
                error = msgspec.json.decode(body, type=_Refusal).error
            except (ValueError, RecursionError):
                error = ""
            if error == GONE:
                raise GrantOver("grant_over", "the issuer takes this sign-in no more; sign in again")
            raise _bad(f"it answers {status} to a request for tokens")
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except (ValueError, RecursionError) as error:
            raise _bad("what it says of tokens cannot be read") from error
        if answer.token_type.lower() != "bearer" or not VISIBLE.fullmatch(answer.access_token):
            raise _bad("its access token is no bearer token")
        return answer

    async def _post(self, url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a form as this client of the issuer."""
        found, secret, own = await self._discovered(), self.settings.client_secret, self.settings.client_id
        if secret is None:
            return await self._request("POST", url, {**form, "client_id": own})
        if "client_secret_basic" not in found.token_endpoint_auth_methods_supported:
            return await self._request("POST", url, {**form, "client_id": own, "client_secret": secret})
        # RFC 6749, 2.3.1: both are encoded as in a form before they are joined
        basic = httpx.BasicAuth(quote(own, safe=""), quote(secret, safe=""))
        return await self._request("POST", url, form, basic)

    async def _discovered(self) -> _Discovery:
        async with self._turn:
            now_s = self.clock.monotonic_s()
            if self._known is not None and now_s - self._known[0] < FRESH_S:
                return self._known[1]
            place = self.settings.issuer.rstrip("/") + WELL_KNOWN
            status, body = await self._request("GET", place)
            if status != httpx.codes.OK:
                raise _bad(f"it answers {status} to what it is")
            try:
                found = msgspec.json.decode(body, type=_Discovery)
            except (ValueError, RecursionError) as error:
                raise _bad("what it says of itself cannot be read") from error
            if found.issuer != self.settings.issuer:
                raise _bad("it calls itself by another name")
            places = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
            for each in (*places, found.revocation_endpoint or found.token_endpoint):
                self._require_safe(each)
            self._known = (now_s, found)
            return found

    def _require_safe(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_safe = parts.scheme in {"https", urlsplit(self.settings.issuer).scheme} and bool(
                parts.hostname
            )
        except ValueError:
            is_safe = False
        if not is_safe or "@" in parts.netloc or parts.fragment or not VISIBLE.fullmatch(url):
            raise _bad("an address that it names is not by https")

    async def _key_set(self, fresh_s: float) -> tuple[Jwk, ...]:
        found = await self._discovered()
        async with self._turn:
            now_s = self.clock.monotonic_s()
            if self._keys is not None and now_s - self._keys[0] < fresh_s:
                return self._keys[1]
            status, body = await self._request("GET", found.jwks_uri)
            if status != httpx.codes.OK:
                raise _bad(f"it answers {status} to its keys")
            self._keys = (now_s, read_keys(body))
            return self._keys[1]

    async def _request(
        self, method: str, url: str, form: Mapping[str, str] | None = None, auth: httpx.Auth | None = None
    ) -> tuple[int, bytes]:
        try:
            async with (
                asyncio.timeout(self.time_max_s),
                httpx.AsyncClient(
                    timeout=self.time_max_s,
                    event_hooks={"request": [Guard(self.egress)]},
                    follow_redirects=False,
                ) as client,
                client.stream(method, url, headers=HEADERS, data=form, auth=auth) as response,
            ):
                return response.status_code, await _body(response)
        except AddressRefused as error:
            raise Rejected("address_refused", str(error)) from error
        except TimeoutError as error:
            raise _away(f"it did not answer within {self.time_max_s:.0f} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _away(type(error).__name__) from error


async def _body(response: httpx.Response) -> bytes:
    status = response.status_code
    if status >= 500 or status == httpx.codes.TOO_MANY_REQUESTS:
        raise _away(f"it answers {status}")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise _bad("its answer is compressed, which was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise _bad(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
    return bytes(body)


def _tokens(answer: _Answer, earlier: str | None) -> Tokens:
    life_s = LIFE_S_DEFAULT if answer.expires_in is None else answer.expires_in
    return Tokens(answer.access_token, answer.refresh_token or earlier, min(max(life_s, 0), LIFE_S_MAX))


def _bad(why: str) -> Rejected:
    return Rejected("bad_issuer", f"the issuer of sign-ins cannot be used: {why}")


def _away(why: str) -> Transient:
    return Transient("issuer_unreachable", f"the issuer of sign-ins cannot be reached: {why}")
