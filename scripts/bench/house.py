"""What the benches run on: a MongoDB of their own, and whole fleets, on this machine and on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from control_plane.embedded.credentials import credentials
from control_plane.embedded.mongod import Mongod, find_mongod, prepare_mongod
from control_plane.embedded.ports import kept
from control_plane.embedded.stack import Options, Stack, World
from control_plane.embedded.supervisor import Supervisor
from events.clock import SystemClock, SystemIds


@contextmanager
def mongod(home: Path) -> Iterator[Mongod]:
    """Run a MongoDB, a replica set of one, as `podfleet up` does."""
    ids = SystemIds()
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = prepare_mongod(
        find_mongod(os.environ.get("PATH")), home / "mongo", credentials(home / "credentials.json", ids), ids
    )
    with (
        kept(server.port),
        Supervisor([[server.part()]], logs=home / "logs", clock=SystemClock(), say=lambda _: None),
    ):
        yield server


@contextmanager
def fleet(home: Path, *, workers: int = 0, environment: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """Run MongoDB, storage, a control plane and workers, as `podfleet up` does."""
    world = World(
        environment={**os.environ, **(environment or {})},
        clock=SystemClock(),
        ids=SystemIds(),
        say=lambda _: None,
    )
    with Stack(Options(data=home, port=0, workers=workers), world) as stack:
        yield stack
