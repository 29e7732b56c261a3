"""A checker that cannot fail is worthless: each known bug turns it red, and only the bug does."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.chaos.checking.invariants import audit, groups, log, owners, runs
from testing.chaos.controls.runner import NAMES, run_control
from testing.chaos.system.cluster import Cluster

# what has to see the bug, whatever else sees it too
SEEN_BY = {
    "no fence": owners.FENCED,
    "sequence per run": log.REFUSED,
    "read-then-write rescue": owners.OWNER,
    "w:1": owners.CLAIM,
    "no compare on apply": runs.FINAL_STATUS,
    "apply over a gap": audit.REPLAYED,
    "journal never swept": runs.SWEPT,
    "mark before apply": audit.REPLAYED,
    "stale counters": groups.COUNTERS,
    "drop on error": log.STORED,
}


LONG = {"w:1": pytest.mark.long("a primary dies, twice; `make test` has the races without an election")}


@pytest.mark.xdist_group("races")
@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, ())) for name in NAMES])
@pytest.mark.slow("a race on three real mongods, with its bug and without")
def test_a_known_bug_is_seen_and_its_race_is_green_without_it(
    name: str, cluster: Cluster, tmp_path: Path
) -> None:
    verdict = run_control(name, cluster, tmp_path)

    assert verdict.without == ()
    assert SEEN_BY[name] in verdict.caught_by
