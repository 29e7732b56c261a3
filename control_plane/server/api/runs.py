"""Runs: submit, read, control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from control_plane.access.audit_log import add_details
from control_plane.access.auth import Principal, require
from control_plane.model.views.boards.run_fields import FIELD_CHARS_MAX, RunField, read_fields
from control_plane.reads.comparison import RUNS_MAX, RUNS_MIN
from control_plane.reads.paging import LIMIT_DEFAULT
from control_plane.reads.reading import LEVELS, SEARCH_CHARS_MAX, RunFilters
from control_plane.runs.explainer import explanation
from control_plane.runs.submission import Submission, checked, order_of
from control_plane.server.api.contract.bodies import Again, ChangesBody, NewRun, NoteBody, ReviewBody
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.deps import Deps
from control_plane.upkeep.keeping.deleter import deleted_in_words
from events.answers.access.keeping import Deletion, Tombstone
from events.answers.logs import LogPage
from events.answers.runs import CheckedRun, Comparison, Explanation, Run, RunPage
from events.lifecycle import Status
from events.runtime.errors import Rejected

Json = dict[str, Any]
REVISION_CHARS_MAX: Final = 15
MayRead = Annotated[Principal, Depends(require("read"))]
MaySubmit = Annotated[Principal, Depends(require("submit"))]
MayDelete = Annotated[Principal, Depends(require("admin"))]
MayReview = Annotated[Principal, Depends(require("review"))]


def revision_of(text: str) -> str:
    """Return the digits of a revision, in quotes or not. Raises `ValueError`."""
    digits = text.removeprefix("W/").removeprefix('"').removesuffix('"')  # a proxy weakens an ETag
    if not (digits.isascii() and digits.isdigit() and len(digits) <= REVISION_CHARS_MAX):
        raise ValueError('the `revision` that was shown is wanted, such as "3"')
    return digits


# the `revision` of the run, or of the group, that somebody looked at
Seen = Annotated[str | SkipJsonSchema[None], Header(alias="If-Match"), AfterValidator(revision_of)]
MustSee = Annotated[str, Header(alias="If-Match"), AfterValidator(revision_of)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


async def _circumstances(
    key: Key = None, traceparent: Annotated[str | None, Header(max_length=200)] = None
) -> Json:
    return {"idempotency_key": key, "traceparent": traceparent}


# What a route that makes something answers where that is there already.
THE_SAME: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "Nothing new"}}
BOUNDS: Final[dict[str, Any]] = {"minItems": RUNS_MIN, "maxItems": RUNS_MAX, "uniqueItems": True}
Several = Annotated[list[str], Query(default_factory=list, json_schema_extra=BOUNDS)]
Asked = Annotated[Json, Depends(_circumstances)]


COLUMN_LISTS_MAX: Final = 16  # a form sends each column by itself
# Several names divided by commas; bounded so that those of a whole list fit into the head of a request.
ColumnNames = Annotated[str, Field(max_length=1_000, pattern=r"^[ -~]*$")]

OfProject = Annotated[
    str | None, Query(max_length=SEARCH_CHARS_MAX), BeforeValidator(lambda text: text or None)
]


class Page(BaseModel):
    """The position and the length of a page of a list."""

    limit: int = LIMIT_DEFAULT
    after: str | None = None


class Filters(Page):
    """The filters of runs."""

    status: Annotated[str | None, Field(json_schema_extra={"enum": [*Status]})] = None
    kind: str | None = None
    label: str | None = None
    hypothesis: str | None = None
    group: str | None = None
    pod: str | None = None
    by: str | None = None
    region: str | None = None
    project: str | None = None
    q: str | None = None

    def filters(self) -> RunFilters:
        names = {each.name for each in fields(RunFilters)}
        return RunFilters(**self.model_dump(include=names))


class RunsWanted(Filters):
    """The filters of runs, the columns besides, and the column that sorts them, `-` before it turns it round.

    A column is `summary.NAME`, `label.NAME` or `spec.PATH`. `mine` are the runs that the asking key, or user,
    submitted.
    """

    columns: Annotated[list[ColumnNames], Field(max_length=COLUMN_LISTS_MAX)] = []
    sort: Annotated[str | None, Field(max_length=1 + FIELD_CHARS_MAX, pattern=r"^[ -~]*$")] = None
    mine: bool = False

    def fields(self) -> Sequence[RunField]:
        """Return the columns. Raises `Rejected`."""
        return read_fields(self.columns)

    def of(self, principal: Principal) -> RunFilters:
        """Return the filters as `principal` means them. Raises `Rejected` for two submitters."""
        found = self.filters()
        if not self.mine:
            return found
        if found.by not in (None, principal.name):
            raise Rejected("two_submitters", "`mine` or `by`: a run has one submitter")
        return replace(found, by=principal.name)


class RunsView(RunsWanted):
    """The filters and columns of the page of runs, whose own columns have names without dots."""

    def fields(self) -> Sequence[RunField]:
        """Return the columns of choice. Raises `Rejected`."""
        return read_fields(each for text in self.columns for each in text.split(",") if "." in each)


class EventFilters(Page):
    """The filters of events, and from which end of the log they are read."""

    type: str | None = None
    level: Annotated[str | None, Field(json_schema_extra={"enum": [*LEVELS]})] = None
    text: str | None = None
    order: Literal["newest", "oldest"] = "newest"

    def search(self) -> dict[str, Any]:
        filters = self.model_dump(include={"type", "level", "text", "after", "limit"})
        return {**filters, "newest_first": self.order == "newest"}


class LogFilters(EventFilters):
    """The part of a log that a page shows; `at` is the event that it begins with."""

    at: str | None = Field(None, max_length=100)


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/runs`."""
    routes = Routes(prefix="/api/runs", tags=["runs"])
    reading = deps.reading

    @routes.post("", status_code=201, responses={**THE_SAME, 410: {}})
    async def submit(
        body: NewRun, principal: MaySubmit, response: Response, circumstances: Asked, dry_run: bool = False
    ) -> Run | CheckedRun:
        wanted = Submission(**body.model_dump(), **circumstances, by=principal.name, named_by=principal.name)
        if dry_run:
            response.status_code = 200
            found = await checked(await deps.submitter.exact(wanted))
            await deps.submitter.require_permitted(await order_of(wanted))
            await deps.submitter.has_to_wait(wanted.after)
            return found
        submitted = await deps.submitter.submit(wanted)
        response.status_code = 201 if submitted.is_new else 200
        response.headers["Location"] = f"/api/runs/{submitted.run_id}"
        return await reading.submitted(submitted)

    @routes.get("")
    async def page(principal: MayRead, wanted: Annotated[RunsWanted, Query()]) -> RunPage:
        return await deps.run_table.page(
            wanted.of(principal), wanted.limit, wanted.after, wanted.fields(), wanted.sort or None
        )

    @routes.get("/compare", responses={404: {}})
    async def compare(_: MayRead, run: Several) -> Comparison:
        return await reading.comparison(run)

    @routes.get("/{run_id}")
    async def one(run_id: str, _: MayRead) -> Run:
        return await reading.run(run_id)

    @routes.get("/{run_id}/events")
    async def events(run_id: str, _: MayRead, wanted: Annotated[EventFilters, Query()]) -> LogPage:
        await deps.deleter.require_kept(run_id)  # its log goes in pages, and may be there for a moment
        return await reading.events(run_id, **wanted.search())

    @routes.get("/{run_id}/explain")
    async def explain(run_id: str, _: MayRead) -> Explanation:
        return await explanation(reading, run_id)

    _add_steering(routes, deps)
    _add_deletion(routes, deps)
    return routes


