"""Tasks over HTTP: create, read, replace, start, cancel, copy, export."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from control_plane.kinds.trial.bodies import TaskBody, TaskClone, TaskImport, TaskPatch
from control_plane.kinds.trial.exchange import Format, exported, read_task
from control_plane.kinds.trial.reads import TaskReads
from control_plane.kinds.trial.service import TaskService
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit, Page, Seen
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.kinds.tasks import Task, TaskEstimate, TaskExport, TaskRow, TriedConfiguration
from events.kinds.trial import KIND

TAKEN: Final[dict[int | str, dict[str, Any]]] = {409: {}}
CHANGED: Final[dict[int | str, dict[str, Any]]] = {409: {}, 412: {}}


def router(deps: Deps, reads: TaskReads, service: TaskService) -> APIRouter:
    """Return the routes of tasks."""
    routes = Routes(tags=["tasks"])

    async def told(task_id: str, response: Response) -> Task:
        task = await reads.one(task_id)
        response.headers["ETag"] = f'"{task.revision}"'
        return task

    async def made(task_id: str, response: Response) -> Task:
        response.headers["Location"] = f"/api/tasks/{task_id}"
        return await told(task_id, response)

    @routes.post("/api/tasks", status_code=201, responses=TAKEN)
    async def create(body: TaskBody, principal: MaySubmit, response: Response) -> Task:
        return await made(await service.create(body, by=principal.name), response)

    @routes.post("/api/task-imports", status_code=201, responses=TAKEN)
    async def bring(body: TaskImport, principal: MaySubmit, response: Response) -> Task:
        # beside the event loop: a text decides how long it takes
        task = await asyncio.to_thread(read_task, body.text, body.name)
        return await made(await service.create(task, by=principal.name), response)

    @routes.post("/api/task-estimates")
    async def estimate(body: TaskBody, principal: MaySubmit) -> TaskEstimate:
        await service.require_valid("new", body, principal.name)
        return await reads.estimate(body, (await deps.estimates.of_kind(KIND.name)).seconds)

    @routes.get("/api/tasks")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[TaskRow]:
        return await reads.page(wanted.limit, wanted.after)

    @routes.get("/api/tasks/{task_id}")
    async def one(task_id: str, _: MayRead, response: Response) -> Task:
        return await told(task_id, response)

    @routes.put("/api/tasks/{task_id}", responses=CHANGED)
    async def replace(
        task_id: str, body: TaskBody, principal: MaySubmit, response: Response, seen: Seen = None
    ) -> Task:
        await service.replace(task_id, body, revision=_revision(seen), by=principal.name)
        return await told(task_id, response)

    @routes.patch("/api/tasks/{task_id}", responses=CHANGED)
    async def patch(
        task_id: str, body: TaskPatch, principal: MaySubmit, response: Response, seen: Seen = None
    ) -> Task:
        if body.description is not None:
            await service.describe(task_id, body.description, revision=_revision(seen), by=principal.name)
        if body.status is not None:
            await service.cancel(task_id, by=principal.name)
        return await told(task_id, response)

    @routes.delete("/api/tasks/{task_id}", status_code=204, responses=CHANGED)
    async def remove(task_id: str, _: MaySubmit, seen: Seen = None) -> None:
        await service.delete(task_id, revision=_revision(seen))

    _add_orders(routes, reads, service)
    return routes


def _add_orders(routes: APIRouter, reads: TaskReads, service: TaskService) -> None:
    async def told(task_id: str, response: Response) -> Task:
        task = await reads.one(task_id)
        response.headers["ETag"] = f'"{task.revision}"'
        return task

    @routes.post("/api/tasks/{task_id}/start", responses=CHANGED)
    async def start(task_id: str, principal: MaySubmit, response: Response, seen: Seen = None) -> Task:
        await service.start(task_id, revision=_revision(seen), by=principal.name)
        return await told(task_id, response)

    @routes.post("/api/tasks/{task_id}/restart", responses=CHANGED)
    async def restart(task_id: str, principal: MaySubmit, response: Response, seen: Seen = None) -> Task:
        await service.restart(task_id, revision=_revision(seen), by=principal.name)
        return await told(task_id, response)

    @routes.post("/api/tasks/{task_id}/clone", status_code=201, responses=TAKEN)
    async def clone(
        task_id: str, principal: MaySubmit, response: Response, body: TaskClone | None = None
    ) -> Task:
        copy = await service.clone(task_id, None if body is None else body.name, by=principal.name)
        response.headers["Location"] = f"/api/tasks/{copy}"
        return await told(copy, response)

    @routes.get("/api/tasks/{task_id}/export")
    async def export(task_id: str, _: MayRead, format: Format = "json") -> TaskExport:
        return TaskExport(format=format, text=exported(await reads.body(task_id), format))

    @routes.get("/api/tasks/{task_id}/experiments")
    async def experiments(
        task_id: str, _: MayRead, wanted: Annotated[Page, Query()]
    ) -> Listing[TriedConfiguration]:
        return await reads.page_of_experiments(task_id, wanted.limit, wanted.after)


def _revision(seen: str | None) -> int | None:
    return None if seen is None else int(seen)
