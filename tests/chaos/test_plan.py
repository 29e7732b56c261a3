"""Which faults strike when is told by the seed alone, and each kind comes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from testing.chaos.campaign import short
from testing.chaos.faults.plan import KINDS, LANES, plan


@pytest.mark.parametrize("seed", range(20))
def test_a_long_campaign_has_every_kind_of_fault(seed: int) -> None:
    assert {fault.kind for fault in plan(seed, 600.0)} == set(KINDS)


@pytest.mark.parametrize("seed", range(20))
def test_the_short_form_has_every_kind_of_fault(seed: int) -> None:
    settings = short(seed, Path())
    assert {fault.kind for fault in plan(seed, settings.seconds, settings.lanes)} == set(KINDS)


def test_the_same_seed_is_the_same_plan_and_another_is_another() -> None:
    assert plan(5, 120.0) == plan(5, 120.0) != plan(6, 120.0)


def test_faults_of_one_lane_do_not_overlap_but_for_the_many_pods() -> None:
    for lane in LANES[1:]:
        faults = plan(3, 600.0, [lane])
        for one, following in pairwise(faults):
            assert one.at_s + one.seconds < following.at_s