def _add_steering(routes: APIRouter, deps: Deps) -> None:
    reading = deps.reading

    @routes.patch("/{run_id}", responses={409: {}, 412: {}})
    async def change(run_id: str, body: ChangesBody, principal: MaySubmit, seen: Seen = None) -> Run:
        revision = None if seen is None else int(seen)
        await deps.decider.change(run_id, body.changes(), by=f"user:{principal.name}", revision=revision)
        return await reading.run(run_id)

    @routes.post("/{run_id}/cancel")
    async def cancel(run_id: str, principal: MaySubmit) -> Run:
        await deps.decider.cancel(run_id, by=f"user:{principal.name}")
        return await reading.run(run_id)

    @routes.post("/{run_id}/rescue")
    async def rescue(run_id: str, principal: MaySubmit) -> Run:
        await deps.decider.rescue(run_id, by=f"user:{principal.name}")
        return await reading.run(run_id)

    @routes.post("/{run_id}/pause")
    async def pause(run_id: str, principal: MaySubmit) -> Run:
        await deps.decider.pause(run_id, by=f"user:{principal.name}")
        return await reading.run(run_id)

    @routes.post("/{run_id}/resume")
    async def resume(run_id: str, principal: MaySubmit) -> Run:
        await deps.decider.resume(run_id, by=f"user:{principal.name}")
        return await reading.run(run_id)

    @routes.post("/{run_id}/notes")
    async def note(run_id: str, body: NoteBody, principal: MaySubmit) -> Run:
        await deps.decider.note(run_id, body.text, by=f"user:{principal.name}")
        return await reading.run(run_id)

    @routes.post("/{run_id}/retry", status_code=201)
    async def retry(run_id: str, principal: MaySubmit, response: Response, again: Again | None = None) -> Run:
        again = again or Again()
        submitted = await deps.submitter.retry(
            run_id,
            by=principal.name,
            from_stage=again.from_stage,
            patch=again.spec,
            changes=again.changes(),
            named_by=principal.name,
        )
        response.headers["Location"] = f"/api/runs/{submitted.run_id}"
        return await reading.submitted(submitted)

    @routes.post("/{run_id}/review")
    async def review(run_id: str, body: ReviewBody, principal: MayReview) -> Run:
        await deps.decider.review(run_id, body.by(principal.name))
        return await reading.run(run_id)


def _add_deletion(routes: APIRouter, deps: Deps) -> None:
    @routes.get("/{run_id}/deletion")
    async def preview(run_id: str, _: MayRead) -> Deletion:
        return await deps.deleter.preview(run_id)

    @routes.delete("/{run_id}")
    async def delete(run_id: str, principal: MayDelete, request: Request) -> Tombstone:
        found = await deps.deleter.delete(run_id, by=f"user:{principal.name}")
        add_details(request, deleted_in_words(found))
        return found
