"""The search tree as part of a run, and pages of its nodes with their code and output."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from control_plane.kinds.experiment import tree
from control_plane.model.presentation import plain
from control_plane.reads import paging
from control_plane.reads.kinds.parts import KindPart
from control_plane.reads.reading import Reading
from control_plane.store.reads import ARRIVAL, NUMBERED, Part, RunReads
from events.answers.runs import Nodes
from events.catalog import type_of
from events.kinds.experiment import DATA_USES, DataWarned

Json = dict[str, Any]

NODES_MAX: Final = 50  # of a page of nodes, each with its code
NODES_RANK: Final = 60
NODE_EVENTS_MAX: Final = 10_000
WARNING_EVENTS_MAX: Final = 200
NODES_BYTES_MAX: Final = 16 * 1024 * 1024
TEXTS_BYTES_MAX: Final = 8 * 1024 * 1024


async def node_events(reads: RunReads, run_id: str) -> Part:
    """Return the events of a run's search tree in the order of arrival, without codes and logs."""
    query = {"runId": run_id, "type": {"$in": list(tree.TREE_TYPES)}, **NUMBERED}
    hidden = {"data.code": 0, "data.log_tail": 0}
    return await reads.part("events", query, hidden, ARRIVAL, NODE_EVENTS_MAX, NODES_BYTES_MAX)


async def events_of_nodes(reads: RunReads, run_id: str, nodes: Sequence[str]) -> Part:
    """Return the events of some nodes of a run's search tree, whole."""
    of_nodes = {"type": {"$in": list(tree.NODE_TYPES)}, "data.node": {"$in": list(nodes)}}
    query = {"runId": run_id, **of_nodes, **NUMBERED}
    return await reads.part("events", query, None, ARRIVAL, NODE_EVENTS_MAX, TEXTS_BYTES_MAX)


async def page_of_nodes(
    reading: Reading, run_id: str, limit: int = NODES_MAX, after: str | None = None
) -> Nodes:
    """Return a page of a run's nodes in the order of their creation, with code and log tail.

    Raises `NotFound`.
    """
    async with reading.large_reads:
        await reading.require(run_id)
        return await _page(reading.run_reads, run_id, limit, after)


async def _page(reads: RunReads, run_id: str, limit: int, after: str | None) -> Nodes:
    first = 0 if after is None else max(0, int(paging.decode("nodes", after, int)[0]))
    last = first + min(paging.limited(limit), NODES_MAX)
    known = tree.nodes((await node_events(reads, run_id)).documents)
    wanted = known[first:last]
    events = await events_of_nodes(reads, run_id, [node["id"] for node in wanted])
    while events.is_cut and len(wanted) > 1:  # a page of fewer nodes has them whole
        wanted = wanted[: len(wanted) // 2]
        events = await events_of_nodes(reads, run_id, [node["id"] for node in wanted])
    last = first + len(wanted)
    return Nodes(
        items=await asyncio.to_thread(_whole, wanted, events.documents),
        next=paging.encode("nodes", last) if last < len(known) else None,
        truncated=[*tree.TEXTS] if events.is_cut else [],
    )


def _whole(wanted: Sequence[Json], events: Sequence[Json]) -> list[Json]:
    """Return nodes of a tree as JSON, with the texts of their events."""
    whole = {(node["stage"], node["id"]): node for node in tree.nodes(events)}
    items: list[Json] = []
    for node in wanted:
        texts = whole.get((node["stage"], node["id"]), node)
        items.append(plain({**node, **{name: texts[name] for name in tree.TEXTS}}))
    return items


def without_texts(events: Sequence[Json]) -> Sequence[Json]:
    """Return the nodes that the events of a search tree describe, without their long texts."""
    return [{name: node[name] for name in node if name not in tree.TEXTS} for node in tree.nodes(events)]


async def warning_events(reads: RunReads, run_id: str) -> Part:
    """Return the warnings about a run's data in the order of arrival."""
    query = {"runId": run_id, "type": {"$in": [type_of(DataWarned)]}, **NUMBERED}
    return await reads.part("events", query, None, ARRIVAL, WARNING_EVENTS_MAX, TEXTS_BYTES_MAX)


def of_latest_attempt(events: Sequence[Json]) -> Sequence[Json]:
    """Return what the latest attempt warned of, each once."""
    said = [(each["attempt"], fact.says) for each in events if (fact := _warning(each)) is not None]
    latest = max((attempt for attempt, _ in said), default=0)
    return [{"says": each} for each in dict.fromkeys(says for attempt, says in said if attempt == latest)]


def _warning(event: Json) -> DataWarned | None:
    """Return what an event warns of; None where it is no such event, whatever else it holds."""
    if event.get("type") != type_of(DataWarned):
        return None
    try:
        return msgspec.convert(event.get("data"), DataWarned)
    except msgspec.ValidationError:
        return None


async def data_uses(reads: RunReads, run_id: str) -> Part:
    """Return the verdicts of a run on rows of its data set, those of its attempts in their order."""
    return await reads.beside(DATA_USES, [run_id], (("attempt", 1),))


def uses_of_latest(documents: Sequence[Json]) -> Sequence[Json]:
    """Return the rows that judged a run by the word of its latest attempt on each part of them."""
    latest = {each["part"]: each for each in documents}  # the latest attempt last
    return [{name: each.get(name) for name in _USE} for each in latest.values()]


_USE: Final = (
    "name", "part", "earlier", "says", "data", "rows", "conclusion", "pValue", "pBeside", "measurement",
)  # fmt: skip
TREE: Final = KindPart(
    name="nodes",
    title="Search tree",
    rank=60,
    columns=("stage", "id", "parent", "status", "metric", "metricName", "arm", "bestOf", "seconds"),
    read=node_events,
    rows=without_texts,
    tab="tree",
)
PARTS: Final = (
    TREE,
    KindPart(
        name="dataUses",
        title="Verdicts on these data",
        rank=45,
        columns=("name", "part", "earlier", "says"),
        read=data_uses,
        rows=uses_of_latest,
        tab="validation",
    ),
    KindPart(
        name="dataWarnings",
        title="Warnings about the data",
        rank=55,
        columns=("says",),
        read=warning_events,
        rows=of_latest_attempt,
        tab="validation",
    ),
)
