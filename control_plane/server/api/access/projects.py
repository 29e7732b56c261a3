"""Projects: set with the scope `admin`, and shown with what they have used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Response
from pydantic import Field

from control_plane.model.presentation import plain
from control_plane.model.views.readable import those_readable
from control_plane.reads.ledger.documents import project_of
from control_plane.server.api.contract.bodies import WHOLE, Body, ProjectName
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import THE_SAME, MayRead
from control_plane.server.deps import Deps
from control_plane.store.access.projects import Projects
from events.answers.access.projects import Project, ProjectQuotas
from events.answers.answer import Listing
from events.answers.fleet import QueuedClass
from events.queue.fair.shares import DEFAULT, PROJECTS_MAX, shares_in
from events.queue.fair.usage import HOUR_S, WEIGHT_MAX
from events.runtime.errors import Conflict, NotFound

GPUS_MAX: Final = 100_000


class QuotasBody(Body):
    """The limits of a project: GPUs at once, GPU hours and dollars of a calendar month; null: no limit."""

    gpus: Annotated[int, Field(ge=0, le=GPUS_MAX), WHOLE] | None = None
    gpu_hours: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    usd: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None


class ProjectBody(Body):
    """What a project shall have: of two that wait, one of twice the weight gets twice the GPU time."""

    weight: Annotated[float, Field(ge=0.001, le=WEIGHT_MAX, allow_inf_nan=False)] = 1.0
    quotas: QuotasBody = Field(default_factory=QuotasBody)


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/projects`."""
    routes = Routes(prefix="/api/projects", tags=["projects"])

    @routes.get("")
    async def page(_: MayRead) -> Listing[Project]:
        return Listing(items=await listed(deps), next=None)

    @routes.get("/{project_id}")
    async def one(project_id: ProjectName, _: MayRead) -> Project:
        found = next((each for each in await listed(deps) if each.id == project_id), None)
        if found is None:
            raise NotFound("unknown_project", f"there is no project {project_id}")
        return found

    @routes.put("/{project_id}", status_code=201, responses=THE_SAME)
    async def put(
        project_id: ProjectName, body: ProjectBody, principal: MaySteer, response: Response
    ) -> Project:
        is_new = await set_project(deps, project_id, body, by=principal.name)
        response.status_code = 201 if is_new else 200
        response.headers["Location"] = f"/api/projects/{project_id}"
        return await one(project_id, principal)

    return routes


async def set_project(deps: Deps, name: str, body: ProjectBody, *, by: str) -> bool:
    """Set a project, and say whether it is new. Raises `Conflict`."""
    store = Projects(deps.db)
    if await store.find(name) is None and not await store.has_room():
        raise Conflict("too_many_projects", f"there are {PROJECTS_MAX} projects, and there can be no more")
    quotas = {"gpus": body.quotas.gpus, "gpuHours": body.quotas.gpu_hours, "usd": body.quotas.usd}
    found = await store.put(name, {"weight": body.weight, "quotas": quotas, "setBy": by})
    is_new: bool = found["createdAt"] == found["setAt"]
    return is_new


async def listed(deps: Deps) -> list[Project]:
    """Return all projects by name, the default one among them."""
    store = Projects(deps.db)
    stored, told = await store.all(), await store.shares() or {}
    overview = await deps.reading.overview()
    read = shares_in(told)  # what is odd in it is left out
    shares = {each["name"]: each for each in told["projects"] if _is_in(read, each)} if read else {}
    whole = sum(each.used for each in read.values())
    waiting = _waiting(overview.queue)
    if DEFAULT not in {each["_id"] for each in stored}:
        stored.append({"_id": DEFAULT, "weight": 1.0, "quotas": {}})
    found = those_readable(
        "project",
        sorted(stored, key=lambda each: str(each["_id"])),
        lambda each: _shown(each, shares.get(each["_id"], {}), whole, waiting, told.get("at")),
    )
    return list(found)


def _is_in(read: Mapping[str, Any], told: object) -> bool:
    return isinstance(told, Mapping) and isinstance(told.get("name"), str) and told["name"] in read


def _waiting(queue: Iterable[QueuedClass]) -> dict[str, tuple[int, bool]]:
    found: dict[str, tuple[int, bool]] = defaultdict(lambda: (0, False))
    for each in queue:
        count, is_partial = found[name := project_of(each.class_key)]
        found[name] = (count + each.depth, is_partial or each.is_partial)
    return found


def _shown(
    stored: Mapping[str, Any],
    share: Mapping[str, Any],
    whole: float,
    waiting: Mapping[str, tuple[int, bool]],
    told_at: Any,
) -> Project:
    quotas, used = stored["quotas"], float(share.get("used", 0.0))
    count, is_partial = waiting[stored["_id"]]
    return Project(
        id=stored["_id"],
        weight=float(stored["weight"]),
        quotas=ProjectQuotas(
            gpus=quotas.get("gpus"), gpu_hours=quotas.get("gpuHours"), usd=quotas.get("usd")
        ),
        recent_gpu_hours=used / HOUR_S,
        share=used / whole if whole else 0.0,
        gpus=int(share.get("gpus", 0)),
        gpu_hours=float(share.get("gpuS", 0.0)) / HOUR_S,
        usd=float(share.get("usd", 0.0)),
        waiting=count,
        is_partial=is_partial,
        closed=share.get("closed"),
        told_at=plain(told_at),
        set_by=stored.get("setBy"),
        set_at=plain(stored.get("setAt")),
        created_at=plain(stored.get("createdAt")),
    )
