"""Where a webhook sends to, and what it signs with: kept encrypted, because a URL of a chat is a password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from control_plane.access.secrets.encryption import Cipher, Sealed
from control_plane.store.database import Document
from events.runtime.errors import Conflict


class _Kept(msgspec.Struct):
    url: str
    secrets: list[str]


@dataclass(frozen=True, slots=True)
class Target:
    """A URL, and the secrets of its signatures: the newest first, a second one during a rotation."""

    url: str = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def sealed(cipher: Cipher, webhook_id: str, target: Target) -> Document:
    """Return a target as it is stored. Raises `Conflict` where there is no key for secrets."""
    text = msgspec.json.encode(_Kept(target.url, list(target.secrets))).decode()
    found = cipher.seal(_name(webhook_id), text)
    return {"sealed": found.data, "keyId": found.key_id}


def opened(cipher: Cipher, webhook: Mapping[str, Any]) -> Target:
    """Return the target of a stored webhook. Raises `Conflict` where it cannot be read here."""
    kept, webhook_id = Sealed(webhook["keyId"], webhook["sealed"]), webhook["_id"]
    text = cipher.open(_name(webhook_id), kept) if cipher.has(kept) else None
    if text is None:
        message = f"this control plane cannot decrypt the target of webhook {webhook_id}: give it anew"
        raise Conflict("unreadable_target", message)
    found = msgspec.json.decode(text, type=_Kept)
    return Target(found.url, tuple(found.secrets))


def _name(webhook_id: str) -> str:
    return f"webhook/{webhook_id}"
