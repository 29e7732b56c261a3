"""The buttons that control a run: a redirect after success, the same page with the reason after a refusal."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form
from fastapi.responses import Response

from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayReview, MaySubmit
from control_plane.server.web.forms.fields import ReviewForm, Unfit, typed_lines
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import carried_out, refused, see
from events.answers.runs import HumanVerdict
from events.runtime.errors import Conflict, Rejected

FORM_CHARS_MAX: Final = 20_000

Text = Annotated[str, Form(max_length=FORM_CHARS_MAX)]


def router(site: Site) -> APIRouter:
    """Return the routes of the forms."""
    routes = Routes(include_in_schema=False)
    _add_orders(routes, site)
    _add_review(routes, site)
    return routes


def _add_orders(routes: APIRouter, site: Site) -> None:
    decider = site.deps.decider

    @routes.post("/runs/{run_id}/cancel")
    async def cancel(run_id: str, principal: MaySubmit) -> Response:
        return await carried_out(site, decider.cancel(run_id, by=f"user:{principal.name}"), _run(run_id))

    @routes.post("/runs/{run_id}/rescue")
    async def rescue(run_id: str, principal: MaySubmit) -> Response:
        return await carried_out(site, decider.rescue(run_id, by=f"user:{principal.name}"), _run(run_id))

    @routes.post("/runs/{run_id}/pause")
    async def pause(run_id: str, principal: MaySubmit) -> Response:
        return await carried_out(site, decider.pause(run_id, by=f"user:{principal.name}"), _run(run_id))

    @routes.post("/runs/{run_id}/resume")
    async def resume(run_id: str, principal: MaySubmit) -> Response:
        return await carried_out(site, decider.resume(run_id, by=f"user:{principal.name}"), _run(run_id))

    @routes.post("/runs/{run_id}/notes")
    async def note(run_id: str, principal: MaySubmit, text: Text = "") -> Response:
        order = decider.note(run_id, typed_lines(text), by=f"user:{principal.name}")
        return await carried_out(site, order, _run(run_id))


def _add_review(routes: APIRouter, site: Site) -> None:
    @routes.post("/runs/{run_id}/review")
    async def review(run_id: str, principal: MayReview, form: Annotated[ReviewForm, Form()]) -> Response:
        from_list = form.back == "reviews"
        back = "/reviews" if from_list else _run(run_id)
        try:
            body = form.body()
            # With a key, the name behind it is what the records hold.
            reviewer = (form.judge() or principal.name) if principal.is_shared else principal.name
            await site.deps.decider.review(run_id, body.by(reviewer))
        except Unfit as unfit:
            return await site.problem(422, str(unfit), back=back)
        except Rejected as error:
            return await refused(site, error, back)
        except Conflict as error:
            before = None if form.revise else await site.human_verdict(run_id)
            return await site.problem(409, error.message if before is None else _once(before), back=back)
        return see(f"/reviews?done={quote(run_id, safe='')}" if from_list else back)


def _once(verdict_given: HumanVerdict) -> str:
    verdict = "pass" if verdict_given.verdict == "pass" else "fail"
    return (
        f"This run has its verdict: {verdict_given.reviewer} said {verdict}. "
        "It can be revised on the run's page, with a reason."
    )


def _run(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"
