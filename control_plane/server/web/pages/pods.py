"""The pages of pods: the list, and the state and history of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from msgspec import UNSET, structs
from pydantic import Field

from control_plane.reads.reading import EndedPods
from control_plane.runs.pods.steering import REASON_CHARS_MAX
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer, PodFilters
from control_plane.server.api.runs import MayRead
from control_plane.server.web.drawing.chart_figure import chart_figure
from control_plane.server.web.drawing.charts import Chart, Line, Point, thinned
from control_plane.server.web.drawing.sparkline import KEPT, sparkline
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import carried_out, see
from control_plane.store.pods import HOURS_MAX
from events.answers.pods import Pod, Sample
from events.answers.runs import RunRow
from events.formatting import percent, size
from events.queue.roster import REPORT_EVERY_S

HISTORY_SHOWN: Final = 20
ENDED: Final = frozenset({"stopped", "gone"})
POINTS_MAX: Final = 240
MISSED_REPORTS: Final = 3.5  # so many in a row are a gap
GLANCE_S: Final = 120.0
GAP_S: Final = MISSED_REPORTS * REPORT_EVERY_S
MIB_BYTES: Final = 1024 * 1024
HOUR_S: Final = 3600.0
MIB_PER_GIB: Final = 1024.0
STRETCHES: Final = (1, 6, HOURS_MAX)  # hours

Reason = Annotated[str, Form(max_length=REASON_CHARS_MAX)]
Service = Annotated[str, Form(max_length=200)]
ForHours = Annotated[int, Form(ge=0, le=365 * 24)]  # 0 is without end
Stretch = Annotated[int, Query(ge=1, le=HOURS_MAX)]


class PodsView(PodFilters):
    """The filters of the page: with `all` every start of a worker, the last started first."""

    every: Annotated[bool, Field(alias="all")] = False


@dataclass(frozen=True, slots=True)
class PodPages:
    """The pages of pods, with their reads; `version` is the control plane's, which pods should have."""

    site: Site
    version: str

    async def listed(self, wanted: PodsView) -> HTMLResponse:
        """Show those that live, and on the first page below them what has ended, folded."""
        live, reading = self.site.live("pods"), self.site.deps.reading
        region, is_whole = wanted.region or None, wanted.every and not wanted.live
        page = await reading.pods(wanted.limit, wanted.after, live_only=not is_whole, region=region)
        ended: EndedPods | None = None
        if is_whole:
            page = structs.replace(page, items=sorted(page.items, key=lambda each: each.state in ENDED))
        elif wanted.after is None and not wanted.live:
            ended = await reading.ended_pods(region)
            damaged = [*(page.unreadable or ()), *(ended.page.unreadable or ())]
            page = structs.replace(page, unreadable=damaged or UNSET)
        chosen = wanted.model_dump(exclude={"after"}, exclude_none=True, exclude_defaults=True, by_alias=True)
        rows = [(each, 1) for each in page.items]
        if ended is not None:
            rows += [(each, ended.starts[each.id]) for each in ended.page.items]
        return await self.site.show(
            "pods.html",
            live=live,
            page=page,
            rows=rows,
            ended=ended,
            wanted=wanted,
            chosen=chosen,
            version=self.version,
        )

    async def one(self, pod_id: str, hours: int, after: str | None) -> HTMLResponse:
        live = self.site.live(f"pod/{pod_id}")
        deps = self.site.deps
        pod = await deps.reading.pod(pod_id)
        if pod.state not in ("stopped", "gone"):
            await deps.pod_looks.look([pod_id])
        samples = await deps.reading.telemetry(pod_id, hours)
        now_s = deps.reading.clock.now().timestamp()
        charts = usage(pod, samples, now_s - hours * HOUR_S, now_s)
        return await self.site.show(
            "pod.html",
            live=live,
            pod=pod,
            version=self.version,
            run=await self._run(pod),
            now=glances(pod, samples),
            charts=[chart_figure(chart) for chart in charts],
            hours=hours,
            stretches=STRETCHES,
            reason_chars_max=REASON_CHARS_MAX,
            history=await deps.reading.attempts_of_pod(pod_id, HISTORY_SHOWN, after),
        )

    async def _run(self, pod: Pod) -> RunRow | None:
        if pod.run_id is None:
            return None
        found = await self.site.deps.reading.runs_of_ids([pod.run_id])
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Glance:
    """One measure of a pod in its last samples."""

    title: str
    picture: Markup
    latest: str


