"""The audit log: one entry for each request that could change anything.

Requests of pods (events, files, claims) are in the logs of their runs, and not here, except those for the
values of secrets. The entry is stored
before the answer is sent. If the store fails, the entry goes to the program's own log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.access.auth import ADMITTED, SAFE_METHODS, Admitted
from control_plane.store.access.audit_log import AuditLog
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Transient

log = logging.getLogger(__name__)

NOT_RECORDED: Final = frozenset({"ingest", "claim"})
ASKING: Final = frozenset({"/races/new/look"})  # changes nothing, and is asked with each letter that is typed
RECORDED: Final = frozenset({"/api/runs/{run_id}/secrets"})  # the request of a pod that is recorded
DETAILS: Final = "details"  # under which a request keeps them for its entry
OBJECT_CHARS_MAX: Final = 200  # a path may name one at any length, and be refused for its scope afterwards


@dataclass(frozen=True, slots=True)
class Audited:
    """ASGI middleware that records each request in the audit log."""

    app: ASGIApp
    audit_log: AuditLog
    clock: Clock
    ids: Ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._record(scope, state, message["status"], message["headers"])
            await send(message)

        try:
            await self.app(scope, receive, recorded)
        except Exception:  # raised again: its answer is made further out
            await self._record(scope, state, 500, ())
            raise

    async def _record(self, scope: Scope, state: Mapping[str, Any], status: int, headers: Any) -> None:
        admitted: Admitted | None = state.get(ADMITTED)
        if admitted is None or (admitted.scope in NOT_RECORDED and admitted.route not in RECORDED):
            return
        if admitted.route in ASKING:
            return
        entry = {
            "_id": self.ids.ulid(),
            "at": self.clock.now(),
            "by": admitted.principal.name,
            "keyId": admitted.principal.key_id,
            "address": (scope.get("client") or (None,))[0],
            "action": f"{scope['method']} {admitted.route.replace(':path', '')}",
            "object": object_of(admitted.parameters),
            "made": _header(headers, b"location"),
            "status": status,
            **({} if DETAILS not in state else {"details": state[DETAILS]}),
        }
        try:
            await self.audit_log.add(entry)
        except Transient as error:
            log.error("audit.not_kept", extra={"entry": entry, "why": error.message})


def add_details(request: Request, details: str) -> None:
    """Let the entry of a request say what it did, where the route alone does not tell."""
    setattr(request.state, DETAILS, details)


def object_of(parameters: Mapping[str, Any]) -> str | None:
    """Return the object that a route's parameters name, such as `run/<id>`; None where they name none."""
    for name, value in parameters.items():
        if name.endswith("_id"):
            return f"{name.removesuffix('_id')}/{value}"[:OBJECT_CHARS_MAX]
    return None


def _header(headers: Any, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), None)
