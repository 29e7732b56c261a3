"""The keys of a fleet: creates, rotates, revokes and looks them up.

A key that was read is cached for a moment (`concurrency/cache.py`). After that a revoked key opens nothing
at any replica.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from control_plane.access.keys import LIFE_MAX, USER, Key, Kind, Scope, bound, granted, id_of
from control_plane.concurrency.cache import Cache
from control_plane.model.run import AttemptToken
from control_plane.store.access.keys import Keys
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Conflict, NotFound, Rejected
from events.text.key_text import digest, letters, written

USE_NOTED_EVERY: Final = timedelta(minutes=1)
OVERLAP: Final = timedelta(days=1)
ADMIN: Final[Scope] = "admin"

Json = dict[str, Any]


class Unauthorized(Rejected):
    """The key is missing or wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedKey:
    """A key to make; without `scopes` it may do all that its kind may, without `life` it never ends.

    With `pod` it serves the pod of this name alone, with `projects` it submits runs of these alone.
    """

    kind: Kind
    name: str
    scopes: frozenset[Scope] | None = None
    life: timedelta | None = None
    pod: str | None = None
    projects: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key with its text, which is not stored."""

    text: str = field(repr=False)
    document: Json


@dataclass(slots=True)
class KeyRing:
    """The keys, with a cache of those that were looked up."""

    store: Keys
    clock: Clock
    ids: Ids
    _keys: Cache[Key | None] = field(init=False)
    _any: Cache[bool] = field(init=False)
    _noted: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._keys, self._any = Cache(self.clock), Cache(self.clock)

    async def make(self, wanted: WantedKey, *, by: str) -> NewKey:
        """Make and store a key. Raises `Rejected`."""
        now = self.clock.now()
        scopes = granted(wanted.kind, wanted.scopes)
        if wanted.name.startswith(USER):
            raise Rejected("bad_name", f"a key has no name that begins with {USER}: users have")
        if wanted.life is not None and not timedelta(0) < wanted.life <= LIFE_MAX:
            raise Rejected(
                "bad_life", f"a key is valid for one second to {LIFE_MAX.days} days, or without limit"
            )
        text = written(wanted.kind, letters(self.ids.token()))
        document: Json = {
            "_id": id_of(text),
            "kind": wanted.kind,
            "name": wanted.name,
            "pod": bound(wanted.kind, wanted.pod),
            **({"projects": list(wanted.projects)} if wanted.projects else {}),
            "hash": digest(text),
            "scopes": sorted(scopes),
            "createdBy": by,
            "createdAt": now,
            "endsAt": None if wanted.life is None else now + wanted.life,
            "lastUsedAt": None,
            "revokedAt": None,
            "revokedBy": None,
            "successor": None,
        }
        await self.store.create(document)
        self._any.forget(ADMIN)
        return NewKey(text, document)

    async def rotate(self, key_id: str, *, overlap: timedelta, by: str) -> NewKey:
        """Make a key like this one, and let this one expire after `overlap`, so that users can change.

        The new one lives as long as the old one was made to live. Raises `NotFound`, `Conflict`.
        """
        old = await self.find(key_id)
        if not timedelta(0) <= overlap <= LIFE_MAX:
            raise Rejected("bad_overlap", f"both keys are valid for 0 seconds to {LIFE_MAX.days} days")
        ends, begun = old["endsAt"], old["createdAt"]
        life = None if ends is None else ends - begun
        wanted = WantedKey(
            kind=old["kind"],
            name=old["name"],
            scopes=frozenset(old["scopes"]),
            life=life,
            pod=old.get("pod"),
            projects=old.get("projects") or (),
        )
        self._require_living(old)
        new = await self.make(wanted, by=by)
        if await self.store.succeed(key_id, new.document["_id"], self.clock.now() + overlap) is None:
            await self.store.revoke(new.document["_id"], by)
            raise Conflict("key_over", f"key {key_id} was rotated or revoked meanwhile; list the keys")
        self._keys.forget(key_id)
        return new

    async def revoke(self, key_id: str, *, by: str) -> Json:
        """Revoke a key and return it. Raises `NotFound`."""
        found = await self.store.revoke(key_id, by)
        self._keys.forget(key_id)
        if found is None:
            raise NotFound("no_such_key", f"there is no key {key_id}")
        return found

    async def find(self, key_id: str) -> Json:
        """Return a stored key. Raises `NotFound`."""
        found = await self.store.find(key_id)
        if found is None:
            raise NotFound("no_such_key", f"there is no key {key_id}")
        return found

    async def whose(self, text: str) -> Key:
        """Return the key with the text `text`. Raises `Unauthorized`, always with one message."""
        key_id = id_of(text)
        key = None if key_id is None else await self._known(key_id)
        kept = key.hash if key is not None else digest("")
        if not hmac.compare_digest(digest(text), kept) or key is None:
            raise Unauthorized("bad_key", "this key is not valid here")
        opened = self._opened(key)
        await self._note_use(key.id, self.clock.now())
        return opened

    async def same(self, key_id: str, key_hash: str) -> Key:
        """Return the key of this id, if its hash is the same and it is valid. Raises `Unauthorized`."""
        key = await self._known(key_id)
        if key is None or not hmac.compare_digest(key.hash, key_hash):
            raise Unauthorized("bad_key", "this key is not valid here")
        return self._opened(key)

    async def require_unrevoked(self, token: AttemptToken | None) -> None:
        """Refuse an attempt whose key was revoked: what it claimed ends with it. Raises `Conflict`."""
        key = None if token is None or token.key_id is None else await self._known(token.key_id)
        if key is not None and key.revoked_at is not None:
            raise Conflict("lease_lost", f"the key {key.id}, with which the attempt was claimed, is revoked")

    async def has_admin(self) -> bool:
        """Say whether a key that may do everything was ever made; believed as long as a key is.

        One that is over counts: revoking the last may shut everybody out, and let nobody in.
        """
        return await self._any.get(ADMIN, partial(self.store.has_any, ADMIN))

    def _opened(self, key: Key) -> Key:
        if not key.is_open(self.clock.now()):
            state = "has expired" if key.revoked_at is None else "is revoked"
            raise Unauthorized("key_over", f"key {key.id} ({key.name}) {state}")
        return key

    async def _known(self, key_id: str) -> Key | None:
        return await self._keys.get(key_id, partial(self._find, key_id))

    async def _find(self, key_id: str) -> Key | None:
        document = await self.store.find(key_id)
        return None if document is None else _key(document)

    async def _note_use(self, key_id: str, now: datetime) -> None:
        """Store the time of the last use, at intervals; it shows which keys are unused."""
        noted = self._noted.get(key_id)
        if noted is None or now - noted >= USE_NOTED_EVERY:
            self._noted[key_id] = now
            await self.store.used(key_id, now)

    def _require_living(self, document: Json) -> None:
        if document["successor"] is not None:
            raise Conflict(
                "key_over", f"key {document['_id']} is rotated already, to {document['successor']}"
            )
        if not _key(document).is_open(self.clock.now()):
            raise Conflict("key_over", f"key {document['_id']} is revoked or expired; make a new one")


def _key(document: Json) -> Key:
    return Key(
        id=document["_id"],
        kind=document["kind"],
        name=_name(document["name"]),
        hash=document["hash"],
        scopes=frozenset(document["scopes"]),
        created_at=document["createdAt"],
        ends_at=document["endsAt"],
        revoked_at=document["revokedAt"],
        pod=document.get("pod"),
        projects=tuple(document.get("projects") or ()),
    )


def _name(stored: str) -> str:
    """Return the name of a key; one of an earlier release may not pass for a user."""
    return f"key {stored}" if stored.startswith(USER) else stored
