"""Errors as `application/problem+json` (RFC 9457): the problem, and what to do."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Mount

from control_plane.access.auth import Forbidden
from control_plane.access.key_ring import Unauthorized
from control_plane.concurrency.rate_limit import RateLimited
from control_plane.server.api.contract.openapi import PROBLEM_MEDIA_TYPE
from control_plane.server.http.answer_headers import HEADERS
from control_plane.server.http.bodies import BadEncoding, SlowBody, UnsupportedEncoding, UnsupportedMedia
from events.answers.access.keeping import Tombstone
from events.codec import TooLarge
from events.kinds.declaring.fields import NOT_OF_PATTERN, PATTERN_CHARS_MAX
from events.runtime.errors import (
    Conflict,
    Gone,
    NotFound,
    NotMeasurable,
    OutOfDate,
    PodfleetError,
    Rejected,
    Transient,
)

log = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 2
PROBLEMS_MAX: Final = 20  # fields that one answer names
PROBLEM_CHARS_MAX: Final = 300  # of a name, and of what is said of it
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")

# The first row that fits gives the status; rows go from the special to the general.
STATUSES: Final[tuple[tuple[type[PodfleetError], int], ...]] = (
    (Unauthorized, 401),
    (RateLimited, 429),
    (Forbidden, 403),
    (Gone, 410),
    (NotFound, 404),
    (SlowBody, 408),
    (OutOfDate, 412),
    (Conflict, 409),
    (TooLarge, 413),
    (UnsupportedEncoding, 415),
    (UnsupportedMedia, 415),
    (BadEncoding, 400),
    (Transient, 503),
    (Rejected, 422),
)
# Requests that cannot be read at all, rather than read and refused.
# Of what may be gone rather than never have been there.
OF_DELETED: Final = frozenset({"unknown_run", "unknown_hypothesis", "unknown_artifact", "deleted"})
UNREADABLE: Final = frozenset({"bad_cursor", "bad_limit", "bad_json", "bad_length"})


FindTombstone = Callable[[str], Awaitable[Tombstone | None]]


async def _none_is_deleted(_: str) -> Tombstone | None:
    return None


class ProblemPages(Protocol):
    """Renders a problem for people."""

    def page(self, name: str, code: int, **values: Any) -> Response: ...


def wants_page(request: Request) -> bool:
    """Say whether the request is from a browser, not from a program."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def problem(
    status: int, code: str, detail: str, *, retry_after_s: float = RETRY_AFTER_S, **more: Any
) -> JSONResponse:
    """Return a problem document."""
    body = {"type": "about:blank", "status": status, "code": code, "detail": detail, **more}
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(max(1, round(retry_after_s)))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="podfleet"'
    return JSONResponse(body, status, headers, PROBLEM_MEDIA_TYPE)


def _cut(text: str) -> str:
    return text if len(text) <= PROBLEM_CHARS_MAX else f"{text[:PROBLEM_CHARS_MAX]}…"


def _place(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


def methods_of(request: Request) -> list[str]:
    """Return the methods that the path of `request` has."""
    # a mount takes every method, and serves what is only read
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    found = [
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ] or ["GET"]
    return ["HEAD", *found] if "GET" in found else found


def status_of(error: PodfleetError) -> int:
    """Return the HTTP status of `error`."""
    if error.code in UNREADABLE:
        return 400
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def _named(request: Request) -> str | None:
    """Return the run or the hypothesis that the path of a request names."""
    names = request.path_params
    named = names.get("run_id") or names.get("hypothesis_id") or str(names.get("artifact_id", ""))
    return named.partition("/")[0] or None


def install(app: FastAPI, pages: ProblemPages, tombstone: FindTombstone = _none_is_deleted) -> None:
    """Answer every error of `app` by a problem document, or for a browser by a page.

    What is not found and has a tombstone is gone: the answer tells what stays of it.
    """

    def answer(request: Request, response: JSONResponse, detail: str) -> Response:
        if not wants_page(request):
            return response
        page = pages.page("problem.html", response.status_code, status=response.status_code, detail=detail)
        for name in ("WWW-Authenticate", "Retry-After"):
            if name in response.headers:
                page.headers[name] = response.headers[name]
        return page

    @app.exception_handler(PodfleetError)
    async def ours(request: Request, error: PodfleetError) -> Response:
        more: dict[str, Any] = {}
        if isinstance(error, NotFound | Gone) and error.code in OF_DELETED and (named := _named(request)):
            found = await tombstone(named)
            if found is not None:
                error = Gone("deleted", f"{named} was deleted by {found.by} at {found.deleted_at}")
                more = {"tombstone": msgspec.to_builtins(found)}
        if isinstance(error, TooLarge):
            more = {"limit": error.limit, "maximum": error.maximum}
        if isinstance(error, NotMeasurable):
            more = {"words": error.words, "measurable": error.measurable, "nearest": error.nearest}
        if isinstance(error, Unauthorized) and wants_page(request) and request.method == "GET":
            return RedirectResponse(f"/signin?{urlencode({'to': _place(request)})}", 303)
        if isinstance(error, Transient | RateLimited) and error.retry_after_s is not None:
            more = {"retry_after_s": error.retry_after_s}
        return answer(request, problem(status_of(error), error.code, error.message, **more), error.message)

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> Response:
        response = problem(error.status_code, "http", str(error.detail))
        response.headers.update(error.headers or {})
        if error.status_code == 405:  # a router names the methods of one route of the path only
            response.headers["Allow"] = ", ".join(methods_of(request))
        return answer(request, response, str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        found = error.errors()
        fields = [
            {
                "field": _cut(".".join(str(part) for part in each["loc"][1:])),
                "message": _cut(_said(each)),
            }
            for each in found[:PROBLEMS_MAX]
        ]
        unreadable = any(each["type"] == "json_invalid" for each in found)
        messages = [f"{each['field'] or 'body'}: {each['message']}" for each in fields]
        more = [f"and {len(found) - PROBLEMS_MAX:,} more problems"] if len(found) > PROBLEMS_MAX else []
        detail = "; ".join(messages + more)
        status, code = (400, "bad_json") if unreadable else (422, "invalid")
        return answer(request, problem(status, code, detail, fields=fields), detail)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> Response:
        # nobody reads it; who goes away in the middle is no error of ours, and not worth a traceback
        return problem(400, "gone", "the client went away before the body was whole")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("request.failed", exc_info=error, extra={"path": request.url.path})
        detail = "something went wrong here; it was logged"
        response = answer(request, problem(500, "internal", detail), detail)
        response.headers.update(HEADERS)  # it is made further out than where others get theirs
        return response


def _said(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field; a pattern that no person reads is not told."""
    is_long = error["type"] == "string_pattern_mismatch" and len(error["ctx"]["pattern"]) > PATTERN_CHARS_MAX
    return NOT_OF_PATTERN if is_long else str(error["msg"])
