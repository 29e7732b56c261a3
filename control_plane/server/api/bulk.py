"""Operations on many runs: cancel, retry or change the named ones, or all that match filters."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field, StringConstraints, model_validator

from control_plane.reads.reading import RunFilters
from control_plane.runs.bulk import NAME_CHARS_MAX, PART_MAX, Action, Bulk, Part, counted
from control_plane.runs.options import NO_CHANGES, OptionChanges
from control_plane.server.api.contract.bodies import Body, ChangesBody, Moment, ShortText, Storable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MaySubmit
from control_plane.server.deps import Deps
from events.answers.runs import BulkResult, BulkResults

Name = Annotated[str, StringConstraints(pattern=rf"^[A-Za-z0-9._-]{{1,{NAME_CHARS_MAX}}}$")]
Wanted = Annotated[ShortText, Storable]


class FilterBody(Body):
    """The filters of runs; without a filter, all runs."""

    status: Wanted | None = None
    kind: Wanted | None = None
    label: Wanted | None = None
    hypothesis: Wanted | None = None
    group: Wanted | None = None
    pod: Wanted | None = None
    by: Wanted | None = None
    region: Wanted | None = None
    project: Wanted | None = None
    q: Wanted | None = None


class BulkBody(Body):
    """An operation, and the runs to apply it to.

    `options` are the changes of a change, and of a retry against the options of its parent.
    A request that continues a bulk repeats `name` and `askedAt` of the first answer; `after` is its `next`.
    """

    action: Action
    ids: Annotated[list[Wanted], Field(min_length=1, max_length=PART_MAX)] | None = None
    filters: FilterBody | None = None
    name: Name | None = None
    asked_at: Moment | None = None
    options: ChangesBody | None = None
    after: ShortText | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> BulkBody:
        if (self.ids is None) == (self.filters is None):
            raise ValueError("give `ids` or `filters`, one of the two")
        if self.action == "change" and not self.changes().given:
            raise ValueError("a change needs `options`")
        if self.action == "cancel" and self.options is not None:
            raise ValueError("`options` are of a change or a retry")
        return self

    def changes(self) -> OptionChanges:
        """Return the options that shall be others."""
        return NO_CHANGES if self.options is None else self.options.changes()


async def part_of(bulk: Bulk, body: BulkBody, asked_at: datetime, after: str | None) -> Part:
    """Return the named runs, or the next ones after the cursor `after` that matched at `asked_at`."""
    if body.ids is not None:
        return await bulk.named(body.ids)
    assert body.filters is not None, "one of the two is given"
    return await bulk.matching(RunFilters(**body.filters.model_dump()), asked_at, after)


def router(deps: Deps) -> APIRouter:
    """Return the route `/api/runs/bulk`."""
    routes = Routes(tags=["runs"])

    @routes.post("/api/runs/bulk")
    async def bulk(body: BulkBody, principal: MaySubmit) -> BulkResults:
        name = body.name or deps.submitter.ids.ulid()
        asked_at: datetime = body.asked_at or deps.reading.clock.now()
        part = await part_of(deps.bulk, body, asked_at, body.after)
        results = await deps.bulk.act(
            body.action,
            part,
            by=principal.name,
            name=name,
            changes=body.changes(),
            named_by=principal.name,
        )
        return BulkResults(
            name=name,
            asked_at=asked_at.isoformat(),
            results=[BulkResult(**asdict(each)) for each in results],
            counts=counted(results),
            next=part.next,
        )

    return routes
