"""What the entries of an oplog change: documents put, patched and removed; pure.

Law: entries may be applied to documents that are newer than they are, as a dump has them; behind the last
entry every document is as it was at that moment. So what an entry does not find is no error: a later one
removed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from events.runtime.errors import Rejected

Document = dict[str, Any]
# Commands that leave every document as it is: indexes are built by the migration.
HARMLESS: Final = frozenset(
    {
        "create", "createIndexes", "startIndexBuild", "commitIndexBuild", "abortIndexBuild", "dropIndexes",
        "collMod",
    }
)  # fmt: skip
DIFF_VERSION: Final = 2  # of MongoDB 5 to 8
DEPTH_MAX: Final = 200  # MongoDB's own limit of a document
LENGTH_MAX: Final = 16_777_216  # of an array: a document has no more bytes


@dataclass(frozen=True, slots=True)
class Put:
    """The document is this one."""

    collection: str
    id: Any
    document: Document


@dataclass(frozen=True, slots=True)
class Patch:
    """These fields of the document change, if there is one."""

    collection: str
    id: Any
    diff: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """There is no such document."""

    collection: str
    id: Any


@dataclass(frozen=True, slots=True)
class Drop:
    """The collection has no documents."""

    collection: str


Change = Put | Patch | Remove | Drop


def changes(entry: Mapping[str, Any], database: str) -> Iterator[Change]:
    """Yield what an entry changes in a database. Raises `Rejected` for what nobody here can apply."""
    try:
        yield from _changes(entry, database)
    except (KeyError, TypeError, AttributeError) as error:
        raise _unknown(f"an entry without {error}") from error


def _changes(entry: Mapping[str, Any], database: str) -> Iterator[Change]:
    home, _, collection = entry["ns"].partition(".")
    operation, body = entry["op"], entry["o"]
    if operation == "c" and "applyOps" in body:
        if body.get("partialTxn") or body.get("prepare"):
            raise _unknown("a transaction of several entries")
        for each in body["applyOps"]:
            yield from _changes(each, database)
    elif home != database or operation == "n":
        return
    elif operation == "i":
        yield Put(collection, body["_id"], body)
    elif operation == "d":
        yield Remove(collection, body["_id"])
    elif operation == "u":
        yield _update(collection, entry["o2"]["_id"], body)
    elif operation == "c" and "drop" in body:
        yield Drop(body["drop"])
    elif operation != "c" or not HARMLESS & set(body):
        raise _unknown(f"{operation} {next(iter(body), '')}")


def _update(collection: str, document_id: Any, body: Document) -> Change:
    if "$v" not in body:
        return Put(collection, document_id, body)
    if body["$v"] != DIFF_VERSION or not isinstance(body["diff"], dict):
        raise _unknown("an update of another version")
    return Patch(collection, document_id, body["diff"])


def patched(document: Document, diff: Mapping[str, Any], depth: int = 0) -> Document:
    """Return a document with the changes of an update entry (`$v: 2`). Raises `Rejected`."""
    if depth > DEPTH_MAX:
        raise _unknown("a change that is too deep")
    found = dict(document)
    for name, change in diff.items():
        if not isinstance(change, dict):
            raise _unknown(f"a change {name!r}")
        if name == "d":
            for each in change:
                found.pop(each, None)
        elif name in {"u", "i"}:
            for each, value in change.items():
                if name == "i":
                    found.pop(each, None)  # it is the last one now
                found[each] = value
        elif name.startswith("s"):
            _patch_part(found, name[1:], change, depth)
        else:
            raise _unknown(f"a change {name!r}")
    return found


def _patch_part(found: Any, at: Any, change: Any, depth: int) -> None:
    if not isinstance(change, dict):
        raise _unknown(f"a change {change!r}")
    part = found[at] if isinstance(found, list) else found.get(at)
    if change.get("a") is True:
        if isinstance(part, list):
            found[at] = _patched_list(part, change, depth + 1)
    elif isinstance(part, dict):
        found[at] = patched(part, change, depth + 1)


def _patched_list(items: list[Any], diff: Mapping[str, Any], depth: int) -> list[Any]:
    if depth > DEPTH_MAX:
        raise _unknown("a change that is too deep")
    found, length = [*items], None
    for name, change in diff.items():
        if name == "a":
            continue
        if name == "l":
            length = _position(change)
            continue
        at = _position(int(name[1:]) if name[1:].isdecimal() and name.isascii() else None)
        if name[0] not in {"u", "s"}:
            raise _unknown(f"a change {name!r} of an array")
        found += [None] * (at + 1 - len(found))
        if name[0] == "u":
            found[at] = change
        else:
            _patch_part(found, at, change, depth)
    return found if length is None else found[:length]


def _position(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < LENGTH_MAX:
        raise _unknown("a position that no array has")
    return value


def _unknown(what: str) -> Rejected:
    return Rejected("bad_backup", f"the oplog has {what}, which cannot be applied; try again at another time")
