"""The pages of races: the list, the form of a new one with its checks, and one race with its lanes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from pydantic import AfterValidator

from control_plane.concurrency.singleflight import Singleflight
from control_plane.model.groups.status import ACTIVE, TRANSITIONS, Action, GroupStatus
from control_plane.model.presentation import plain
from control_plane.model.views.readable import reading_of
from control_plane.runs.groups.races.reads import RaceFilters, columns_of
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.groups.races import RacesWanted, Round
from control_plane.server.api.runs import MayRead, MaySubmit, revision_of
from control_plane.server.web.drawing.race import Spread, sparkline, spread_chart, track
from control_plane.server.web.forms.fields import Unfit, typed_texts
from control_plane.server.web.page_renderer import NOT_LIVE, Live, Site
from control_plane.server.web.pages.form_actions import carried_out, see
from control_plane.server.web.pages.groups.races.form import RaceForm
from control_plane.server.web.pages.groups.routes import MARKS
from events.answers.artifacts import Artifact
from events.answers.plans.races import LaneSamples, Race, RaceChecks, RacedLane
from events.kinds import KINDS, RUN_KINDS, kind_of
from events.kinds.results import Column
from events.runtime.errors import Conflict, NotFound, Rejected

HISTORY_SHOWN: Final = 10
TEXT_BYTES_SHOWN: Final = 16 * 1024
ARTIFACTS_LOOKED_AT: Final = 200
TEXT: Final = re.compile(r"text-([1-9][0-9]{0,5})\.txt")
LANE_MARKS: Final = {
    "waiting": ("○", "QUEUED"), "preparing": ("◔", "SCHEDULED"), "ready": ("◷", "SCHEDULED"),
    "started": ("▶", "RUNNING"), "late": ("◔", "DELAYED"), "dead": ("✗", "FAILED"),
}  # fmt: skip
ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELED", "HUMAN_VALIDATED", "HUMAN_REJECTED"})

Revision = Annotated[str, Form(max_length=30), AfterValidator(revision_of)]
Name = Annotated[str | None, Query(max_length=200)]


@dataclass(frozen=True, slots=True)
class Said:
    """The text of a lane's last lap, as its artifact has it."""

    artifact: Artifact
    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True)
