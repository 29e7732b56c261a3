"""The routes of the product: an answer that is a struct is encoded directly and described in OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from types import UnionType
from typing import Any, Final, get_args, get_origin

import msgspec
from fastapi import APIRouter, Request, params
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params, get_typed_return_annotation
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute

from control_plane.server.dependencies import REQUIRED
from events.answers.kind_parts import spread
from events.answers.runs import Run

JSON: Final = "application/json"
API: Final = "/api/"
REFERENCE: Final = "#/components/schemas/{name}"
_ODD: Final = re.compile(r"[^a-zA-Z0-9.\-_]")

Json = dict[str, Any]


class Encoded(JSONResponse):
    """An answer that is JSON text already."""

    def render(self, content: Any) -> bytes:
        """Return the JSON text as bytes."""
        return str(content).encode()


class StructRoute(APIRoute):
    """A route; if its function is declared to return structs, they are encoded directly.

    One of the API refuses query parameters that it does not have.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.answers = structs_of(get_typed_return_annotation(endpoint))
        if self.answers:
            # one that is declared without a word is a refusal
            own = [status for status, words in (options.get("responses") or {}).items() if words]
            statuses = {options.get("status_code") or 200, *own}
            content = {JSON: {"schema": reference(*self.answers)}}
            described = {str(status): {"content": content} for status in statuses}
            options |= {"response_model": None, "response_class": Encoded}
            options["openapi_extra"] = {**(options.get("openapi_extra") or {}), "responses": described}
            endpoint = _encoding(endpoint)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what serves a request. Raises `RequestValidationError` for an unknown query parameter."""
        serve = super().get_route_handler()
        if not self.path.startswith(API):
            return serve
        known = query_names(self.dependant)

        async def checked(request: Request) -> Response:
            unknown = [] if not request.scope["query_string"] else sorted({*request.query_params} - known)
            if unknown:
                told = f"there are {', '.join(sorted(known))}" if known else "there is none here"
                raise RequestValidationError(
                    [{"type": "unknown", "loc": ("query", each), "msg": f"no such parameter: {told}"}
                     for each in unknown]
                )  # fmt: skip
            return await serve(request)

        return checked


def query_names(dependant: Dependant) -> set[str]:
    """Return the names of the query parameters that a route, and what it depends on, reads."""
    own = {each.alias for each in get_flat_params(Dependant(query_params=dependant.query_params))}
    return own.union(*(query_names(each) for each in dependant.dependencies))


class Routes(APIRouter):
    """Routes of the product, with what each of them depends on."""

    def __init__(self, *, dependencies: Sequence[params.Depends] = (), **options: Any) -> None:
        super().__init__(route_class=StructRoute, dependencies=[*REQUIRED, *dependencies], **options)


def add_routes(router: APIRouter, *added: APIRouter) -> None:
    """Serve these routes too; `include_router` would make each twice and match each request twice."""
    for each in added:
        router.routes.extend(each.routes)


def structs_of(annotation: Any) -> tuple[Any, ...]:
    """Return the structs that a function may return; none if it may return anything else."""
    found = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kinds = [get_origin(each) or each for each in found]
    is_struct = all(isinstance(each, type) and issubclass(each, msgspec.Struct) for each in kinds)
    return found if is_struct else ()


def reference(*answers: Any) -> Json:
    """Return the schema of an answer that is one of these structs, as references into the document."""
    places = [{"$ref": REFERENCE.format(name=name_of(each))} for each in answers]
    return places[0] if len(places) == 1 else {"anyOf": places}


def name_of(struct: Any) -> str:
    """Return the name that msgspec gives a struct in a document; msgspec takes milliseconds to compute it."""
    name = (get_origin(struct) or struct).__name__
    made_of = ", ".join(each.__name__ if isinstance(each, type) else repr(each) for each in get_args(struct))
    return _ODD.sub("_", f"{name}[{made_of}]" if made_of else name)


def answers_of(router: APIRouter) -> set[Any]:
    """Return the structs that the routes of a router answer with, those of the routers in it included."""
    found: set[Any] = set()
    for route in router.routes:
        if isinstance(route, StructRoute):
            found |= {*route.answers}
        elif (inner := getattr(route, "original_router", None)) is not None:
            found |= answers_of(inner)
    return found


def _base(value: Any) -> Any:
    """Return an instance of a subclass of `str` or `int`, such as the driver's `Int64`, as its base type."""
    for base in (int, str):
        if isinstance(value, base):
            return base(value)
    raise NotImplementedError(f"no JSON can say a {type(value).__name__}")


ENCODER: Final = msgspec.json.Encoder(enc_hook=_base)


def _encoding(endpoint: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[str]]:
    @wraps(endpoint)
    async def encoded(*arguments: Any, **named: Any) -> str:
        answer = await endpoint(*arguments, **named)
        return ENCODER.encode(spread(answer) if isinstance(answer, Run) else answer).decode()

    return encoded
