"""The register of verdicts on each data set: how many there were, and a page of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Slice, Wanted, read_page
from events.kinds.experiment import DATA_USES

ENTRIES_MAX: Final = 200_000  # that are looked through for one attempt, in the index alone
COUNTED_MAX: Final = 1_000  # groups of rows that are told
INDEX: Final = "by_rows"


async def verdicts_on_rows(db: Database, but: str) -> Mapping[str, Any]:
    """Return how many verdicts there are on the rows of each data set, those of the run `but` left out.

    An entry is the last word of a run on these rows; what was measured once and told by several runs is one.
    `isWhole` says whether all of them were looked at.
    """
    async with answers():
        cursor = await db[DATA_USES].aggregate(counting(but), hint=INDEX)
        groups = await cursor.to_list()
        seen = await db[DATA_USES].estimated_document_count()
    counts = {f"{each['_id']['data']} {each['_id']['part']}": each["verdicts"] for each in groups}
    return {"verdicts": counts, "isWhole": seen <= ENTRIES_MAX and len(groups) <= COUNTED_MAX}


def counting(but: str) -> list[Document]:
    """Return the pipeline of that count; the index gives all that it asks for."""
    rows = {"data": "$data", "part": "$part"}
    return [
        {"$sort": {"data": 1, "part": 1, "runId": 1, "attempt": 1}},
        {"$limit": ENTRIES_MAX},
        {"$match": {"runId": {"$ne": but}}},
        {"$group": {"_id": {**rows, "runId": "$runId"}, "measurement": {"$last": "$measurement"}}},
        {"$group": {"_id": {"data": "$_id.data", "part": "$_id.part", "measurement": "$measurement"}}},
        {"$group": {"_id": {"data": "$_id.data", "part": "$_id.part"}, "verdicts": {"$sum": 1}}},
        {"$limit": COUNTED_MAX + 1},
    ]


async def page_of_uses(db: Database, data: str | None, after: Sequence[Any] | None, limit: int) -> Slice:
    """Return a page of the register, the newest run first; those of one data set where it is named."""
    leading = {} if data is None else {"data": data}
    return await read_page(db, Wanted(collection=DATA_USES, leading=leading, after=after, limit=limit))
