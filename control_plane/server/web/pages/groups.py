"""The pages of groups: the list, and one with its plan, its members and its failures."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import AfterValidator

from control_plane.model.groups.plan import plan_of
from control_plane.model.groups.status import TRANSITIONS, Action, GroupStatus
from control_plane.reads.groups import Best
from control_plane.reads.reading import Json
from control_plane.runs.groups.standing import with_race
from control_plane.server.api.contract.group_bodies import GOAL, GroupPause
from control_plane.server.api.runs import MayRead, MaySubmit, Page, revision_of
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines
from control_plane.server.web.page_renderer import Live, Site
from control_plane.server.web.pages.form_actions import carried_out
from events.answers.groups import Group
from events.runtime.errors import Rejected

MARKS: Final[Json] = {
    "OPEN": ("▶", "RUNNING"),
    "PAUSED": ("‖", "DELAYED"),
    "CLOSING": ("◷", "SCHEDULED"),
    "CANCELING": ("◷", "CANCELING"),
    "COMPLETED": ("✓", "COMPLETED"),
    "FAILED": ("✗", "FAILED"),
    "CANCELED": ("–", "CANCELED"),
}
DECISIONS_SHOWN: Final = 20

Note = Annotated[str, Form(max_length=20_000)]
Revision = Annotated[str, Form(max_length=30), AfterValidator(revision_of)]


class MembersPage(Page):
    """The page of members that is shown, and by which headline number the best ones are told."""

    by: str | None = None


def router(site: Site) -> APIRouter:
    """Return the routes of the pages of groups."""
    routes = APIRouter(include_in_schema=False)
    reading = site.deps.groups.reading

    @routes.get("/groups")
    async def listed(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        live = site.live("groups")
        page = await reading.groups_page(wanted.limit, wanted.after)
        return await site.show("groups.html", live=live, page=page, marks=MARKS)

    @routes.get("/groups/{group_id}")
    async def one(group_id: str, _: MayRead, wanted: Annotated[MembersPage, Query()]) -> HTMLResponse:
        since = site.live().since
        group = await with_race(site.deps.reading, reading.groups, await reading.group(group_id))
        names = await reading.headline(group)
        usual = group.plan.get("goal") or (f"min:{names[0]}" if names else None)
        by = wanted.by or usual
        members = await reading.members(group, wanted.limit, wanted.after)
        return await site.show(
            "group.html",
            live=Live((f"group/{group_id}",), since),
            group=group,
            names=plan_of(group.plan).names,
            members=members,
            causes=await reading.causes(group) if group.counts.failed else [],
            best=await _best(site, group, by),
            by=by,
            numbers=names,
            may_do=actions(group),
            marks=MARKS,
            decisions=group.journal[: -DECISIONS_SHOWN - 1 : -1],
        )

    _add_orders(routes, site)
    return routes


def _add_orders(routes: APIRouter, site: Site) -> None:
    service = site.deps.groups.service

    @routes.post("/groups/{group_id}/pause")
    async def pause(group_id: str, principal: MaySubmit, note: Note = "") -> Response:
        try:
            words = read_body(GroupPause, {"note": typed_lines(note)}).note
        except Unfit as unfit:
            return await site.problem(422, str(unfit), back=_path(group_id))
        order = service.pause(group_id, by=principal.name, note=words)
        return await carried_out(site, order, _path(group_id))

    @routes.post("/groups/{group_id}/resume")
    async def resume(group_id: str, principal: MaySubmit) -> Response:
        return await carried_out(site, service.resume(group_id, by=principal.name), _path(group_id))

    @routes.post("/groups/{group_id}/cancel")
    async def cancel(group_id: str, principal: MaySubmit) -> Response:
        return await carried_out(site, service.cancel(group_id, by=principal.name), _path(group_id))

    @routes.post("/groups/{group_id}/again")
    async def again(group_id: str, principal: MaySubmit, revision: Revision) -> Response:
        # whoever presses twice means once
        order = service.again(group_id, revision=int(revision), by=principal.name)
        return await carried_out(site, order, _path(group_id))


async def _best(site: Site, group: Group, by: str | None) -> list[Best]:
    """Return the best members by `min:NAME` or `max:NAME`. Raises `Rejected`."""
    if by is None:
        return []
    goal = re.fullmatch(GOAL, by)  # a name that is a path in a document would be taken for one
    if goal is None:
        raise Rejected("bad_goal", "by: it is min:NAME or max:NAME, with the name of a headline number")
    return await site.deps.groups.reading.best(group, goal[2], is_lower_better=goal[1] == "min")


def actions(group: Group) -> set[str]:
    """Return what a person may do with a group as it stands."""
    people = {Action.PAUSE, Action.RESUME, Action.CANCEL, Action.AGAIN}
    if group.plan["kind"] == "race":
        people.remove(Action.PAUSE)
    return {action.value for action in people if GroupStatus(group.status) in TRANSITIONS[action]}


def _path(group_id: str) -> str:
    return f"/groups/{quote(group_id, safe='')}"
