"""Which measurements a trial makes, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from events.kinds import read_spec
from events.kinds.trial import TrialSpec
from events.runtime.errors import Rejected
from stages.kinds.trial.points import in_order, points_of


def spec_of(**more: Any) -> TrialSpec:
    spec = read_spec("trial", {"model": "smollm2", **more})
    assert isinstance(spec, TrialSpec)
    return spec


def test_each_scenario_is_measured_under_each_load() -> None:
    spec = spec_of(scenarios="D(100, 20), N(10,1)/(5,1)", concurrency=[1, 4], rates=[0.5])

    assert [each.key(1) for each in points_of(spec)] == [
        *("D(100,20)/c1/1", "D(100,20)/c4/1", "N(10,1)/(5,1)/c1/1", "N(10,1)/(5,1)/c4/1"),
        *("D(100,20)/r0.5/1", "N(10,1)/(5,1)/r0.5/1"),
    ]


def test_repeats_are_interleaved() -> None:
    points = points_of(spec_of(scenarios=["D(1,1)", "D(2,2)"], concurrency=[1]))

    assert [(repeat, str(point.scenario)) for repeat, point in in_order(points, 2)] == [
        (1, "D(1,1)"), (1, "D(2,2)"), (2, "D(1,1)"), (2, "D(2,2)"),
    ]  # fmt: skip


def test_what_is_named_twice_is_measured_once() -> None:
    assert len(points_of(spec_of(scenarios="D(1,1), D( 1 , 1 )", concurrency=[2, 2]))) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"scenarios": "D(100"}, "'D(100' is no scenario"),
        ({"scenarios": ", ,"}, "there is no scenario"),
        ({"scenarios": "D(1,1), I(512,512)"}, "I(512,512) asks for images"),
        ({"concurrency": []}, "name a load"),
        ({"engine": "vlm"}, "there is no engine 'vlm'"),
        ({"concurrency": [1, 2, 3], "scenarios": ["D(1,1)"] * 10, "repeats": 20}, "600 measurements"),
    ],
)
def test_what_cannot_be_measured_is_told_when_it_is_submitted(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected) as refused:
        spec_of(**wrong)

    assert words in str(refused.value)