class RacePages:
    """The pages, with the reads that they need."""

    site: Site

    async def listed(self, wanted: RacesWanted) -> HTMLResponse:
        """Show races, the newest first."""
        live = self.site.live("groups")
        page = await self.site.deps.races.page(wanted.filters(), wanted.limit, wanted.after)
        chosen = wanted.model_dump(exclude={"after"}, exclude_none=True, exclude_defaults=True)
        kinds = [KINDS[name] for name in sorted(RUN_KINDS)]
        return await self.site.show(
            "races/races.html", live=live, page=page, wanted=wanted, chosen=chosen, marks=MARKS, kinds=kinds,
            statuses=list(GroupStatus),
        )  # fmt: skip

    async def form(
        self,
        form: RaceForm,
        *,
        problems: Mapping[str, str] | None = None,
        checks: RaceChecks | None = None,
        code: int = 200,
    ) -> HTMLResponse:
        """Show the form, with its problems or the checks of its lanes."""
        machines = await self.site.deps.race_service.machines(form.kind.name, form.ticked)
        told = {each.pod: each for each in (*machines, *(() if checks is None else checks.lanes))}
        return await self.site.show(
            "races/race_form.html",
            code,
            live=NOT_LIVE,
            kinds=[KINDS[name] for name in sorted(RUN_KINDS)],
            form=form,
            parts=form.run.shown(problems or {}),
            problems=problems or {},
            machines=told.values(),
            checks=checks,
            measures=[each for each in form.kind.headline if each.type == "number"],
        )

    async def like(self, race_id: str) -> RaceForm:
        """Return the form of a race filled in as another one was. Raises `NotFound`, `UnreadableDocument`."""
        race, group = await self.site.deps.races.one(race_id), await self.site.deps.races.stored(race_id)
        with reading_of("race", race_id):
            return RaceForm.like(kind_of(race.kind, among=RUN_KINDS), race, plain(group["run"]))

    async def save(self, kind: str, typed: Mapping[str, str], by: str) -> Response:
        """Start the race as it was typed, or only check it."""
        form, service = RaceForm(kind_of(kind, among=RUN_KINDS), typed), self.site.deps.race_service
        try:
            wanted = form.body().wanted(by)
            if typed.get("do") == "check":
                return await self.form(form, checks=await service.check(wanted))
            name, _ = await service.create(wanted)
        except Unfit as unfit:
            return await self.form(form, problems=unfit.fields, code=422)
        except (Rejected, Conflict) as error:
            return await self.form(form, problems={"": error.message}, code=status_of(error))
        return see(_path(name))

    async def look(self, typed: Mapping[str, str], by: str) -> dict[str, Any]:
        """Return the grade of each lane that is ticked, and what is wrong with the form."""
        form = RaceForm(kind_of(typed.get("kind", ""), among=RUN_KINDS), typed)
        try:
            checks = await self.site.deps.race_service.check(form.body().wanted(by))
        except Unfit as unfit:
            return {"problem": "; ".join(unfit.problems), "lanes": {}}
        except (Rejected, Conflict) as error:
            return {"problem": error.message, "lanes": {}}
        lanes = {
            each.pod: {"grade": each.grade, "says": [f"{one.name}: {one.says}" for one in each.checks]}
            for each in checks.lanes
        }
        return {"problem": "", "lanes": lanes}

    async def one(self, race_id: str, number: int | None) -> HTMLResponse:
        """Show a round of a race."""
        since, deps = self.site.live().since, self.site.deps
        race = await deps.races.one(race_id, number)
        is_active = race.status in ACTIVE and number in (None, race.rounds[-1].round)
        pods = [lane.pod for lane in race.lanes if lane.pod]
        samples, said, checks, history = await asyncio.gather(
            deps.races.samples(race_id),
            self._said(race.lanes),
            deps.race_service.checks_of_race(race_id) if is_active else _nothing(),
            deps.races.page(RaceFilters(pods=pods[:16]), HISTORY_SHOWN + 1),
        )
        columns = [each for each in columns_of(race.kind) if each.type == "number"]
        now = deps.clock.now()
        since_start = _since_start_s(race, now)

        def drawn() -> dict[str, Any]:
            return {
                "tracks": tracks(race, now),
                "sparks": {each.pod: sparks(each, race.lanes) for each in samples.lanes},
                "spread": spread_chart(f"{race.measure.name} over the laps", _spreads(race)),
            }

        return await self.site.show(
            "races/race.html",
            live=Live((f"group/{race_id}", *_runs_of(race)), since),
            race=race,
            columns=shown_columns(race, columns),
            said=said,
            checks={each.pod: each for each in checks},
            history=[each for each in history.items if each.id != race_id][:HISTORY_SHOWN],
            is_active=is_active,
            so_far_s=since_start,
            has_started=since_start is not None and since_start >= 0.0,
            may_do={each.value for each in (Action.CANCEL, Action.AGAIN) if _may(race, each)},
            marks=MARKS,
            lane_marks=LANE_MARKS,
            ended=ENDED,
            **await asyncio.to_thread(drawn),  # beside the event loop: pods decide how much it is
        )

    async def _said(self, lanes: Sequence[RacedLane]) -> dict[str, Said]:
        """Return the texts of the lanes that have ended, by their runs."""
        runs = [each.run_id for each in lanes if each.run_id is not None and each.status in ENDED]
        found = await asyncio.gather(*map(self._text, runs))
        return {run_id: each for run_id, each in zip(runs, found, strict=True) if each is not None}

    async def _text(self, run_id: str) -> Said | None:
        deps = self.site.deps
        try:
            page = await deps.reading.artifacts(run_id, ARTIFACTS_LOOKED_AT)
        except NotFound:
            return None
        named = [(int(match[1]), each) for each in page.items if (match := TEXT.fullmatch(each.name))]
        if not named:
            return None
        _, last = max(named, key=lambda each: each[0])
        try:
            content = await deps.inspector.beginning(
                last.name, last.key, last.size, last.sha256, limit=TEXT_BYTES_SHOWN
            )
        except (Rejected, Conflict):
            return None  # its page says why it cannot be read
        return Said(last, content.decode("utf-8", "replace"), last.size > TEXT_BYTES_SHOWN)


async def _nothing() -> list[Any]:
    return []


def _runs_of(race: Race) -> list[str]:
    """Return the topics of its runs: what a lane says of the start is news of its run alone."""
    lanes = (lane for lane in race.lanes if lane.run_id is not None and lane.status not in ENDED)
    return [f"run/{lane.run_id}" for lane in lanes]


def _since_start_s(race: Race, now: datetime) -> float | None:
    """Return how long ago the agreed start was, below 0 where it is to come; None without one."""
    if race.start_at is None:
        return None
    return (now - datetime.fromisoformat(race.start_at)).total_seconds()


def tracks(race: Race, now: datetime) -> dict[int, Markup]:
    """Return the bar of each lane that has started, by its slot: all on one axis of time."""
    so_far = max(0.0, _since_start_s(race, now) or 0.0)
    spans = {}
    for lane in race.lanes:
        if lane.started_at is not None:
            is_running = lane.finish_s is None and lane.status not in ENDED
            end = so_far if is_running else lane.finish_s or lane.late_s or 0.0
            spans[lane.slot] = (max(0.0, lane.late_s or 0.0), end, is_running, lane)
    whole = max((end for _, end, _, _ in spans.values()), default=0.0)
    return {
        slot: track(first, end, whole, f"l-{lane.state} s-{lane.status}", is_running=is_running)
        for slot, (first, end, is_running, lane) in spans.items()
    }


