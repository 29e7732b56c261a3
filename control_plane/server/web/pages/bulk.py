"""Bulk operations on runs: a page that confirms, and one that shows the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from control_plane.runs.bulk import PART_MAX, Part, counted
from control_plane.server.api.bulk import BulkBody, FilterBody, part_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit
from control_plane.server.web.forms.fields import Unfit, read_body, typed_texts
from control_plane.server.web.forms.parts import KEPT, changed_names, option_parts, options_given, shown
from control_plane.server.web.page_renderer import Site

SHOWN_MAX: Final = 100
STEPS: Final = {"cancel": "Cancel", "retry": "Retry", "change": "Change"}
NOTHING_GIVEN: Final = "fill in at least one option"
DONE: Final = {"cancel": "cancelled", "retry": "retried", "change": "changed"}


class BulkForm(BaseModel):
    """The selected runs and the pressed button; `all` means every run that matches the filters."""

    action: str = ""
    ids: list[str] = []
    all: str = ""
    status: str = ""
    kind: str = ""
    label: str = ""
    hypothesis: str = ""
    group: str = ""
    pod: str = ""
    by: str = ""
    region: str = ""
    project: str = ""
    q: str = ""
    name: str = ""
    asked_at: str = ""
    after: str = ""

    def filters(self) -> dict[str, str]:
        """Return the filters that are not empty, by their names in the API."""
        return {name: value for name in FilterBody.model_fields if (value := getattr(self, name))}

    def back(self) -> str:
        """Return the address of the list that the form was sent from."""
        return f"/runs?{urlencode(self.filters())}" if self.filters() else "/runs"

    def body(self, typed: Mapping[str, str] | None) -> BulkBody:
        """Return the request body of the API, with the typed options. Raises `Unfit`.

        Without `typed` it is that of a question, before any option is asked for.
        """
        wanted: dict[str, Any] = {"action": self.action}
        if typed is None and self.action == "change":
            wanted["options"] = {"priority": 0}
        elif typed is not None and self.action != "cancel":
            wanted["options"] = options_given(typed)
            if self.action == "change" and not wanted["options"]:
                raise Unfit([NOTHING_GIVEN], {"priority": NOTHING_GIVEN})
        if self.all:
            wanted["filters"] = read_body(FilterBody, self.filters())
        elif self.ids:
            wanted["ids"] = self.ids
        else:
            raise Unfit(["No run is ticked: tick some, or take all that match the filters."])
        for name in ("name", "asked_at", "after"):
            if getattr(self, name):
                wanted[name] = getattr(self, name)
        return read_body(BulkBody, wanted)


@dataclass(frozen=True, slots=True)
class BulkPages:
    """The two pages of a bulk operation."""

    site: Site

    async def ask(
        self, form: BulkForm, typed: Mapping[str, str] | None = None, unfit: Unfit | None = None
    ) -> HTMLResponse:
        """Show what would be done, with the options that are asked for, or the typed ones with problems."""
        deps = self.site.deps
        try:
            body = form.body(None)
        except Unfit as found:
            return await self.site.problem(422, str(found), back=form.back())
        asked_at = deps.reading.clock.now()
        part = await part_of(deps.bulk, body, asked_at, body.after)
        has_options = body.action != "cancel"
        problems = unfit.fields if unfit else {}
        return await self.site.show(
            "bulk.html",
            422 if unfit else 200,
            form=form,
            parts=shown(option_parts(KEPT), typed or {}, problems) if has_options else (),
            problems=problems,
            filters=form.filters(),
            runs=[{**run, "id": run["_id"]} for run in part.runs[:SHOWN_MAX]],
            total=len(part.runs),
            has_more=part.next is not None,
            part_max=PART_MAX,
            verb=STEPS[body.action],
            order=deps.submitter.ids.ulid(),
            asked_at=asked_at.isoformat(),
            results=None,
        )

    async def act(self, form: BulkForm, typed: Mapping[str, str], by: str) -> HTMLResponse:
        deps = self.site.deps
        try:
            body = form.body(typed)
        except Unfit as unfit:
            if unfit.fields.keys() & changed_names():
                return await self.ask(form, typed, unfit)
            return await self.site.problem(422, str(unfit), back=form.back())
        name = body.name or deps.submitter.ids.ulid()
        asked_at = body.asked_at or deps.reading.clock.now()
        part = await part_of(deps.bulk, body, asked_at, body.after)
        results = await deps.bulk.act(
            body.action, part, by=by, name=name, changes=body.changes(), named_by=by
        )
        left = Part([], None)
        if body.filters is not None and part.next is not None:
            left = await part_of(deps.bulk, body, asked_at, part.next)
        return await self.site.show(
            "bulk.html",
            form=form,
            filters=form.filters(),
            texts={name: text for name, text in typed.items() if name in changed_names()},
            done=DONE[body.action],
            results=[each for each in results if each.outcome != "done" or each.run_id][:SHOWN_MAX],
            counts=counted(results),
            left=len(left.runs),
            has_more=left.next is not None,
            after=part.next,
            part_max=PART_MAX,
            verb=STEPS[body.action],
            order=name,
            asked_at=asked_at.isoformat(),
        )


def router(site: Site) -> APIRouter:
    """Return the routes of the pages of a bulk operation."""
    routes = Routes(include_in_schema=False)
    pages = BulkPages(site)

    @routes.get("/runs/bulk")
    async def ask(_: MayRead, form: Annotated[BulkForm, Query()]) -> HTMLResponse:
        return await pages.ask(form)

    @routes.post("/runs/bulk")
    async def act(principal: MaySubmit, form: Annotated[BulkForm, Form()], request: Request) -> HTMLResponse:
        return await pages.act(form, await typed_texts(request), principal.name)

    return routes
