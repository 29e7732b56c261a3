"""The file trees of a run, for its worker."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.files.artifacts import owner_of
from control_plane.server.deps import Deps
from control_plane.store.reads import RunReads
from events.answers.kinds.trees import FileTree, TreeChunks
from events.files.trees import CHUNKS_MAX, named_trees
from events.runtime.errors import NotFound

SIGNED_MAX: Final = 64  # chunks of one request: a URL has to be used within minutes


def router(deps: Deps) -> APIRouter:
    """Return the routes of trees for workers."""
    routes = Routes(tags=["trees"])
    own, trees, reads = owner_of(deps), deps.tree_store, RunReads(deps.db)

    async def require_named(run_id: str, tree_id: str) -> None:
        stored = await reads.spec(run_id)
        if tree_id not in named_trees((stored or {}).get("spec")):
            raise NotFound("unknown_tree", f"run {run_id} does not name this tree")

    @routes.get("/api/runs/{run_id}/trees/{tree_id}")
    async def tree(run_id: str, tree_id: str, _: int = Depends(own)) -> FileTree:
        await require_named(run_id, tree_id)
        return await trees.find(tree_id)

    @routes.get("/api/runs/{run_id}/trees/{tree_id}/chunks")
    async def chunks(
        run_id: str,
        tree_id: str,
        first: Annotated[int, Query(ge=0, le=CHUNKS_MAX)] = 0,
        _: int = Depends(own),
    ) -> TreeChunks:
        await require_named(run_id, tree_id)
        return await trees.chunks(tree_id, first, SIGNED_MAX)

    return routes