@dataclass(frozen=True, slots=True)
class Spark:
    """What a machine had in use of something: its last value in words, and the picture of the latest.

    `field` is that of a sample, of which `whole` is all.
    """

    name: str
    last: str
    picture: Markup
    field: str
    whole: float


def sparks(found: LaneSamples, lanes: Sequence[RacedLane]) -> list[Spark]:
    """Return what a machine had in use: utilisation, then memory."""
    machine = next((each.machine for each in lanes if each.pod == found.pod), None)
    has_gpu = machine is not None and bool(machine.gpus)
    memory = None if machine is None else machine.gpu_memory_mib if has_gpu else machine.memory_mib
    used = [each.gpu_util if has_gpu else each.cpu_util for each in found.samples]
    held = [each.gpu_memory_mib if has_gpu else each.memory_mib for each in found.samples]
    shares = [float(each) if isinstance(each, int | float) else None for each in used]
    parts = [each / memory if isinstance(each, int | float) and memory else None for each in held]
    util, mib = ("gpuUtil", "gpuMemoryMib") if has_gpu else ("cpuUtil", "memoryMib")
    of_util, of_memory = ("GPU", "GPU memory") if has_gpu else ("CPU", "Memory")
    return [
        Spark(of_util, _percent(shares), sparkline(shares, "util"), util, 1.0),
        Spark(of_memory, _percent(parts), sparkline(parts, "memory"), mib, float(memory or 0.0)),
    ]


def _percent(values: Sequence[float | None]) -> str:
    last = next((each for each in reversed(values) if each is not None), None)
    return "–" if last is None else f"{100 * last:.0f} %"


def _spreads(race: Race) -> list[Spread]:
    name, found = race.measure.name, []
    for lane in race.lanes:
        if (figure := lane.figures.get(name)) is not None:
            laps = [float(each.values[name]) for each in lane.laps if name in each.values]
            found.append(Spread(lane.pod, figure.mean, figure.low, figure.high, laps))
    return found


def shown_columns(race: Race, columns: Sequence[Column]) -> list[Column]:
    """Return the columns of the final table: the headline numbers that any lane has."""
    return [each for each in columns if any(each.name in lane.figures for lane in race.lanes)]


def _may(race: Race, action: Action) -> bool:
    return GroupStatus(race.rounds[-1].status) in TRANSITIONS[action]


def router(site: Site) -> APIRouter:
    """Return the routes of the pages of races."""
    routes = Routes(include_in_schema=False)
    pages = RacePages(site)
    joined: Singleflight[HTMLResponse] = Singleflight()  # many may watch the same race

    @routes.get("/races")
    async def listed(_: MayRead, wanted: Annotated[RacesWanted, Query()]) -> HTMLResponse:
        return await pages.listed(wanted)

    @routes.get("/races/new")
    async def new(_: MaySubmit, kind: Name = None, like: Name = None) -> Response:
        if like:
            return await pages.form(await pages.like(like))
        if not kind:
            return see("/races#new")
        return await pages.form(RaceForm(kind_of(kind, among=RUN_KINDS), {}))

    @routes.post("/races/new/look")  # prompts are no part of an address, which logs would keep
    async def look(principal: MaySubmit, request: Request) -> dict[str, Any]:
        return await pages.look(await typed_texts(request), principal.name)

    @routes.post("/races/new")
    async def create(principal: MaySubmit, request: Request) -> Response:
        typed = await typed_texts(request)
        return await pages.save(typed.get("kind", ""), typed, principal.name)

    @routes.get("/races/{race_id}")
    async def one(race_id: str, principal: MayRead, round: Round = None) -> HTMLResponse:
        return await joined.read((race_id, principal, round), partial(pages.one, race_id, round))

    @routes.post("/races/{race_id}/again")
    async def again(race_id: str, principal: MaySubmit, revision: Revision) -> Response:
        await site.deps.races.stored(race_id)
        order = site.deps.groups.service.again(race_id, revision=int(revision), by=principal.name)
        return await carried_out(site, order, _path(race_id))

    @routes.post("/races/{race_id}/cancel")
    async def cancel(race_id: str, principal: MaySubmit) -> Response:
        await site.deps.races.stored(race_id)
        order = site.deps.groups.service.cancel(race_id, by=principal.name)
        return await carried_out(site, order, _path(race_id))

    return routes


def _path(race_id: str) -> str:
    return f"/races/{quote(race_id, safe='')}"
