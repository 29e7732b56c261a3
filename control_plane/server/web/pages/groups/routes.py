"""The pages of groups: the list, and one with its plan, its members and its failures."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from msgspec import UNSET
from pydantic import AfterValidator, BaseModel, Field

from control_plane.concurrency.singleflight import Singleflight
from control_plane.model.groups.goals import Goal
from control_plane.model.groups.plan import plan_of
from control_plane.model.groups.status import TRANSITIONS, Action, GroupStatus
from control_plane.model.groups.study import Study
from control_plane.reads.groups import Best, Cause
from control_plane.reads.reading import Json
from control_plane.reads.studies import study_view, told_with
from control_plane.runs.groups.budget import with_budget
from control_plane.runs.groups.standing import with_race
from control_plane.server.api.contract.group_bodies import GOAL, GroupPause
from control_plane.server.api.contract.struct_routes import Routes, add_routes
from control_plane.server.api.groups.routes import GroupsWanted
from control_plane.server.api.runs import MayRead, MaySubmit, Page, revision_of
from control_plane.server.web.drawing.bars import bars
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines
from control_plane.server.web.page_renderer import Live, Site
from control_plane.server.web.pages.form_actions import carried_out
from control_plane.server.web.pages.groups import edit
from control_plane.server.web.pages.groups.charts import chosen_rows, curve_figure, history, parallel
from control_plane.server.web.pages.groups.study_charts import study_figures
from control_plane.store.queue.group_numbers import NUMBERS_MAX, POINTS_MAX
from events.answers.groups import Group
from events.answers.plans.studies import StudyImportance, StudyTrial
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
FRONT_SHOWN: Final = 20  # trials of a Pareto front in the table
METRIC_CHARS_MAX: Final = 1_000  # stage and name of one

Note = Annotated[str, Form(max_length=20_000)]
Revision = Annotated[str, Form(max_length=30), AfterValidator(revision_of)]


class GroupView(Page):
    """The page of members that is shown, and by which headline number the best ones are told."""

    by: str | None = None


class CurvesView(BaseModel):
    """Which metric of the members is drawn, and on which scale."""

    metric: Annotated[str | None, Field(max_length=METRIC_CHARS_MAX)] = None
    log: Literal["", "on"] = ""


def router(site: Site) -> APIRouter:
    """Return the routes of the pages of groups."""
    routes = Routes(include_in_schema=False)
    reading = site.deps.groups.reading

    @routes.get("/groups")
    async def listed(_: MayRead, wanted: Annotated[GroupsWanted, Query()]) -> HTMLResponse:
        live, project = site.live("groups"), wanted.project or None
        page = await reading.groups_page(wanted.limit, wanted.after, project)
        return await site.show("groups.html", live=live, page=page, marks=MARKS, project=project)

    # Many people may watch the same group: each change would be read for each of them.
    joined: Singleflight[HTMLResponse] = Singleflight()

    @routes.get("/groups/{group_id}")
    async def one(group_id: str, principal: MayRead, wanted: Annotated[GroupView, Query()]) -> HTMLResponse:
        key = (group_id, principal, *wanted.model_dump().values())
        return await joined.read(key, partial(_overview, site, group_id, wanted))

    @routes.get("/groups/{group_id}/curves")
    async def curves(
        group_id: str, principal: MayRead, wanted: Annotated[CurvesView, Query()]
    ) -> HTMLResponse:
        key = (group_id, principal, "curves", *wanted.model_dump().values())
        return await joined.read(key, partial(_curves, site, group_id, wanted))

    _add_orders(routes, site)
    add_routes(routes, edit.router(site))
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


async def _overview(site: Site, group_id: str, wanted: GroupView) -> HTMLResponse:
    """Show a group with the history of its goal, its parameters, and a page of its members."""
    since, reading = site.live().since, site.deps.groups.reading
    group = await with_race(site.deps.reading, reading.groups, await reading.group(group_id))
    group = await with_budget(reading.groups, site.deps.groups.advancer.spending, group)
    if (view := await study_view(reading.groups, group)) is not None:
        group = told_with(group, view)
    names, plan = await reading.headline(group), plan_of(group.plan)
    usual = str(plan.goal) if isinstance(plan, Study) else f"min:{names[0]}" if names else None
    by = wanted.by or usual
    goal = None if by is None else goal_of(by)
    members, measured, best, causes = await asyncio.gather(
        reading.members(group, wanted.limit, wanted.after),
        reading.measured(group, None if goal is None else goal.name),
        _best(site, group, goal),
        _causes(site, group),
    )
    importance = None if view is None else await site.deps.groups.importances.soon(group, view)
    rows = chosen_rows(measured, goal)
    values = await reading.parameters(group, rows)

    def drawn() -> dict[str, Any]:
        return {
            "history": None if goal is None else history(measured, goal, plan, group.first),
            "parallel": parallel(rows, values, goal, plan, len(measured)),
            "study_charts": [] if view is None else study_figures(view),
        }

    return await site.show(
        "group.html",
        live=Live((f"group/{group_id}",), since),
        group=group,
        tab="overview",
        names=plan.names,
        goals=plan.metrics if isinstance(plan, Study) else [],
        shown_trials=shown_trials(group),
        importance=importance_rows(importance),
        members=members,
        causes=causes,
        best=best,
        by=by,
        numbers=names,
        may_do=actions(group),
        marks=MARKS,
        decisions=group.journal[: -DECISIONS_SHOWN - 1 : -1],
        # beside the event loop: members are thousands
        **await asyncio.to_thread(drawn),
    )


def shown_trials(group: Group) -> list[tuple[str, StudyTrial]]:
    """Return the trials that the page of a study tells of, each with what it is."""
    if group.study is UNSET:
        return []
    baseline = [] if group.study.baseline is None else [("baseline", group.study.baseline)]
    what = "best" if group.study.front is UNSET else "front"
    return [*((what, each) for each in group.study.best[:FRONT_SHOWN]), *baseline]


def importance_rows(importance: StudyImportance | None) -> list[tuple[str, str, Markup]]:
    """Return the name, the share and the bar of each parameter of a study; none where it is not known."""
    if importance is None:
        return []
    pictures = bars([each.share for each in importance.parameters], "share")
    rows = zip(importance.parameters, pictures, strict=True)
    return [(each.name, f"{100 * each.share:.0f} %", picture) for each, picture in rows]


async def _curves(site: Site, group_id: str, wanted: CurvesView) -> HTMLResponse:
    """Show one metric of the members of a group in one chart."""
    since, reading = site.live().since, site.deps.groups.reading
    group = await reading.group(group_id)
    curves = await reading.curves(await reading.measured(group, None), wanted.metric)
    return await site.show(
        "group_curves.html",
        live=Live((f"group/{group_id}",), since),
        group=group,
        tab="curves",
        marks=MARKS,
        wanted=wanted,
        curves=curves,
        points_max=POINTS_MAX,
        numbers_max=NUMBERS_MAX,
        # beside the event loop: what pods measured decides how long it takes
        chart=await asyncio.to_thread(curve_figure, curves, is_log=wanted.log == "on"),
    )


async def _best(site: Site, group: Group, goal: Goal | None) -> list[Best]:
    """Return the best members by a headline number."""
    if goal is None:
        return []
    return await site.deps.groups.reading.best(group, goal.name, is_lower_better=goal.is_lower_better)


async def _causes(site: Site, group: Group) -> list[Cause]:
    """Return why members failed, where any did."""
    return await site.deps.groups.reading.causes(group) if group.counts.failed else []


def goal_of(by: str) -> Goal:
    """Return what `min:NAME` or `max:NAME` says. Raises `Rejected`."""
    goal = re.fullmatch(GOAL, by)  # a name that is a path in a document would be taken for one
    if goal is None:
        raise Rejected("bad_goal", "by: it is min:NAME or max:NAME, with the name of a headline number")
    return Goal(goal[2], is_lower_better=goal[1] == "min")


def actions(group: Group) -> set[str]:
    """Return what a person may do with a group as it stands."""
    people = {Action.PAUSE, Action.RESUME, Action.CANCEL, Action.AGAIN, Action.EDIT}
    if group.plan["kind"] == "race":
        people.remove(Action.PAUSE)
    return {action.value for action in people if GroupStatus(group.status) in TRANSITIONS[action]}


def _path(group_id: str) -> str:
    return f"/groups/{quote(group_id, safe='')}"
