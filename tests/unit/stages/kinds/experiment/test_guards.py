"""What turns a pass down although it was measured: worse answers, and time in which nobody worked."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from events.kinds.space.effect import Direction
from events.kinds.space.metrics import METRICS, QUALITY, Task
from stages.kinds.experiment.statistics.guards import IDLE, NAIVE, UNKNOWN, WORSE, Arms, guarded
from stages.kinds.experiment.statistics.region import Region, equivalent, not_inferior, superior
from stages.kinds.experiment.statistics.validation import (
    BOTH_SIDES,
    Judgement,
    Reading,
    Registration,
    judge,
    pairs_of,
)

SEEDS = range(10)
NAIVE_QUALITY = 0.4
GAIN: dict[bool, Direction] = {True: "increase", False: "decrease"}
ASIDE = [
    (name, task)
    for name, metric in METRICS.items()
    for task in sorted(metric.tasks)
    if QUALITY[task].name != name and not metric.is_by_class
]
CLASSES = [name for name, task in ASIDE if task == "classification"]


def arm(
    name: str, value: float, quality: float, *, task: Task = "classification", busy_s: float | None = None,
    spread: float = 0.001,
) -> list[Reading]:  # fmt: skip
    """Return what one program gave in each unit, a little apart from unit to unit."""
    chance = random.Random(f"{value} {quality}")
    return [
        Reading(
            {name: value * (1 + seed / 1000), QUALITY[task].name: quality + spread * chance.uniform(-1, 1)},
            naive=NAIVE_QUALITY + seed / 10_000,
            processor_s=None if busy_s is None else busy_s * (1 + seed / 1000),
        )
        for seed in SEEDS
    ]


def found_of(name: str, one: list[Reading], other: list[Reading], direction: Direction) -> Judgement:
    plan = Registration(METRICS[name], superior(direction), len(SEEDS), rows=1797, test_rows=540)
    return judge(pairs_of(SEEDS, one, other, METRICS[name]), plan)


def verdict(
    name: str, one: list[Reading], other: list[Reading], *, task: Task = "classification",
    rises: bool | None = None,
) -> Judgement:  # fmt: skip
    metric = METRICS[name]
    direction = GAIN[metric.higher_is_better if rises is None else rises]
    found = found_of(name, one, other, direction)
    assert found.verdict == "pass", "the measure itself moves as claimed"
    return guarded(found, Arms(one, other), QUALITY[task])


@pytest.mark.parametrize(("name", "task"), ASIDE)
def test_whatever_the_measure_answers_must_not_become_worse(name: str, task: Task) -> None:
    is_higher = QUALITY[task].higher_is_better
    good, bad, none = (0.9, 0.6, 0.3) if is_higher else (0.1, 0.3, 0.5)
    one = arm(name, 2.0, good, task=task, busy_s=2.0)
    for quality, reason in ((good, None), (bad, WORSE), (none, WORSE)):
        found = verdict(name, one, arm(name, 1.0, quality, task=task, busy_s=1.0), task=task)
        assert (found.verdict, found.reason if reason else None) == ("fail" if reason else "pass", reason)


@pytest.mark.parametrize("name", CLASSES)
def test_who_always_says_the_same_supports_no_claim(name: str) -> None:
    """Also where the baseline is no better, so that nothing has fallen."""
    for quality, reason in ((0.4, NAIVE), (0.2, NAIVE), (0.5, None)):
        found = verdict(name, arm(name, 2.0, 0.2, busy_s=2.0), arm(name, 1.0, quality, busy_s=1.0))
        assert (found.verdict, found.reason if reason else None) == ("fail" if reason else "pass", reason)


@pytest.mark.parametrize("name", CLASSES)
def test_a_claim_that_something_does_harm_may_not_rest_on_a_baseline_that_says_less(name: str) -> None:
    good, worse = arm(name, 2.0, 0.9, busy_s=2.0), arm(name, 2.0, 0.7, busy_s=2.0)
    saying_less, better = arm(name, 1.0, 0.7, busy_s=1.0), arm(name, 1.0, 0.9, busy_s=1.0)
    assert verdict(name, saying_less, good, rises=True).reason == WORSE
    assert verdict(name, better, worse, rises=True).verdict == "pass", "harm may go with worse answers"


def test_a_loss_that_other_rows_might_not_show_is_none() -> None:
    one = arm("ece", 2.0, 0.9)
    for spread, expected in ((0.002, "fail"), (0.2, "pass")):
        assert verdict("ece", one, arm("ece", 1.0, 0.85, spread=spread)).verdict == expected


def test_quality_itself_may_fall_where_that_is_the_claim() -> None:
    one, other = arm("accuracy", 0.9, 0.9), arm("accuracy", 0.3, 0.3)
    assert verdict("accuracy", one, other, rises=False).verdict == "pass"


@pytest.mark.parametrize(
    ("busy", "reason"),
    [
        ((2.0, 1.0), None), ((2.0, 1.7), None), ((2.0, 2.0), IDLE), ((2.0, 2.5), IDLE), ((2.0, 1.9), IDLE),
        ((None, 1.0), UNKNOWN), ((2.0, None), UNKNOWN),
    ],
)  # fmt: skip
def test_a_claim_about_time_is_one_about_work(
    busy: tuple[float | None, float | None], reason: str | None
) -> None:
    name = "training_seconds"
    found = verdict(
        name, *(arm(name, wall, 0.9, busy_s=each) for wall, each in zip((2.0, 1.0), busy, strict=True))
    )
    assert (found.verdict, found.reason if reason else None) == ("fail" if reason else "pass", reason)


def test_work_that_chance_may_have_saved_is_none() -> None:
    name = "training_seconds"
    one = arm(name, 2.0, 0.9, busy_s=2.0)
    other = [
        replace(each, processor_s=busy_s)
        for each, busy_s in zip(arm(name, 1.0, 0.9), (0.1, 2.5, 2.4, 0.2, 2.3) * 2, strict=True)
    ]
    assert verdict(name, one, other).reason == IDLE


def test_what_is_not_concluded_keeps_its_reason() -> None:
    one, better = arm("ece", 1.0, 0.9), arm("ece", 1.0, 1.0)
    found = found_of("ece", one, list(reversed(one)), "decrease")
    assert found.reason == BOTH_SIDES
    assert guarded(found, Arms(one, better), QUALITY["classification"]) is found


def test_what_contradicts_a_claim_is_held_against_the_same_guards() -> None:
    one, idle = arm("training_seconds", 1.0, 0.9, busy_s=1.0), arm("training_seconds", 2.0, 0.9, busy_s=1.0)
    found = found_of("training_seconds", one, idle, "decrease")
    assert found.conclusion == "contradicted"
    held = guarded(found, Arms(one, idle), QUALITY["classification"])
    assert (held.conclusion, held.reason) == ("inconclusive", IDLE)


def test_a_program_that_failed_answers_no_better_than_one_that_learns_nothing() -> None:
    one, other = arm("ece", 2.0, 0.9), arm("ece", 1.0, 0.9)
    failing = [replace(each, scores=None) for each in other]
    found = found_of("ece", one, other, "decrease")
    assert guarded(found, Arms(one, failing), QUALITY["classification"]).reason == WORSE


def judged(
    name: str, region: Region, one: list[Reading], other: list[Reading], task: Task = "classification"
) -> Judgement:
    plan = Registration(METRICS[name], region, len(SEEDS), rows=1797, test_rows=540)
    found = judge(pairs_of(SEEDS, one, other, METRICS[name]), plan)
    return guarded(found, Arms(one, other), QUALITY[task])


def test_who_is_said_to_do_no_harm_may_not_have_paid_for_it() -> None:
    good, poor = arm("ece", 2.0, 0.9), arm("ece", 2.001, 0.6)
    no_harm, no_gain = not_inferior("decrease", 0.1), not_inferior("increase", 0.1)
    assert judged("ece", no_harm, good, poor).reason == WORSE
    assert judged("ece", equivalent(0.1), good, poor).reason == WORSE
    assert judged("ece", no_gain, good, poor).conclusion == "supported", "it may be worse in all"
    assert judged("ece", no_harm, poor, good).conclusion == "supported"
    assert judged("ece", no_gain, poor, good).reason == WORSE, "a baseline that learns less"


@pytest.mark.parametrize(
    ("busy", "conclusion"),
    [((2.0, 2.1), "supported"), ((2.0, 2.9), "inconclusive"), ((2.0, 1.0), "supported")],
)
def test_that_training_takes_no_longer_is_a_claim_about_work(
    busy: tuple[float, float], conclusion: str
) -> None:
    arms = [
        arm("training_seconds", wall, 0.9, busy_s=each) for wall, each in zip((3.0, 3.1), busy, strict=True)
    ]
    assert judged("training_seconds", not_inferior("decrease", 0.5), *arms).conclusion == conclusion


def test_a_count_that_is_the_same_is_nobodys_gain() -> None:
    one, other = (
        [Reading({"parameters": 500.0, "accuracy": q}, naive=0.4) for _ in SEEDS] for q in (0.9, 0.6)
    )
    found = judged("parameters", superior("decrease"), one, other)
    assert found.conclusion == "contradicted"
