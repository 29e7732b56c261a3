"""The command `podfleet`, the clients that programs use, and the servers that it starts on one machine.

A control plane for programs, typed; `AsyncClient` is the same for asyncio:

    from podfleet import Client

    with Client("http://127.0.0.1:8700", key) as fleet:
        run = fleet.submit("probe", {"seconds": 5}, labels={"team": "vision"})
        for run in fleet.watch(run.id):
            print(run.status, run.current_stage)
        for artifact in fleet.artifacts(run.id):
            print(artifact.name, artifact.size)
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
        Unsendable,
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
    "Unsendable",
]


def __getattr__(name: str) -> Any:
    """Return what programs import from here, loaded when it is asked for: a command may need none of it."""
    from importlib import import_module

    homes = {"AsyncClient": "asynchronous", "Client": "synchronous"}
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"podfleet.client.{homes.get(name, 'problems')}"), name)
