"""Why a node of a job waits beside what keeps any run waiting: its project, its group, the other nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from control_plane.model.explanation import Reason
from control_plane.model.groups.matrix import Matrix
from control_plane.model.groups.plan import group_of
from control_plane.model.groups.status import GroupStatus
from control_plane.model.views.readable import UnreadableDocument, reading_of
from control_plane.store.access.projects import Projects
from control_plane.store.database import Database
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.races import Races
from events.lifecycle import INITIAL, LIVE
from events.queue.requirements import RunClass, read_class
from events.runtime.errors import Rejected

WAITING: Final = INITIAL | set(LIVE)


async def node_reasons(db: Database, run: Mapping[str, Any]) -> list[Reason]:
    """Return why a node has not begun; of any other run, and of a damaged group, nothing."""
    name = run.get("groupId")
    if name is None or run["status"] not in WAITING or _has_begun(run):
        return []
    stored = await Groups(db).find(name)
    if stored is None:
        return []
    try:
        with reading_of("group", name):
            group = group_of(stored)
    except UnreadableDocument:
        return []
    if not isinstance(group.plan, Matrix) or not group.plan.nodes:
        return []
    found: list[Reason] = []
    wanted = read_class(run["classKey"])
    if (why := await too_many(db, wanted, group.plan.nodes)) is not None:
        evidence = {"nodes": group.plan.nodes, "gpus": wanted.gpus, "project": wanted.project}
        found.append(Reason("quota_too_small", why, evidence))
    if group.status is GroupStatus.PAUSED:
        message = f"group {name} is paused: its nodes leave the pods to others until it is resumed"
        return [*found, Reason("group_paused", message, {"group": name})]
    members = await Races(db).nodes(name, group.first)
    ready = [each for each in members if each.ready_at is not None and each.status in LIVE]
    left = {str(each.rank): str(each.status) for each in members if each not in ready}
    message = f"the {group.plan.nodes} nodes of {name} begin together, and {len(ready)} are ready"
    others = (each for each in members if each.run_id != run["_id"] and each not in ready)
    if (other := next(others, None)) is not None:
        message += f"; node {other.rank} is {other.status}"
    evidence = {"group": name, "nodes": group.plan.nodes, "ready": len(ready), "missing": left}
    return [*found, Reason("waits_for_nodes", message, evidence)]


async def too_many(db: Database, wanted: RunClass, nodes: int) -> str | None:
    """Return why so many runs of a class can never run at once, by the GPUs of their project; else None."""
    quotas = ((await Projects(db).find(wanted.project)) or {}).get("quotas")
    most = quotas.get("gpus") if isinstance(quotas, Mapping) else None
    if not wanted.gpus or not isinstance(most, int) or nodes * wanted.gpus <= most:
        return None
    each = "1 GPU" if wanted.gpus == 1 else f"{wanted.gpus} GPUs"
    need = f"{nodes} nodes with {each} each need {nodes * wanted.gpus} at once"
    return f"{need}, and project {wanted.project} may have {most}: take fewer nodes, or have its quota raised"


async def require_room(db: Database, wanted: RunClass, nodes: int) -> None:
    """Check that so many runs of a class can run at once. Raises `Rejected`."""
    if (why := await too_many(db, wanted, nodes)) is not None:
        raise Rejected("over_quota", f"plan.nodes: {why}")


def _has_begun(run: Mapping[str, Any]) -> bool:
    node = run.get("node")
    return isinstance(node, Mapping) and node.get("attempt") == run["attempt"] and run["status"] in LIVE
