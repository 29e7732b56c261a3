"""The command `podfleet`, the clients that programs use, and the servers that it starts on one machine.

`from podfleet import Client`: a control plane, typed; `AsyncClient` is the same for asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podfleet.client.asynchronous import AsyncClient
    from podfleet.client.problems import (
        BadAddress,
        Busy,
        ClientError,
        Conflict,
        Invalid,
        NotAllowed,
        NotFound,
        Refused,
        Unreachable,
    )
    from podfleet.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "BadAddress",
    "Busy",
    "Client",
    "ClientError",
    "Conflict",
    "Invalid",
    "NotAllowed",
    "NotFound",
    "Refused",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    """Return what programs import from here, loaded when it is asked for: a command may need none of it."""
    from importlib import import_module

    homes = {"AsyncClient": "asynchronous", "Client": "synchronous"}
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"podfleet.client.{homes.get(name, 'problems')}"), name)
