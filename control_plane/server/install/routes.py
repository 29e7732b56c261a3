"""What a machine installs to become a pod, for pip: without a key, since it is the program and no data."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.deps import Deps
from control_plane.server.install.lock import (
    EXTRAS_CHARS_MAX,
    EXTRAS_DEFAULT,
    read_lock,
    requirements,
    wanted_extras,
)
from control_plane.server.install.own_files import OwnWheel
from events.answers.fleet import Installation
from events.runtime.errors import NotFound

# Sent part by part: a reader that stops to read holds one of these, not the wheel.
PART_BYTES: Final = 64 << 10
# The same name has other bytes after an upgrade, so whoever keeps them asks whether they still are.
KEPT: Final = {"Cache-Control": "no-cache"}
ABOUT: Final = "wheel.json"  # for workers, which install the wheel where it is another than theirs
MEDIA_TYPE: Final = "application/octet-stream"
PAGE: Final = """podfleet {version}: what a machine installs to become a pod of this fleet.

  {wheel}
    {size:,} bytes, SHA-256 {sha256}
  requirements.txt
    what it needs beside, by hashes; ?extras={default} is the default, there are {extras};
    ?torch=own leaves PyTorch to the machine

An operator of the fleet gets the whole line, with a key for the machine: podfleet pods join
"""

Extras = Annotated[str, Query(max_length=EXTRAS_CHARS_MAX)]
# Whether the machine has PyTorch already.
Torch = Annotated[Literal["", "own"], Query()]
Known = Annotated[str | None, Header(alias="If-None-Match", max_length=1_000)]


def router(deps: Deps) -> APIRouter:
    """Return the routes: files for pip, and what an operator's command says of them."""
    routes, own = Routes(tags=["install"]), OwnWheel()

    @routes.get("/install/", include_in_schema=False)
    async def page() -> PlainTextResponse:
        wheel = await own.read()
        return PlainTextResponse(
            PAGE.format(
                version=wheel.version, wheel=wheel.name, size=len(wheel.content), sha256=wheel.sha256,
                default=EXTRAS_DEFAULT, extras=", ".join(read_lock().extras),
            )
        )  # fmt: skip

    @routes.get("/install/requirements.txt", include_in_schema=False)
    async def lock(extras: Extras = EXTRAS_DEFAULT, torch: Torch = "") -> PlainTextResponse:
        known = read_lock()
        text = requirements(known, wanted_extras(extras, known), has_torch=torch == "own")
        return PlainTextResponse(text, headers=KEPT)

    @routes.get("/install/{name}", include_in_schema=False)
    async def file(name: str, known: Known = None) -> Response:
        wheel = await own.read()
        if name == ABOUT:
            return JSONResponse(
                {"wheel": wheel.name, "version": wheel.version, "sha256": wheel.sha256}, headers=KEPT
            )
        if name != wheel.name:
            raise NotFound("unknown_file", f"there are {wheel.name}, {ABOUT} and requirements.txt here")
        tag = f'"{wheel.sha256}"'
        headers = {**KEPT, "ETag": tag}
        if known is not None and tag in (each.strip().removeprefix("W/") for each in known.split(",")):
            return Response(status_code=304, headers=headers)
        headers["Content-Length"] = str(len(wheel.content))
        return StreamingResponse(_parts(wheel.content), headers=headers, media_type=MEDIA_TYPE)

    @routes.get("/api/install")
    async def installation(_: MayRead) -> Installation:
        """Return what a machine installs here to become a pod, as `podfleet pods join` needs it."""
        wheel = await own.read()
        return Installation(
            version=wheel.version,
            wheel=f"/install/{wheel.name}",
            sha256=wheel.sha256,
            bytes=len(wheel.content),
            requirements="/install/requirements.txt",
            extras=[*read_lock().extras],
            public_url=deps.settings.public_url,
        )

    return routes


async def _parts(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PART_BYTES):
        yield content[start : start + PART_BYTES]