def glances(pod: Pod, samples: Sequence[Sample]) -> list[Glance]:
    """Return sparklines of what a pod had in use in its last samples, for the measures that it has."""
    gpu_mib = sum(gpu.memory_mib for gpu in pod.capabilities.gpus)
    measures = (
        ("CPU", "cpu_util", 1.0),
        ("Memory", "memory_mib", pod.capabilities.memory_mib),
        ("GPU", "gpu_util", 1.0),
        ("GPU memory", "gpu_memory_mib", gpu_mib),
    )
    found = []
    for title, field, high in measures:
        points = [
            (datetime.fromisoformat(each.at).timestamp(), float(value))
            for each in samples[-KEPT:]
            if isinstance(value := getattr(each, field), int | float)
        ]
        if points:
            latest = percent(points[-1][1]) if high == 1.0 else size(int(points[-1][1] * MIB_BYTES))
            picture = sparkline(points, high=high, gap_s=GAP_S, span_s=GLANCE_S)
            found.append(Glance(title, picture, latest))
    return found


def usage(pod: Pod, samples: Sequence[Sample], first: float, last: float) -> list[Chart]:
    """Return the charts of a pod's usage between two moments."""
    gpus = pod.capabilities.gpus
    memory_gib = pod.capabilities.memory_mib / MIB_PER_GIB
    gpu_gib = sum(gpu.memory_mib for gpu in gpus) / MIB_PER_GIB
    step = max(REPORT_EVERY_S, (last - first) / POINTS_MAX)

    def chart(title: str, field: str, scale: float = 1.0, **more: Any) -> Chart:
        points: list[Point] = [
            (datetime.fromisoformat(each.at).timestamp(), value * scale)
            for each in samples
            if isinstance(value := getattr(each, field), int | float)
        ]
        line = Line(name=title, points=thinned(points, first, last, POINTS_MAX))
        gap = step * MISSED_REPORTS
        return Chart(title=title, lines=[line], x="time", first=first, last=last, gap=gap, low=0.0, **more)

    found = [
        chart("CPU utilisation", "cpu_util", unit="%", high=1.0),
        chart("Memory", "memory_mib", 1 / MIB_PER_GIB, unit="GiB", high=memory_gib),
    ]
    if gpus:
        found += [
            chart("GPU utilisation", "gpu_util", unit="%", high=1.0),
            chart("GPU memory", "gpu_memory_mib", 1 / MIB_PER_GIB, unit="GiB", high=gpu_gib),
            chart("GPU temperature", "gpu_temperature_c", unit="°C"),
        ]
    return found


def router(site: Site) -> APIRouter:
    """Return the routes of the pages of pods."""
    routes = Routes(include_in_schema=False)
    _add_orders(routes, site)
    pages = PodPages(site, version("podfleet"))

    @routes.get("/pods")
    async def listed(_: MayRead, wanted: Annotated[PodsView, Query()]) -> HTMLResponse:
        return await pages.listed(wanted)

    @routes.get("/pods/{pod_id:path}")
    async def one(pod_id: str, _: MayRead, hours: Stretch = 1, after: str | None = None) -> HTMLResponse:
        return await pages.one(pod_id, hours, after)

    return routes


def _add_orders(routes: APIRouter, site: Site) -> None:
    steering = site.deps.pod_steering

    @routes.post("/pods/{pod_id:path}/drain")
    async def drain(pod_id: str, principal: MaySteer) -> Response:
        await steering.drain(pod_id, by=principal.name)
        return see("/pods")

    @routes.post("/pods/{pod_id:path}/restart")
    async def restart(pod_id: str, _: MaySteer) -> Response:
        return await carried_out(site, steering.restart(pod_id), _page(pod_id))

    @routes.post("/pods/{pod_id:path}/undrain")
    async def undrain(pod_id: str, _: MaySteer) -> Response:
        return await carried_out(site, steering.undrain(pod_id), _page(pod_id))

    @routes.post("/pods/{pod_id:path}/resets")
    async def reset(
        pod_id: str, principal: MaySteer, service: Service, force: Annotated[bool, Form()] = False
    ) -> Response:
        order = site.deps.pod_resets.order(pod_id, service, by=principal.name, force=force)
        return await carried_out(site, order, _page(pod_id))

    @routes.post("/pods/{pod_id:path}/cordon")
    async def cordon(pod_id: str, principal: MaySteer, reason: Reason = "", hours: ForHours = 0) -> Response:
        why = reason.strip() or "no reason given"
        order = steering.cordon(pod_id, why, by=principal.name, for_s=hours * HOUR_S or None)
        return await carried_out(site, order, _page(pod_id))

    @routes.post("/pods/{pod_id:path}/uncordon")
    async def uncordon(pod_id: str, _: MaySteer) -> Response:
        return await carried_out(site, steering.uncordon(pod_id), _page(pod_id))

    @routes.post("/pods/{pod_id:path}/release")
    async def release(pod_id: str, principal: MaySteer) -> Response:
        return await carried_out(site, steering.release(pod_id, by=principal.name), _page(pod_id))


def _page(pod_id: str) -> str:
    return f"/pods/{quote(pod_id)}"
