"""Queries on the results of inspections of objects."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from control_plane.store.database import Database, answers


@dataclass(frozen=True, slots=True)
class Version:
    """The version of an object by its head request; another content has another version."""

    size: int
    etag: str
    modified: str


@dataclass(frozen=True, slots=True)
class Looked:
    """A version of an object, and the SHA-256 of its bytes in hexadecimal.

    It `is_settled` where no object that is put later can have the same version.
    """

    version: Version
    sha256: str
    is_settled: bool = True


class _Stored(msgspec.Struct):
    size: int
    etag: str
    modified: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Inspections:
    """Objects that were read whole, by their keys."""

    db: Database

    @answers()
    async def find(self, key: str) -> Looked | None:
        """Return the stored result of an inspection, None if there is no valid one."""
        document = await self.db.inspections.find_one({"_id": key})
        if document is None:
            return None
        try:
            stored = msgspec.convert(document, _Stored)
        except msgspec.ValidationError:
            return None
        return Looked(Version(stored.size, stored.etag, stored.modified), stored.sha256)

    @answers()
    async def keep(self, key: str, looked: Looked) -> None:
        """Store the result of an inspection."""
        version = looked.version
        note = {
            "size": version.size,
            "etag": version.etag,
            "modified": version.modified,
            "sha256": looked.sha256,
        }
        await self.db.inspections.replace_one({"_id": key}, note, upsert=True)
