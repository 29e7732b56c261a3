"""One function a page: read, render. Forms post here and are answered with a redirect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from control_plane.api.fleet import MaySteer
from control_plane.api.runs import EventFilters, Filters, MayRead, MayReview, MaySubmit, Page
from control_plane.decisions import Review
from control_plane.deps import Deps
from control_plane.submission import NewHypothesis
from control_plane.web import formatting
from events.catalog import TYPES
from events.checkpoints import PREFIX
from events.lifecycle import FINAL, HELD, Status
from events.runs import RUN_KINDS

HERE: Final = Path(__file__).resolve().parent
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class Pages:
    """Renders templates under a strict content security policy."""

    def __init__(self, storage_origin: str) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(["html"], default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= formatting.FILTERS
        self._templates.globals |= {"between": formatting.between, "next_steps": formatting.NEXT_STEPS}
        # Plots are shown from the storage's own origin: what a pipeline made never runs in ours.
        self._headers = {
            "Content-Security-Policy": (
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                f"img-src 'self' {storage_origin}; form-action 'self'; base-uri 'none'; "
                "frame-ancestors 'none'"
            ),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Cache-Control": "no-store",
        }

    def page(self, name: str, code: int = 200, **values: Any) -> HTMLResponse:
        """Return a rendered page."""
        html = self._templates.get_template(name).render(**values)
        return HTMLResponse(html, code, self._headers)


def router(deps: Deps, pages: Pages) -> APIRouter:
    """Return the routes of the pages."""
    routes = APIRouter(include_in_schema=False)
    reading = deps.reading

    @routes.get("/")
    async def home(_: MayRead) -> HTMLResponse:
        recent = await reading.runs(Filters().filters(), 10)
        return pages.page("home.html", overview=await reading.overview(), runs=recent["items"])

    @routes.get("/runs")
    async def runs(_: MayRead, wanted: Annotated[Filters, Query()]) -> HTMLResponse:
        wanted = Filters(**{name: value for name, value in wanted.model_dump().items() if value != ""})
        page = await reading.runs(wanted.filters(), wanted.limit, wanted.after)
        chosen = wanted.model_dump(exclude={"after"}, exclude_none=True, exclude_defaults=True)
        return pages.page(
            "runs.html",
            page=page,
            chosen=chosen,
            statuses=list(Status),
            kinds=sorted(RUN_KINDS),
            wanted=wanted,
        )

    @routes.get("/runs/{run_id}")
    async def run(run_id: str, _: MayRead) -> HTMLResponse:
        found = await reading.run(run_id)
        artifacts = found["artifacts"]
        artifacts.sort(key=lambda artifact: artifact["name"].startswith(PREFIX))  # those last
        return pages.page(
            "run.html",
            run=found,
            plots=[each for each in artifacts if each["contentType"] in IMAGES],
            papers=[each for each in artifacts if each["contentType"] == "application/pdf"],
            can_cancel=found["status"] not in FINAL and found["status"] != Status.CANCELING,
            can_retry=found["status"] in FINAL,
            is_held=found["status"] in HELD,
        )

    @routes.get("/runs/{run_id}/events")
    async def events(run_id: str, _: MayRead, wanted: Annotated[EventFilters, Query()]) -> HTMLResponse:
        wanted = EventFilters(**{name: value for name, value in wanted.model_dump().items() if value != ""})
        page = await reading.events(
            run_id, type=wanted.type, level=wanted.level, after=wanted.after, limit=wanted.limit
        )
        chosen = wanted.model_dump(
            include={"type", "level", "limit"}, exclude_none=True, exclude_defaults=True
        )
        return pages.page(
            "events.html", run_id=run_id, page=page, chosen=chosen, wanted=wanted, types=sorted(TYPES)
        )

    @routes.get("/hypotheses")
    async def hypotheses(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        page = await reading.hypotheses(wanted.limit, wanted.after)
        return pages.page("hypotheses.html", page=page)

    @routes.get("/hypotheses/{hypothesis_id}")
    async def hypothesis(hypothesis_id: str, _: MayRead) -> HTMLResponse:
        return pages.page("hypothesis.html", hypothesis=await reading.hypothesis(hypothesis_id))

    @routes.get("/pods")
    async def pods(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        return pages.page("pods.html", page=await reading.pods(wanted.limit, wanted.after))

    _add_forms(routes, deps)
    return routes


def _add_forms(routes: APIRouter, deps: Deps) -> None:
    @routes.post("/hypotheses")
    async def propose(
        principal: MaySubmit,
        title: Annotated[str, Form(min_length=1, max_length=200)],
        idea: Annotated[str, Form(min_length=1, max_length=20_000)],
    ) -> RedirectResponse:
        wanted = NewHypothesis(title=title, idea=idea, by=principal.name)
        hypothesis_id, _ = await deps.submitter.propose(wanted)
        return RedirectResponse(f"/hypotheses/{hypothesis_id}", 303)

    @routes.post("/runs/{run_id}/cancel")
    async def cancel(run_id: str, principal: MaySubmit) -> RedirectResponse:
        await deps.decider.cancel(run_id, by=f"user:{principal.name}")
        return RedirectResponse(f"/runs/{run_id}", 303)

    @routes.post("/runs/{run_id}/retry")
    async def retry(run_id: str, principal: MaySubmit) -> RedirectResponse:
        submitted = await deps.submitter.retry(run_id, by=principal.name)
        return RedirectResponse(f"/runs/{submitted.run_id}", 303)

    @routes.post("/runs/{run_id}/review")
    async def review(
        run_id: str,
        principal: MayReview,
        verdict: Annotated[str, Form(pattern="^(pass|fail)$")],
        notes: Annotated[str, Form(max_length=20_000)] = "",
    ) -> RedirectResponse:
        judged = Review("pass" if verdict == "pass" else "fail", notes, principal.name)
        await deps.decider.review(run_id, judged)
        return RedirectResponse(f"/runs/{run_id}", 303)

    @routes.post("/pods/{pod_id:path}/drain")
    async def drain(pod_id: str, _: MaySteer) -> RedirectResponse:
        await deps.reading.drain(pod_id)
        return RedirectResponse("/pods", 303)
