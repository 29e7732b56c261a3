"""The state of a store as a whole: the version of its schema, and whether a restore is under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from control_plane.store.database import Database, answers
from events.runtime.errors import ConfigError
from events.runtime.guarantees import RESTORE, STATE

SCHEMA: Final = "schema"
VERSION: Final = 1  # what this program makes of a store; a store without a record has the first one
WORKS_BESIDE: Final = 1  # the oldest version whose programs may work on the store beside this one
VERSION_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Recorded:
    """The version of a store's schema, and the oldest one whose programs may work on it."""

    version: int
    works_beside: int


def problems(schema: Mapping[str, Any] | None, restore: Mapping[str, Any] | None) -> list[str]:
    """Return why this program must not work on a store with these records."""
    found = []
    if restore is not None:
        begun = f"the backup {restore.get('backup')} is being restored here"
        found.append(f"{begun}: wait for `podfleet restore`, or call it again where it was cut off")
    recorded = read(schema)
    if recorded is None:
        found.append("the record of the store's schema cannot be read: restore a backup")
    elif recorded.works_beside > VERSION:
        newer = f"the store has schema version {recorded.version}, and this program knows {VERSION}"
        found.append(f"{newer}: it is too old for this store; install a newer podfleet")
    return found


def read(schema: Mapping[str, Any] | None) -> Recorded | None:
    """Return what a record of the schema says, None where it is unreadable."""
    if schema is None:
        return Recorded(1, 1)
    values = schema.get("version"), schema.get("worksBeside")
    version, beside = (
        each if isinstance(each, int) and not isinstance(each, bool) and 0 < each <= VERSION_MAX else 0
        for each in values
    )
    return Recorded(version, beside) if version and beside else None


@answers()
async def require(db: Database) -> None:
    """Refuse a store that is newer than this program, or half restored. Raises `ConfigError`, `Transient`."""
    records = {each["_id"]: each async for each in db[STATE].find({"_id": {"$in": [SCHEMA, RESTORE]}})}
    if found := problems(records.get(SCHEMA), records.get(RESTORE)):
        raise ConfigError(found)


@answers()
async def version(db: Database) -> int:
    """Return the version of the store's schema. Raises `ConfigError` for one that this program refuses."""
    schema = await db[STATE].find_one({"_id": SCHEMA})
    if found := problems(schema, None):
        raise ConfigError(found)
    recorded = read(schema)
    assert recorded is not None
    return recorded.version


@answers()
async def record(db: Database, version: int, works_beside: int) -> None:
    """Record the version that the store has from now on; it never goes back."""
    await db[STATE].update_one(
        {"_id": SCHEMA}, {"$max": {"version": version, "worksBeside": works_beside}}, upsert=True
    )


@answers()
async def reset(db: Database, version: int) -> None:
    """Record the version of documents that were restored, whatever the store had before."""
    await db[STATE].replace_one({"_id": SCHEMA}, {"version": version, "worksBeside": 1}, upsert=True)


@answers()
async def restoring(db: Database) -> str | None:
    """Return the id of the backup that is being restored, if one is."""
    found = await db[STATE].find_one({"_id": RESTORE})
    return None if found is None else str(found.get("backup"))


@answers()
async def begin_restore(db: Database, backup: str, now: datetime) -> None:
    """Mark the store: control planes refuse it until the restore is over."""
    await db[STATE].replace_one({"_id": RESTORE}, {"backup": backup, "at": now}, upsert=True)


@answers()
async def end_restore(db: Database) -> None:
    """Take the mark away."""
    await db[STATE].delete_one({"_id": RESTORE})
