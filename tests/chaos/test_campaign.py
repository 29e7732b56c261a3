"""The fault campaign in its short form: real processes, real faults, nothing lost, nothing twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from events.runtime.clock import SystemClock, SystemIds
from testing.chaos import report
from testing.chaos.__main__ import examined
from testing.chaos.campaign import Trouble, World, run, short
from testing.chaos.records import journal
from testing.chaos.system.fleet import Fleet, claims_over_http

SEED = 7


@pytest.mark.long("a minute and a half of real faults; `make test` has each planted bug and the simulation")
@pytest.mark.xdist_group("campaign")
def test_nothing_is_lost_and_nothing_happens_twice_under_every_kind_of_fault(tmp_path: Path) -> None:
    settings = short(SEED, tmp_path / "home")
    found: list[str] = []
    results: list[report.Result] = []
    claims: Counter[bool] = Counter()

    def examine(fleet: Fleet, trouble: Trouble) -> None:
        one, violations = examined(settings, fleet, trouble)
        results.append(one)
        found.extend(report.violations_shown(violations))
        for number, pod in enumerate(fleet.pods):
            lines = journal.read(pod.journal)
            claims[claims_over_http(number)] += sum(
                (line.what, line.phase) == ("claim", "ok") for line in lines
            )

    run(settings, World(clock=SystemClock(), ids=SystemIds(), say=print), examine)

    again = f"python -m testing.chaos --short --seed {SEED}"
    assert found == [], again
    assert results[0].troubles == [], again
    assert results[0].figures.events > 0
    assert min(claims[True], claims[False]) > 0, "each way to the queue was gone"
