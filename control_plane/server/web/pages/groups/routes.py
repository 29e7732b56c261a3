"""The pages of groups: the list, and one with its plan, its members and its failures."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import AfterValidator, Field

from control_plane.model.groups.plan import plan_of
from control_plane.model.groups.status import TRANSITIONS, Action, GroupStatus
from control_plane.reads.groups import Best
from control_plane.reads.reading import Json
from control_plane.server.api.contract.group_bodies import GOAL, GroupPause
from control_plane.server.api.runs import MayRead, MaySubmit, Page, revision_of
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines
from control_plane.server.web.page_renderer import Live, Site
from control_plane.server.web.pages.form_actions import carried_out
from control_plane.server.web.pages.groups.charts import Goal, chosen_rows, curve_figure, history, parallel
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
METRIC_CHARS_MAX: Final = 1_000  # stage and name of one

Note = Annotated[str, Form(max_length=20_000)]
Revision = Annotated[str, Form(max_length=30), AfterValidator(revision_of)]


class GroupView(Page):
    """The page of members that is shown, by which number the best are told, and whose curves are drawn."""

    by: str | None = None
    metric: Annotated[str | None, Field(max_length=METRIC_CHARS_MAX)] = None
    log: Literal["", "on"] = ""


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
    async def one(group_id: str, _: MayRead, wanted: Annotated[GroupView, Query()]) -> HTMLResponse:
        since = site.live().since
        group = await reading.group(group_id)
        names = await reading.headline(group)
        usual = group.plan.get("goal") or (f"min:{names[0]}" if names else None)
        by = wanted.by or usual
        goal = None if by is None else goal_of(by)
        members = await reading.members(group, wanted.limit, wanted.after)
        return await site.show(
            "group.html",
            live=Live((f"group/{group_id}",), since),
            group=group,
            names=plan_of(group.plan).names,
            members=members,
            causes=await reading.causes(group) if group.counts.failed else [],
            best=await _best(site, group, goal),
            by=by,
            numbers=names,
            may_do=actions(group),
            marks=MARKS,
            decisions=group.journal[: -DECISIONS_SHOWN - 1 : -1],
            wanted=wanted,
            **await _charts(site, group, goal, wanted),
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


async def _charts(site: Site, group: Group, goal: Goal | None, wanted: GroupView) -> dict[str, Any]:
    """Return what the charts of a group show, from bounded reads."""
    reading, plan = site.deps.groups.reading, plan_of(group.plan)
    measured = await reading.measured(group, None if goal is None else goal.name)
    rows = chosen_rows(measured, goal)
    values, curves = await asyncio.gather(
        reading.parameters(group, rows), reading.curves(measured, wanted.metric)
    )

    def drawn() -> dict[str, Any]:
        return {
            "history": None if goal is None else history(measured, goal, plan, group.first),
            "parallel": parallel(rows, values, goal, plan, len(measured)),
            "curves": curves,
            "curve_chart": curve_figure(curves, is_log=wanted.log == "on"),
        }

    # beside the event loop: members are thousands, and what they measured decides how long it takes
    return await asyncio.to_thread(drawn)


async def _best(site: Site, group: Group, goal: Goal | None) -> list[Best]:
    """Return the best members by a headline number."""
    if goal is None:
        return []
    return await site.deps.groups.reading.best(group, goal.name, is_lower_better=goal.is_lower_better)


def goal_of(by: str) -> Goal:
    """Return what `min:NAME` or `max:NAME` says. Raises `Rejected`."""
    goal = re.fullmatch(GOAL, by)  # a name that is a path in a document would be taken for one
    if goal is None:
        raise Rejected("bad_goal", "by: it is min:NAME or max:NAME, with the name of a headline number")
    return Goal(goal[2], is_lower_better=goal[1] == "min")


def actions(group: Group) -> set[str]:
    """Return what a person may do with a group as it stands."""
    people = (Action.PAUSE, Action.RESUME, Action.CANCEL, Action.AGAIN)
    return {action.value for action in people if GroupStatus(group.status) in TRANSITIONS[action]}


def _path(group_id: str) -> str:
    return f"/groups/{quote(group_id, safe='')}"
