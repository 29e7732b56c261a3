"""File trees and data sets: what the storage lacks of a tree, whole trees, and named versions of them."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import Field, StringConstraints

from control_plane.files.trees import TreeStore
from control_plane.server.api.contract.bodies import WHOLE, Body, Sha256
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import THE_SAME, MayRead, MaySubmit, Page
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.kinds.trees import DataSet, FileTree, MissingObjects, TreeChunks
from events.files.trees import CHUNK_BYTES, CHUNKS_MAX, MANIFEST_BYTES_MAX

ASKED_MAX: Final = 256  # chunks of one request
VERSION_MAX: Final = 10**9

DataSetName = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9._-]{0,99}$")]
First = Annotated[int, Query(ge=0, le=CHUNKS_MAX)]
Limit = Annotated[int, Query(ge=1, le=ASKED_MAX)]


class ChunkBody(Body):
    """A chunk, by its SHA-256 in hexadecimal; its size in bytes."""

    sha256: Sha256
    size: Annotated[int, Field(ge=1, le=CHUNK_BYTES), WHOLE]


class ManifestBody(Body):
    """A manifest, by its SHA-256 in hexadecimal; its size in bytes."""

    sha256: Sha256
    size: Annotated[int, Field(ge=1, le=MANIFEST_BYTES_MAX), WHOLE]


class MissingBody(Body):
    """Chunks, and the manifest, of which the storage may lack some."""

    chunks: Annotated[list[ChunkBody], Field(max_length=ASKED_MAX)] = Field(default_factory=list)
    manifest: ManifestBody | None = None


class TreeBody(Body):
    """A tree, by the SHA-256 of its manifest."""

    id: Sha256


class VersionBody(Body):
    """The tree of a new version of a data set."""

    tree: Sha256


class DataSetsWanted(Page):
    """A page of versions of data sets, of one where it is named."""

    name: DataSetName | None = None


def router(deps: Deps) -> APIRouter:
    """Return the routes of trees and data sets."""
    routes = Routes(tags=["trees"])
    _add_trees(routes, deps.tree_store)
    _add_data_sets(routes, deps.tree_store)
    return routes


def _add_trees(routes: Routes, trees: TreeStore) -> None:
    @routes.post("/api/tree-uploads")
    async def missing(body: MissingBody, _: MaySubmit) -> MissingObjects:
        manifest = None if body.manifest is None else (body.manifest.sha256, body.manifest.size)
        return await trees.missing([(each.sha256, each.size) for each in body.chunks], manifest)

    @routes.post("/api/trees", status_code=201)
    async def add(body: TreeBody, principal: MaySubmit, response: Response) -> FileTree:
        response.headers["Location"] = f"/api/trees/{body.id}"
        return await trees.add(body.id, by=principal.name)

    @routes.get("/api/trees/{tree_id}")
    async def one(tree_id: str, _: MayRead) -> FileTree:
        return await trees.find(tree_id)

    @routes.get("/api/trees/{tree_id}/chunks")
    async def chunks(tree_id: str, _: MayRead, first: First = 0, limit: Limit = ASKED_MAX) -> TreeChunks:
        return await trees.chunks(tree_id, first, limit)


def _add_data_sets(routes: Routes, trees: TreeStore) -> None:
    @routes.get("/api/data-sets")
    async def page(_: MayRead, wanted: Annotated[DataSetsWanted, Query()]) -> Listing[DataSet]:
        return await trees.versions(wanted.name, wanted.limit, wanted.after)

    @routes.get("/api/data-sets/{data_set_id}")
    async def latest(data_set_id: str, _: MayRead) -> DataSet:
        return await trees.version(data_set_id, None)

    @routes.get("/api/data-sets/{data_set_id}/{version}")
    async def version(
        data_set_id: str, version: Annotated[int, Field(ge=1, le=VERSION_MAX)], _: MayRead
    ) -> DataSet:
        return await trees.version(data_set_id, version)

    @routes.post("/api/data-sets/{data_set_id}", status_code=201, responses=THE_SAME)
    async def add_version(
        data_set_id: DataSetName, body: VersionBody, principal: MaySubmit, response: Response
    ) -> DataSet:
        found, is_new = await trees.add_version(data_set_id, body.tree, by=principal.name)
        response.status_code = 201 if is_new else 200
        response.headers["Location"] = f"/api/data-sets/{found.id}"
        return found
