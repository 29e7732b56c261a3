"""Groups: sets of runs with a plan."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from control_plane.reads.reading import SEARCH_CHARS_MAX
from control_plane.reads.studies import study_view, with_study
from control_plane.runs.groups.budget import with_budget
from control_plane.runs.groups.service import WantedGroup
from control_plane.runs.groups.standing import with_race
from control_plane.server.api.contract.group_bodies import GroupEdit, GroupPause, NewGroup, posted
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import THE_SAME, Key, MayRead, MaySubmit, MustSee, Page, Seen
from control_plane.server.deps import Deps, GroupParts
from events.answers.answer import Listing
from events.answers.groups import Group, GroupMember, GroupRow
from events.answers.plans.studies import StudyImportance
from events.runtime.errors import Rejected


class GroupsWanted(Page):
    """A page of groups, or of those of a project."""

    project: Annotated[str | None, Field(max_length=SEARCH_CHARS_MAX)] = None


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/groups`."""
    routes = Routes(prefix="/api/groups", tags=["groups"])
    service, reading = deps.groups.service, deps.groups.reading

    async def told(group_id: str, response: Response) -> Group:
        group = await with_race(deps.reading, reading.groups, await reading.group(group_id))
        group = await with_budget(reading.groups, deps.groups.advancer.spending, group)
        group = await with_study(reading.groups, group)
        response.headers["ETag"] = f'"{group.revision}"'
        return group

    @routes.post("", status_code=201, responses=THE_SAME)
    async def create(body: NewGroup, principal: MaySubmit, response: Response, key: Key = None) -> Group:
        wanted = WantedGroup(
            id=body.id,
            run=posted(body.run),
            plan=posted(body.plan),
            by=principal.name,
            paused=body.paused,
            idempotency_key=key,
        )
        if not await service.create(wanted):
            response.status_code = 200
        response.headers["Location"] = f"/api/groups/{body.id}"
        return await told(body.id, response)

    @routes.get("/{group_id}")
    async def one(group_id: str, _: MayRead, response: Response) -> Group:
        return await told(group_id, response)

    @routes.patch("/{group_id}", responses={409: {}, 412: {}})
    async def edit(
        group_id: str, body: GroupEdit, principal: MaySubmit, response: Response, seen: MustSee
    ) -> Group:
        await service.edit(
            group_id,
            revision=int(seen),
            by=principal.name,
            run=None if body.run is None else posted(body.run),
            plan=None if body.plan is None else posted(body.plan),
        )
        return await told(group_id, response)

    @routes.post("/{group_id}/pause")
    async def pause(
        group_id: str, principal: MaySubmit, response: Response, body: GroupPause | None = None
    ) -> Group:
        await service.pause(group_id, by=principal.name, note="" if body is None else body.note)
        return await told(group_id, response)

    @routes.post("/{group_id}/resume")
    async def resume(group_id: str, principal: MaySubmit, response: Response) -> Group:
        await service.resume(group_id, by=principal.name)
        return await told(group_id, response)

    @routes.post("/{group_id}/cancel")
    async def cancel(group_id: str, principal: MaySubmit, response: Response) -> Group:
        await service.cancel(group_id, by=principal.name)
        return await told(group_id, response)

    @routes.post("/{group_id}/again", responses={409: {}, 412: {}})
    async def again(group_id: str, principal: MaySubmit, response: Response, seen: Seen = None) -> Group:
        revision = None if seen is None else int(seen)
        await service.again(group_id, revision=revision, by=principal.name)
        return await told(group_id, response)

    _add_reads(routes, deps.groups)
    return routes


def _add_reads(routes: APIRouter, groups: GroupParts) -> None:
    reading = groups.reading

    @routes.get("")
    async def page(_: MayRead, wanted: Annotated[GroupsWanted, Query()]) -> Listing[GroupRow]:
        return await reading.groups_page(wanted.limit, wanted.after, wanted.project or None)

    @routes.get("/{group_id}/members")
    async def members(group_id: str, _: MayRead, wanted: Annotated[Page, Query()]) -> Listing[GroupMember]:
        group = await reading.group(group_id)
        return await reading.members(group, wanted.limit, wanted.after)

    @routes.get("/{group_id}/importance")
    async def importance(group_id: str, _: MayRead) -> StudyImportance:
        group = await reading.group(group_id)
        view = await study_view(reading.groups, group)
        if view is None:
            raise Rejected("no_study", f"the group {group_id!r} is no study: no parameter of it was searched")
        return await groups.importances.of(group, view)
