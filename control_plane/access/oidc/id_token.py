"""Verifies an ID token: its signature by a key of the issuer, and each claim that says for whom it is, pure.

Law: RS256 and ES256 only, by a key of the issuer's own set whose type fits; what a token says of its key
besides the key's id counts for nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from joserfc import jwk, jws
from joserfc.errors import JoseError

from events.runtime.errors import Rejected

TOKEN_BYTES_MAX: Final = 64 * 1024
SUB_CHARS_MAX: Final = 255
KEYS_MAX: Final = 100
RSA_BITS_MIN: Final = 2_048
SKEW_S: Final = 60
AGE_S_MAX: Final = 600  # an ID token is of this sign-in
MOMENT_MAX: Final = 2**53  # a number of seconds beyond it is no moment, and may be no float
KEY_TYPES: Final = {"RS256": "RSA", "ES256": "EC"}

Jwk = dict[str, Any]


class UnknownKey(Rejected):
    """No key of the set has the id that a token names: the set may be older than the key."""


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def read_keys(body: bytes) -> tuple[Jwk, ...]:
    """Return the keys of an issuer's set that could sign. Raises `Rejected`."""
    try:
        found = msgspec.json.decode(body, type=_KeySet).keys[:KEYS_MAX]
    except (ValueError, RecursionError) as error:
        raise _bad("the issuer's set of keys cannot be read") from error
    public = ("kty", "kid", "alg", "use", "n", "e", "crv", "x", "y")
    keys = ({name: each[name] for name in public if isinstance(each.get(name), str)} for each in found)
    return tuple(each for each in keys if each.get("kty") in KEY_TYPES.values() and _signs(each))


def verified(
    token: str, keys: Sequence[Jwk], *, issuer: str, client_id: str, nonce: str | None, now: datetime
) -> Mapping[str, Any]:
    """Return the claims of a token that is for us and of this moment. Raises `UnknownKey`, `Rejected`.

    Without a `nonce` it is one that came with a refresh, which need not name it.
    """
    claims = _signed(token, keys)
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") != issuer:
        raise _bad("it is of another issuer")
    if client_id not in audiences:
        raise _bad("it is for another client")
    azp = claims.get("azp")
    if (len(audiences) > 1 and azp is None) or (azp is not None and azp != client_id):
        raise _bad("it was given to another client")
    now_s = now.timestamp()
    expires_s, issued_s = _moment(claims, "exp"), _moment(claims, "iat")
    if expires_s + SKEW_S <= now_s:
        raise _bad("it has expired")
    if not now_s - AGE_S_MAX <= issued_s <= now_s + SKEW_S:
        raise _bad("it was not issued now")
    said = claims.get("nonce")
    if nonce is not None and not (
        isinstance(said, str) and hmac.compare_digest(said.encode(), nonce.encode())
    ):
        raise _bad("it is of another sign-in")
    sub = claims.get("sub")
    if not isinstance(sub, str) or not 0 < len(sub) <= SUB_CHARS_MAX or not sub.isprintable():
        raise _bad("it names nobody")
    return claims


def _signed(token: str, keys: Sequence[Jwk]) -> Mapping[str, Any]:
    if len(token) > TOKEN_BYTES_MAX or not token.isascii():
        raise _bad("it is too long")
    try:
        header = msgspec.convert(jws.extract_compact(token.encode()).headers(), _Header)
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise _bad("it cannot be read") from error
    kind = KEY_TYPES.get(header.alg)
    if kind is None:
        raise _bad("it is signed by an algorithm that is not accepted")
    fitting = [each for each in keys if each["kty"] == kind and each.get("alg", header.alg) == header.alg]
    if header.kid is not None:
        fitting = [each for each in fitting if each.get("kid") == header.kid]
    if len(fitting) != 1:
        raise UnknownKey("bad_id_token", "the ID token is not accepted: no key of the issuer fits it")
    try:
        key = jwk.import_key(fitting[0])
        if isinstance(key, jwk.RSAKey) and key.raw_value.key_size < RSA_BITS_MIN:
            raise _bad("its key is too short")
        payload = jws.deserialize_compact(token.encode(), key, algorithms=[header.alg]).payload
        return msgspec.json.decode(payload or b"", type=dict[str, Any])
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise _bad("its signature is wrong") from error


def _moment(claims: Mapping[str, Any], name: str) -> float:
    found = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise _bad(f"it has no {name}")
    if not abs(found) <= MOMENT_MAX:
        raise _bad(f"its {name} is no moment")
    return float(found)


def _signs(key: Jwk) -> bool:
    is_signature = key.get("use", "sig") == "sig"
    return bool(is_signature and key.get("crv", "P-256") == "P-256")


def _bad(why: str) -> Rejected:
    return Rejected("bad_id_token", f"the ID token is not accepted: {why}")
