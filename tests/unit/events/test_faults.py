"""The table of blame, against the codes that the product uses."""

from __future__ import annotations

import pytest

from events.formatting import NEXT_STEPS
from events.lifecycle import Fault
from events.queue.faults import FAULTS, OWN, blame_of


def test_every_code_that_is_not_the_runs_has_a_next_step() -> None:
    assert FAULTS.keys() <= NEXT_STEPS.keys()


@pytest.mark.parametrize("code", ["ALL_NODES_BUGGY", "BUDGET_EXCEEDED", "no such code", "", None])
def test_what_no_table_names_is_the_runs_own(code: str | None) -> None:
    assert blame_of(code) == OWN


def test_a_wrong_key_is_the_pods_and_a_server_that_is_away_is_outside() -> None:
    assert blame_of("MODEL_UNAUTHORISED").fault is Fault.POD
    assert blame_of("MODEL_UNREACHABLE").fault is Fault.OUTSIDE


def test_each_fault_of_a_pod_but_its_loss_is_shown_by_one_of_its_checks() -> None:
    unseen = {code for code, each in FAULTS.items() if each.fault is Fault.POD and each.check is None}
    assert unseen == {"POD_LOST"}
