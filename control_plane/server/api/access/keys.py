"""Keys: created, listed, rotated and revoked with the scope `admin`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import Field, StringConstraints

from control_plane.access.key_ring import OVERLAP, NewKey, WantedKey
from control_plane.access.keys import LIFE_MAX, NAME_CHARS_MAX, Kind, Scope
from control_plane.model.views.document_mapping import from_document
from control_plane.server.api.contract.bodies import WHOLE, Body, ProjectName, Storable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import Page
from control_plane.server.deps import Deps
from events.answers.access.keys import Key, MadeKey
from events.answers.answer import Listing
from events.queue.fair.shares import PROJECTS_MAX

LIFE_MAX_S: Final = int(LIFE_MAX.total_seconds())
OVERLAP_S: Final = int(OVERLAP.total_seconds())
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=NAME_CHARS_MAX, strip_whitespace=True), Storable
]


class KeyBody(Body):
    """A key to create; without `scopes` it has all scopes of its kind, without `life_s` it never expires.

    A key of kind pod with `pod` is valid only for the pod of this name. One with `projects` submits runs of
    these alone, of the first where none is named.
    """

    kind: Kind
    name: Name
    pod: Name | None = None
    scopes: Annotated[list[Scope], Field(min_length=1)] | None = None
    life_s: Annotated[int, Field(ge=1, le=LIFE_MAX_S), WHOLE] | None = None
    projects: Annotated[list[ProjectName], Field(min_length=1, max_length=PROJECTS_MAX)] | None = None


class Rotation(Body):
    """For how many seconds the old key stays valid besides the new one."""

    overlap_s: Annotated[int, Field(ge=0, le=LIFE_MAX_S), WHOLE] = OVERLAP_S


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/keys`."""
    routes = Routes(prefix="/api/keys", tags=["keys"])
    ring = deps.key_ring

    @routes.post("", status_code=201)
    async def create(body: KeyBody, principal: MaySteer, response: Response) -> MadeKey:
        return _created(response, await ring.make(wanted_key(body), by=principal.name))

    @routes.get("")
    async def page(_: MaySteer, wanted: Annotated[Page, Query()]) -> Listing[Key]:
        return await deps.reading.keys(wanted.limit, wanted.after)

    @routes.get("/{key_id}")
    async def one(key_id: str, _: MaySteer) -> Key:
        return from_document(Key, await ring.find(key_id))

    @routes.post("/{key_id}/rotate", status_code=201)
    async def rotate(
        key_id: str, principal: MaySteer, response: Response, body: Rotation | None = None
    ) -> MadeKey:
        overlap = timedelta(seconds=OVERLAP_S if body is None else body.overlap_s)
        return _created(response, await ring.rotate(key_id, overlap=overlap, by=principal.name))

    @routes.post("/{key_id}/revoke")
    async def revoke(key_id: str, principal: MaySteer) -> Key:
        return from_document(Key, await ring.revoke(key_id, by=principal.name))

    return routes


def wanted_key(body: KeyBody) -> WantedKey:
    """Return the key that a body describes."""
    return WantedKey(
        kind=body.kind,
        name=body.name,
        pod=body.pod,
        projects=body.projects or (),
        scopes=None if body.scopes is None else frozenset(body.scopes),
        life=None if body.life_s is None else timedelta(seconds=body.life_s),
    )


def shown_once(new: NewKey) -> MadeKey:
    """Return a new key with its text, which is stored nowhere."""
    return from_document(MadeKey, new.document, key=new.text)


def _created(response: Response, new: NewKey) -> MadeKey:
    response.headers["Location"] = f"/api/keys/{new.document['_id']}"
    return shown_once(new)
