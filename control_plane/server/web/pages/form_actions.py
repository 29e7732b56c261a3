"""Executes the actions of a page: a redirect after success, a page with the reason after a refusal."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from fastapi.responses import RedirectResponse, Response

from control_plane.server.api.contract.problems import status_of
from control_plane.server.web.page_renderer import Site
from events.runtime.errors import Conflict, Rejected

SEE_OTHER: Final = 303


async def carried_out(site: Site, order: Awaitable[object], path: str) -> Response:
    """Execute an order and redirect to the page at `path`; if it is refused, show why with a link there."""
    try:
        await order
    except (Rejected, Conflict) as error:
        return await refused(site, error, path)
    return see(path)


async def refused(site: Site, error: Rejected | Conflict, path: str) -> Response:
    """Return a page with the reason, and a link back to `path`."""
    return await site.problem(status_of(error), error.message, back=path)


def see(path: str) -> RedirectResponse:
    """Redirect a browser to another page, so that a reload does not send the form again."""
    return RedirectResponse(path, SEE_OTHER)
