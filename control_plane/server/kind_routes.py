"""The routes that kinds bring, checked before the program serves.

Law: a route of a kind asks for a key, and takes no path that is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute, Match, Mount

from control_plane.access.auth import require
from control_plane.model.kind_packages import modules
from control_plane.reads.kinds.loops import KindLoop
from control_plane.server.api.contract.struct_routes import add_routes
from control_plane.server.kind_router import KindRouter
from control_plane.server.web.page_renderer import Site
from events.kinds.packages.guarded_call import asked
from events.runtime.errors import ConfigError

_PRINCIPAL: Final = require("read").__qualname__
_PARAMETER: Final = re.compile(r"\{[^}]*\}")


def include_kinds(app: FastAPI, site: Site) -> None:
    """Add the routes of each kind to those of the product, which are all there.

    Raises `ConfigError` that names each kind whose routes cannot be had.
    """
    problems: list[str] = []
    for kind, module in modules("routes").items():
        loop = site.deps.reading.kind_loops.of(kind)
        made = _made(module, site, loop)
        wrong = made if isinstance(made, str) else _objection(made, app.routes)
        if wrong is None and isinstance(made, APIRouter):
            if loop is None:
                add_routes(app.router, made)
            else:
                app.include_router(KindRouter(kind, loop, made))
        else:
            problems.append(f"kind {kind!r}: {wrong}; uninstall its package or fix it")
    if problems:
        raise ConfigError(problems)


def _made(module: Any, site: Site, loop: KindLoop | None) -> APIRouter | str:
    """Return the router of a kind, with what is connected on its loop, or why there is none."""

    def checked(own: Site) -> APIRouter | str:
        router: object = module.router(own)
        return router if isinstance(router, APIRouter) else f"its `router` returned {router!r}, no APIRouter"

    def made() -> APIRouter | str:
        if loop is None:
            return checked(site)
        return loop.make(lambda db: checked(Site(site.deps.on(db), site.pages)))

    return asked(made, lambda error: f"its `router` could not be made ({error})")


def _objection(router: APIRouter, known: Sequence[BaseRoute]) -> str | None:
    """Return why these routes cannot stand beside the known ones, None where they can."""

    def found() -> str | None:
        for each in iter_route_contexts(router.routes):
            if not isinstance(each.original_route, APIRoute):
                return f"{each.original_route!r} is no route of an APIRouter"
            if _PRINCIPAL not in _names(each.original_route.dependant):
                return f"its route {each.path!r} asks for no key, as `MayRead` does"
        return None

    if (wrong := asked(found, lambda error: f"its routes cannot be read ({error})")) is not None:
        return wrong
    for path in _paths(router.routes):
        if _takes(known, path):
            return f"its route {path!r} is answered by another one already"
    for path in _paths(known):
        if _takes(router.routes, path):
            return f"a route of its own takes {path!r}, which is answered already"
    return None


def _names(dependant: Dependant) -> Iterator[str | None]:
    """Yield the names of what a route depends on."""
    for each in dependant.dependencies:
        yield getattr(each.call, "__qualname__", None)
        yield from _names(each)


def _paths(routes: Sequence[BaseRoute]) -> Iterator[str]:
    for each in iter_route_contexts(routes):
        path = str(each.path or "")
        yield f"{path}/x" if isinstance(each.original_route, Mount) else path


def _takes(routes: Sequence[BaseRoute], path: str) -> bool:
    """Say whether one of `routes` takes a request of any method for a path of this pattern."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": _PARAMETER.sub("1", path),
        "root_path": "",
        "headers": [],
    }
    return any(each.matches(dict(scope))[0] is not Match.NONE for each in routes)
