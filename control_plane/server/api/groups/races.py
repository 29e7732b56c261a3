"""Races over HTTP: the same run on several machines, started together."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from control_plane.concurrency.singleflight import Singleflight
from control_plane.reads.results.archive import ZIP
from control_plane.reads.results.export import MEDIA_TYPES
from control_plane.runs.groups.races.export import archived, laps_csv, opened
from control_plane.runs.groups.races.reads import RaceFilters
from control_plane.server.api.contract.race_bodies import RaceBody
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.results import signer_of
from control_plane.server.api.runs import THE_SAME, Key, MayRead, MaySubmit, Page, Seen
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.plans.races import Race, RaceChecks, RaceRow, RaceSamples

PODS_CHARS_MAX: Final = 4_000
FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {each: {"schema": {"type": "string"}} for each in (ZIP, MEDIA_TYPES["csv"])},
        "description": "The race as a file",
    },
    404: {},
}
Round = Annotated[int | None, Query(ge=1, le=1_000_000_000)]


class RacesWanted(Page):
    """Which races are wanted; `pods` are names divided by commas, and a race on any of them is meant."""

    pods: Annotated[str | None, Field(max_length=PODS_CHARS_MAX)] = None
    kind: Annotated[str | None, Field(max_length=200)] = None
    status: Annotated[str | None, Field(max_length=40)] = None

    def filters(self) -> RaceFilters:
        """Return the filters."""
        names = [name.strip() for name in (self.pods or "").split(",")]
        return RaceFilters(
            pods=[name for name in names if name], kind=self.kind or None, status=self.status or None
        )


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/races`."""
    routes = Routes(tags=["races"])
    reads, service = deps.races, deps.race_service
    joined: Singleflight[RaceSamples] = Singleflight()

    async def told(race_id: str, response: Response, number: int | None = None) -> Race:
        race = await reads.one(race_id, number)
        response.headers["ETag"] = f'"{race.revision}"'
        return race

    @routes.post("/api/races", status_code=201, responses=THE_SAME)
    async def create(body: RaceBody, principal: MaySubmit, response: Response, key: Key = None) -> Race:
        name, is_new = await service.create(body.wanted(principal.name, key))
        if not is_new:
            response.status_code = 200
        response.headers["Location"] = f"/api/races/{name}"
        return await told(name, response)

    @routes.post("/api/race-checks")
    async def check(body: RaceBody, principal: MaySubmit) -> RaceChecks:
        return await service.check(body.wanted(principal.name))

    @routes.get("/api/races")
    async def page(_: MayRead, wanted: Annotated[RacesWanted, Query()]) -> Listing[RaceRow]:
        return await reads.page(wanted.filters(), wanted.limit, wanted.after)

    @routes.get("/api/races/{race_id}", responses={404: {}})
    async def one(race_id: str, _: MayRead, response: Response, round: Round = None) -> Race:
        return await told(race_id, response, round)

    @routes.get("/api/races/{race_id}/samples", responses={404: {}})
    async def samples(race_id: str, _: MayRead) -> RaceSamples:
        found = await joined.read(race_id, partial(reads.samples, race_id))  # many may watch the same race
        await deps.pod_looks.look([lane.pod for lane in found.lanes])  # then they report every second
        return found

    _add_orders(routes, deps)
    _add_export(routes, deps)
    return routes


def _add_orders(routes: APIRouter, deps: Deps) -> None:
    reads, groups = deps.races, deps.groups.service

    @routes.post("/api/races/{race_id}/again", responses={409: {}, 412: {}})
    async def again(race_id: str, principal: MaySubmit, response: Response, seen: Seen = None) -> Race:
        await reads.stored(race_id)
        await groups.again(race_id, revision=None if seen is None else int(seen), by=principal.name)
        race = await reads.one(race_id)
        response.headers["ETag"] = f'"{race.revision}"'
        return race

    @routes.post("/api/races/{race_id}/cancel", responses={404: {}})
    async def cancel(race_id: str, principal: MaySubmit) -> Race:
        await reads.stored(race_id)
        await groups.cancel(race_id, by=principal.name)
        return await reads.one(race_id)


class RaceFile(BaseModel):
    """Which round is exported, and as what: the laps as CSV, or all of it as a signed ZIP."""

    format: Literal["zip", "csv"] = "zip"
    round: Annotated[int | None, Field(ge=1, le=1_000_000_000)] = None


def _add_export(routes: APIRouter, deps: Deps) -> None:
    @routes.get("/api/races/{race_id}/export", response_class=StreamingResponse, responses=FILE)
    async def export(race_id: str, _: MayRead, wanted: Annotated[RaceFile, Query()]) -> Response:
        race = await deps.races.one(race_id, wanted.round)
        name = f"{race.id}-{race.round}.{wanted.format}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        if wanted.format == "csv":
            laps = await asyncio.to_thread(laps_csv, race)
            return Response(laps, media_type=MEDIA_TYPES["csv"], headers=headers)
        signer = signer_of(deps)
        archive = opened(race, signer, deps.clock.now())
        return StreamingResponse(archived(archive, deps.reading, signer), media_type=ZIP, headers=headers)
