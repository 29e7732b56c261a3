"""The pages of schedules: the next times, and the forms to add, pause, run and remove."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, get_args
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from control_plane.reads.reading import Json, RunFilters
from control_plane.runs.schedules.cron_words import cron_words
from control_plane.runs.schedules.schedule import Missed, Overlap, read_timetable
from control_plane.runs.schedules.scheduler import LABEL
from control_plane.runs.schedules.service import NOTE_CHARS_MAX, PREVIEW_SLOTS
from control_plane.server.api.contract.bodies import Pause
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit, Page
from control_plane.server.api.schedules import previewed, shown_slots
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines, typed_texts
from control_plane.server.web.forms.schedule import ScheduleForm
from control_plane.server.web.page_renderer import NOT_LIVE, Live, Site
from control_plane.server.web.pages.form_actions import carried_out, refused, see
from events.answers.runs import RunRow
from events.answers.schedules import Schedule, Slot
from events.formatting import result
from events.kinds import KINDS, RUN_KINDS
from events.kinds.results import is_measured
from events.runtime.errors import Conflict, Rejected

RESULTS_SHOWN: Final = 10
KEY_CHARS_MAX: Final = 200
ZONES: Final = (
    "UTC", "Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "America/Chicago", "America/Denver",
    "America/Los_Angeles", "America/New_York", "America/Sao_Paulo", "America/Toronto", "Asia/Dubai",
    "Asia/Kolkata", "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Tokyo", "Australia/Sydney",
    "Europe/Amsterdam", "Europe/Berlin", "Europe/London", "Europe/Madrid", "Europe/Paris",
    "Europe/Stockholm", "Europe/Zurich", "Pacific/Auckland",
)  # fmt: skip
STEPS: Final = (5, 10, 15, 20, 30)  # minutes that divide an hour: any others are unequally apart
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EXAMPLES: Final = ("0 9 * * 1-5", "*/30 * * * *", "0 2 * * 6", "@daily")
MISSED_WORDS: Final = {
    "one": "fire the latest once",
    "all": "fire each (100 at most)",
    "skip": "leave them out",
}
OVERLAP_WORDS: Final = {"allow": "start another beside it", "skip": "leave that time out"}
OUTCOMES: Final = {
    "fired": "✓ fired",
    "late": "– left out: too late",
    "overlapping": "– left out: one still ran",
    "refused": "✗ refused",
}

CHOICES: Final[Json] = {
    "kinds": sorted(RUN_KINDS),
    "nameless": sorted(name for name in RUN_KINDS if KINDS[name].scheduled_as is not None),
    "specs": {name: json.dumps(KINDS[name].example) for name in RUN_KINDS},
    "zones": ZONES,
    "examples": EXAMPLES,
    "steps": STEPS,
    "weekdays": WEEKDAYS,
    "missed_words": MISSED_WORDS,
    "overlap_words": OVERLAP_WORDS,
}

assert {*MISSED_WORDS} == {*get_args(Missed)}
assert {*OVERLAP_WORDS} == {*get_args(Overlap)}

Key = Annotated[str, Form(max_length=KEY_CHARS_MAX)]
Note = Annotated[str, Form(max_length=20_000)]
FromList = Annotated[bool, Form()]  # the button stands in the list, which is shown again


@dataclass(frozen=True, slots=True)
class SchedulePages:
    """The pages of schedules, with their reads."""

    site: Site

    async def listed(
        self,
        wanted: Page | None = None,
        *,
        form: ScheduleForm | None = None,
        problems: Sequence[str] = (),
        code: int = 200,
    ) -> HTMLResponse:
        wanted, deps, form = wanted or Page(), self.site.deps, form or ScheduleForm()
        is_typed = form != ScheduleForm()
        # a page that is looked at again comes without what was typed
        live = NOT_LIVE if is_typed or problems else self.site.live("schedules")
        page = await deps.reading.schedules(wanted.limit, wanted.after)
        fired = [each.last.run_id for each in page.items if each.last is not None and each.last.run_id]
        has_text = form.cron.strip() != ""
        return await self.site.show(
            "schedules.html",
            code,
            live=live,
            page=page,
            fired={run.id: run for run in await deps.reading.rows_of(fired)},
            first_number=first_number,
            meaning_of=meaning_of,
            # whoever presses twice means once
            keys={each.id: deps.submitter.ids.ulid() for each in page.items if each.run is not None},
            form=form,
            parts=form.shown(),
            preview=await previewed(deps.schedules, form.cron, form.time_zone.strip()) if has_text else None,
            is_typed=is_typed,
            problems=problems,
            choices=CHOICES,
            outcomes=OUTCOMES,
        )

    async def edited(
        self,
        schedule_id: str,
        form: ScheduleForm | None = None,
        problems: Sequence[str] = (),
        code: int = 200,
    ) -> HTMLResponse:
        service = self.site.deps.schedules
        form = form or ScheduleForm.of(await self.site.deps.reading.schedule(schedule_id))
        return await self.site.show(
            "schedule_edit.html",
            code,
            form=form,
            parts=form.shown(),
            preview=await previewed(service, form.cron, form.time_zone.strip()),
            problems=problems,
            choices=CHOICES,
            action=_path(schedule_id),
        )

    async def one(self, schedule_id: str) -> HTMLResponse:
        deps, since = self.site.deps, self.site.live().since
        schedule = await deps.reading.schedule(schedule_id)
        meaning = meaning_of(schedule)
        slots: list[Slot] = []
        if meaning is not None:
            slots = shown_slots(await deps.schedules.upcoming(schedule_id, PREVIEW_SLOTS))
        fired = RunFilters(label=f"{LABEL}={schedule_id}")
        results = (await deps.reading.runs(fired, RESULTS_SHOWN)).items
        return await self.site.show(
            "schedule.html",
            live=Live((f"schedule/{schedule_id}", *(f"run/{run.id}" for run in results)), since),
            schedule=schedule,
            meaning=meaning,
            slots=slots,
            results=results,
            label=fired.label,
            # whoever presses twice means once
            key=deps.submitter.ids.ulid(),
            note_chars_max=NOTE_CHARS_MAX,
            missed_words=MISSED_WORDS,
            overlap_words=OVERLAP_WORDS,
            outcomes=OUTCOMES,
        )


def meaning_of(schedule: Schedule) -> str | None:
    """Return as text when a schedule fires; None if its cron text is not valid any more."""
    try:
        table = read_timetable(schedule.cron, schedule.time_zone)
    except Rejected:
        return None
    return cron_words(table.entry)


def first_number(run: RunRow) -> str:
    """Return the first headline number of a run with its name, such as its score; empty where it has none."""
    summary = run.summary if isinstance(run.summary, Mapping) else {}
    columns = KINDS[run.kind].headline if run.kind in KINDS else ()
    for column in columns:
        value = summary.get(column.name)
        if column.type == "number" and is_measured(value):
            return f"{column.name} {result(value, column.format)}"
    return ""


def router(site: Site) -> APIRouter:
    """Return the routes of the pages of schedules."""
    routes = Routes(include_in_schema=False)
    pages, service = SchedulePages(site), site.deps.schedules

    @routes.get("/schedules")
    async def listed(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        return await pages.listed(wanted)

    @routes.post("/schedules")
    async def add(principal: MaySubmit, request: Request) -> Response:
        form = ScheduleForm.read(await typed_texts(request))
        if form.do == "preview":
            return await pages.listed(form=form)
        try:
            name, _ = await service.put(form.wanted(principal.name))
        except Unfit as unfit:
            return await pages.listed(form=form, problems=unfit.problems, code=422)
        except (Rejected, Conflict) as error:
            return await pages.listed(form=form, problems=[error.message], code=status_of(error))
        return see(_path(name))

    @routes.get("/schedules/{schedule_id}")
    async def one(schedule_id: str, _: MayRead) -> HTMLResponse:
        return await pages.one(schedule_id)

    @routes.get("/schedules/{schedule_id}/edit")
    async def edited(schedule_id: str, _: MayRead) -> HTMLResponse:
        return await pages.edited(schedule_id)

    @routes.post("/schedules/{schedule_id}")
    async def change(schedule_id: str, principal: MaySubmit, request: Request) -> Response:
        form = ScheduleForm.read(await typed_texts(request))
        schedule = await site.deps.reading.schedule(schedule_id)
        form = form.model_copy(update={"id": schedule_id})
        if form.do == "preview":
            return await pages.edited(schedule_id, form)
        try:
            await service.replace(form.changed(schedule, principal.name))
        except Unfit as unfit:
            return await pages.edited(schedule_id, form, unfit.problems, 422)
        except (Rejected, Conflict) as error:
            return await pages.edited(schedule_id, form, [error.message], status_of(error))
        return see(_path(schedule_id))

    _add_orders(routes, site)
    return routes


def _add_orders(routes: APIRouter, site: Site) -> None:
    service = site.deps.schedules

    @routes.post("/schedules/{schedule_id}/pause")
    async def pause(
        schedule_id: str, principal: MaySubmit, note: Note = "", from_list: FromList = False
    ) -> Response:
        path = _shown_after(schedule_id, from_list=from_list)
        try:
            note_text = read_body(Pause, {"paused": True, "note": typed_lines(note)}).note
        except Unfit as unfit:
            return await site.problem(422, str(unfit), back=path)
        order = service.pause(schedule_id, paused=True, by=principal.name, note=note_text)
        return await carried_out(site, order, path)

    @routes.post("/schedules/{schedule_id}/resume")
    async def resume(schedule_id: str, principal: MaySubmit, from_list: FromList = False) -> Response:
        order = service.pause(schedule_id, paused=False, by=principal.name)
        return await carried_out(site, order, _shown_after(schedule_id, from_list=from_list))

    @routes.post("/schedules/{schedule_id}/run")
    async def run(schedule_id: str, principal: MaySubmit, key: Key = "") -> Response:
        try:
            made = await service.run_now(schedule_id, by=principal.name, key=key or None)
        except (Rejected, Conflict) as error:
            return await refused(site, error, _path(schedule_id))
        return see(f"/runs/{quote(made.run_id, safe='')}")

    @routes.post("/schedules/{schedule_id}/remove")
    async def remove(schedule_id: str, _: MaySubmit) -> Response:
        await service.remove(schedule_id)
        return see("/schedules")


def _path(schedule_id: str) -> str:
    return f"/schedules/{quote(schedule_id, safe='')}"


def _shown_after(schedule_id: str, *, from_list: bool) -> str:
    """Return the page that follows an order: the schedule's row in the list, or its own page."""
    return f"/schedules#s-{quote(schedule_id, safe='')}" if from_list else _path(schedule_id)
