"""Signs deliveries as Standard Webhooks says: HMAC-SHA256 over id, time and body; pure.

A receiver takes a delivery if any of the signatures fits: during a rotation there are two.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

PREFIX: Final = "whsec_"
VERSION: Final = "v1"


def new_secret(random: bytes) -> str:
    """Return a secret of these random bytes, 24 to 64 of them as the specification says."""
    assert 24 <= len(random) <= 64
    return PREFIX + base64.b64encode(random).decode()


def headers(secrets: Sequence[str], message_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery that is sent at `at_s`, in seconds since 1970."""
    signed = f"{message_id}.{at_s}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"{VERSION},{_signature(each, signed)}" for each in secrets),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
