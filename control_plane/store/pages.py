"""Pages of a collection: in the order of an index, after a key, with a bounded scan.

Law: one leading filter is served by an index that also gives the order; the others are residual. A page
scans `SCAN_MAX` documents at most. If residual filters leave it short before the list's end, it is partial
and returns where the scan ended. It holds documents of `PAGE_BYTES_MAX` at most, but always one, because
pods decide how long their data are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bson import decode
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor

from control_plane.store.database import Database, Document, answers

SCAN_MAX: Final = 3_000
PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
HEAVY_BYTES: Final = 64 * 1024
VALUE_BYTES: Final = 4  # what a value is taken for beyond its bytes: time goes by values

Order = tuple[tuple[str, int], ...]
NEWEST: Final[Order] = (("_id", -1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a page shall hold: `leading` names the index, `after` the key that it follows.

    `index` is the name of the one whose order it is, where the planner could take another and sort.
    """

    collection: str
    leading: Mapping[str, Any] = field(default_factory=dict)
    residual: Mapping[str, Any] = field(default_factory=dict)
    order: Order = NEWEST
    after: Sequence[Any] | None = None
    limit: int
    hidden: Sequence[str] = ()
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A page's documents, and the key after which the next one begins; None at the list's end."""

    documents: Sequence[Document]
    stopped_at: Sequence[Any] | None


def raw(db: Database, collection: str) -> AsyncCollection[RawBSONDocument]:
    """Return a collection whose documents stay as they came, for `read_bounded`."""
    options = db.codec_options.with_options(document_class=RawBSONDocument)
    return db.get_collection(collection, codec_options=options)  # type: ignore[return-value] # of the class above


async def read_bounded(
    db: Database, cursor: AsyncCursor[RawBSONDocument], bytes_max: int
) -> tuple[list[Document], bool]:
    """Return documents up to `bytes_max` bytes together, the first in any case.

    The second value says whether others were left out.
    """
    documents: list[Document] = []
    left = bytes_max
    async with cursor:
        async for each in cursor:
            size = weight(bytes(each.raw))
            left -= size
            if left < 0 and documents:
                return documents, True
            documents.append(decode(each.raw, db.codec_options))
            if size > HEAVY_BYTES:
                await asyncio.sleep(0)  # others go on meanwhile
    return documents, False


def weight(document: bytes) -> int:
    """Return the bytes of a stored document and what its values take beyond them to be read and told.

    They are not counted, but in BSON each has a zero byte behind its name.
    """
    return len(document) + VALUE_BYTES * document.count(0)


async def read_page(db: Database, wanted: Wanted) -> Slice:
    """Return the page. Raises `Transient` when the store does not answer."""
    async with answers():
        bound = await _bound(db, wanted) if wanted.residual else None
        conditions = [wanted.leading, wanted.residual, _following(wanted.order, wanted.after)]
        if bound is not None:
            conditions.append({"$nor": [_following(wanted.order, bound)]})
            (name, direction), value = wanted.order[0], bound[0]
            # of several fields the planner takes no bound out of that: it would walk on to the end
            if len(bound) > 1 and value is not None and name in wanted.leading:
                conditions.append({name: {"$lte" if direction > 0 else "$gte": value}})
        cursor = (
            raw(db, wanted.collection)
            .find(_all(conditions), dict.fromkeys(wanted.hidden, 0) or None)
            .sort(list(wanted.order))
            .limit(wanted.limit + 1)
        )
        if wanted.index is not None:
            cursor = cursor.hint(wanted.index)
        documents, is_cut = await read_bounded(db, cursor, PAGE_BYTES_MAX)
    if len(documents) > wanted.limit or is_cut:
        documents = documents[: wanted.limit]
        return Slice(documents, _key(wanted.order, documents[-1]))
    return Slice(documents, bound)


async def _bound(db: Database, wanted: Wanted) -> list[Any] | None:
    """Return the key of the last document that this page may look at; None when the end is nearer."""
    # without more than the key, so that an index that has it all is enough
    fields = {"_id": 0, **dict.fromkeys((name for name, _ in wanted.order), 1)}
    cursor = (
        db[wanted.collection]
        .find(
            _all([wanted.leading, _following(wanted.order, wanted.after)]),
            fields,
        )
        .sort(list(wanted.order))
        .skip(SCAN_MAX - 1)
        .limit(1)
    )
    for document in await cursor.to_list():
        return _key(wanted.order, document)
    return None


def _all(conditions: Sequence[Mapping[str, Any]]) -> Document:
    filled = [dict(condition) for condition in conditions if condition]
    return {"$and": filled} if filled else {}


def _following(order: Order, key: Sequence[Any] | None) -> Document:
    """Return the condition that holds for what stands behind `key` in `order`."""
    if key is None:
        return {}
    branches: list[Document] = []
    equal: Document = {}
    for (name, direction), value in zip(order, key, strict=True):
        branches.append({**equal, name: {"$gt" if direction > 0 else "$lt": value}})
        equal[name] = value
    return branches[0] if len(branches) == 1 else {"$or": branches}


def _key(order: Order, document: Mapping[str, Any]) -> list[Any]:
    return [document.get(name) for name, _ in order]
