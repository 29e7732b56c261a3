"""Which waiting classes a pod can serve, and which of them it tries first."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import combinations
from typing import Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.declaring.queues import MODES, Mode, collections
from events.queue.abilities import Abilities
from events.queue.matching import Named, Seeker, WaitingClass, candidates, classes, matches
from events.queue.requirements import GPU_TIERS

QUEUES: Final[dict[Mode, tuple[str, ...]]] = {
    "experiment": ("runs",),
    "ideation": ("ideation_requests",),
    "hybrid": ("ideation_requests", "runs"),
}


def abilities(*kinds: str, gpu_gib: float = 0.0, region: str | None = None) -> Abilities:
    return Abilities(frozenset(kinds or {"probe"}), gpu_gib, region)


def seeker(mode: Mode = "experiment", pod: Abilities | None = None) -> Seeker:
    return Seeker("pod/1", mode, pod or abilities())


def waiting(class_key: str = "probe/cpu/any", priority: int = 0, collection: str = "runs") -> WaitingClass:
    return WaitingClass(collection, class_key, priority)


@pytest.mark.parametrize("mode", QUEUES)
def test_a_mode_serves_its_queues_the_preferred_one_first(mode: Mode) -> None:
    assert collections(mode) == QUEUES[mode]


def test_the_modes_are_those_that_have_queues() -> None:
    assert MODES == get_args(Mode) == ("experiment", "ideation", "hybrid")


@pytest.mark.parametrize(
    ("class_key", "pod", "is_served"),
    [
        ("probe/cpu/any", abilities("probe"), True),
        ("probe/cpu/any", abilities("probe", "experiment"), True),
        ("probe/cpu/any", abilities("experiment"), False),
        ("probe/cpu/any", Abilities(frozenset(), 80.0, "eu"), False),
        ("probe/cpu/any", abilities(gpu_gib=80.0), True),
        ("probe/40/any", abilities(), False),
        ("probe/40/any", abilities(gpu_gib=37.9), False),
        ("probe/40/any", abilities(gpu_gib=38.0), True),
        ("probe/40/any", abilities(gpu_gib=80.0), True),
        ("probe/80/any/gpu_gib=>=141", abilities(gpu_gib=80.0), False),
        ("probe/80/any/gpu_gib=>=141", replace(abilities(gpu_gib=140.4), labels={"gpu_gib": "140"}), True),
        ("job/cpu/any/gpus=>=4", replace(abilities("job"), labels={"gpus": "1"}), False),
        ("job/cpu/any/gpus=>=4", replace(abilities("job"), labels={"gpus": "8"}), True),
        ("probe/cpu/any", abilities(region="eu"), True),
        ("probe/cpu/eu", abilities(region="eu"), True),
        ("probe/cpu/eu", abilities(region="us"), False),
        ("probe/cpu/eu", abilities(), False),
        ("probe/8/us", abilities("experiment", gpu_gib=0.0, region="eu"), False),
    ],
)
def test_a_pod_serves_a_class_of_which_it_lacks_nothing(
    class_key: str, pod: Abilities, is_served: bool
) -> None:
    assert matches(class_key, pod) is is_served
    assert seeker(pod=pod).serves("runs", class_key) is is_served


@pytest.mark.parametrize("mode", QUEUES)
@pytest.mark.parametrize("collection", ["runs", "ideation_requests", "schedules"])
@pytest.mark.parametrize(
    ("class_key", "fits"), [("probe/cpu/any", True), ("other/cpu/any", False), (None, True)]
)
def test_a_pod_could_take_what_fits_it_from_its_own_queues_only(
    mode: Mode, collection: str, class_key: str | None, fits: bool
) -> None:
    assert seeker(mode).serves(collection, class_key) is (fits and collection in QUEUES[mode])


@pytest.mark.parametrize("collection", ["runs", "ideation_requests"])
def test_who_names_classes_seeks_those_and_what_may_be_one_of_them(collection: str) -> None:
    named = Named(frozenset({"probe/8/any", "probe/cpu/any"}))
    found = [named.serves(collection, key) for key in ("probe/8/any", "probe/cpu/any", "probe/16/any", None)]
    assert found == [True, True, False, True]
    assert not Named(frozenset()).serves(collection, "probe/8/any")
    assert Named(frozenset()).serves(collection, None)


@pytest.mark.parametrize(
    ("pod", "served"),
    [
        (Abilities(frozenset(), 80.0, "eu"), []),
        (abilities(), ["probe/cpu/any"]),
        (abilities(region=""), ["probe/cpu/any"]),
        (abilities(region="any"), ["probe/cpu/any"]),
        (abilities(region="eu"), ["probe/cpu/any", "probe/cpu/eu"]),
        (abilities("probe", "experiment"), ["experiment/cpu/any", "probe/cpu/any"]),
        (
            abilities("probe", "experiment", gpu_gib=15.9, region="eu"),
            [
                *("experiment/cpu/any", "experiment/cpu/eu", "experiment/8/any", "experiment/8/eu"),
                *("experiment/16/any", "experiment/16/eu", "probe/cpu/any", "probe/cpu/eu"),
                *("probe/8/any", "probe/8/eu", "probe/16/any", "probe/16/eu"),
            ],
        ),
        (abilities(gpu_gib=80.0), [f"probe/{tier}/any" for tier in ("cpu", "8", "16", "24", "40", "80")]),
    ],
)
def test_a_pod_names_every_class_that_it_serves_once_and_in_one_order(
    pod: Abilities, served: list[str]
) -> None:
    assert classes(pod) == served


KINDS: Final = ("experiment", "ideation", "probe")
PODS: Final = [
    Abilities(frozenset(kinds), gpu_gib, region)
    for count in range(len(KINDS) + 1)
    for kinds in combinations(KINDS, count)
    for gpu_gib in (0.0, 7.5, 8.0, 15.2, 22.0, 23.6, 40.0, 76.0, 80.0)
    for region in (None, "eu", "us", "any")
]


def test_the_classes_of_a_pod_are_just_those_that_fit_it() -> None:
    every = [
        f"{kind}/{tier}/{region}" for kind in KINDS for tier in GPU_TIERS for region in ("any", "eu", "us")
    ]
    for pod in PODS:
        assert sorted(classes(pod)) == sorted(each for each in every if matches(each, pod)), pod


def test_the_preferred_queue_goes_before_any_priority() -> None:
    urgent, idea = waiting(priority=100), waiting(priority=-100, collection="ideation_requests")
    assert candidates([urgent, idea], seeker("hybrid")) == [idea, urgent]
    assert candidates([idea, urgent], seeker("hybrid")) == [idea, urgent]


def test_within_a_queue_the_highest_priority_goes_first_and_equals_keep_their_order() -> None:
    pod = abilities("probe", "experiment", gpu_gib=80.0)
    low, first, second, high = (
        waiting("probe/8/any", -1),
        waiting("probe/cpu/any", 3),
        waiting("experiment/8/any", 3),
        waiting("probe/80/any", 7),
    )
    assert candidates([low, first, second, high], seeker(pod=pod)) == [high, first, second, low]
    assert candidates([second, high, low, first], seeker(pod=pod)) == [high, second, first, low]


@pytest.mark.parametrize(("mode", "queue"), [("experiment", "runs"), ("ideation", "ideation_requests")])
def test_a_queue_that_the_mode_does_not_serve_is_no_candidate(mode: Mode, queue: str) -> None:
    found = [waiting(), waiting(collection="ideation_requests"), waiting()]
    assert candidates(found, seeker(mode)) == [each for each in found if each.collection == queue]


def test_what_a_pod_cannot_serve_is_no_candidate() -> None:
    mine, alien, big, far = (
        waiting(priority=0),
        waiting("experiment/cpu/any", 9),
        waiting("probe/8/any", 9),
        waiting("probe/cpu/eu", 9),
    )
    assert candidates([alien, big, far, mine], seeker()) == [mine]
    assert candidates([alien, big, far], seeker()) == []
    assert candidates([], seeker()) == []


OURS: Final = Abilities(frozenset({"probe"}), 24.0, "eu", {"gpu": "h100", "gpus": "4", "rack": "a4"}, "pod-7")


@pytest.mark.parametrize(
    ("class_key", "is_served"),
    [
        ("probe/cpu/any/gpu=h100", True),
        ("probe/cpu/eu/gpu=h100,gpus=>=4,rack=a4", True),
        ("probe/cpu/any/gpu=a100", False),
        ("probe/cpu/any/gpu=h100,gpus=>=8", False),
        ("probe/cpu/any/disk=>=1", False),
        ("probe/40/any/gpu=h100", False),
        ("experiment/cpu/any/gpu=h100", False),
        ("probe/cpu/us/gpu=h100", False),
        ("~pod-7/probe/24/any", True),
        ("~pod-7/probe/24/any/gpu=h100", True),
        ("~pod-7/probe/24/any/gpu=t4", False),
        ("~pod-7/experiment/24/any", False),
        ("~pod-70/probe/24/any", False),
        ("~pod/probe/24/any", False),
        ("~/probe/24/any", False),
    ],
)
def test_labels_and_pins_are_matched_by_claims_and_by_wakeups_alike(class_key: str, is_served: bool) -> None:
    assert matches(class_key, OURS) is is_served
    assert Named(classes(OURS), OURS.labels, OURS.pod).serves("runs", class_key) is is_served
    assert not Named(classes(OURS)).serves("runs", class_key)


def test_of_one_priority_what_few_can_take_comes_first() -> None:
    plain, pinned = waiting("probe/cpu/any"), waiting("~pod-7/probe/cpu/any")
    one, two = waiting("probe/cpu/any/gpu=h100"), waiting("probe/cpu/any/gpu=h100,rack=a4")
    urgent = waiting("probe/8/any", priority=1)
    found = candidates([plain, one, two, urgent, pinned], seeker(pod=OURS))
    assert found == [urgent, pinned, two, one, plain]


WAITING: Final = [
    waiting(class_key, priority, collection)
    for class_key in ("probe/cpu/any", "probe/8/any", "probe/cpu/eu", "ideation/cpu/any")
    for priority in (-3, 0, 3)
    for collection in ("runs", "ideation_requests")
]


@given(
    found=st.lists(st.sampled_from(WAITING), max_size=8),
    mode=st.sampled_from(MODES),
    pod=st.sampled_from(PODS),
)
def test_candidates_are_what_the_pod_serves_sorted_by_queue_and_priority(
    found: list[WaitingClass], mode: Mode, pod: Abilities
) -> None:
    who = seeker(mode, pod)
    tried = candidates(found, who)
    served = [each for each in found if who.serves(each.collection, each.class_key)]
    expected = [
        each
        for collection in ("ideation_requests", "runs")
        for priority in range(3, -4, -1)
        for each in served
        if (each.collection, each.priority) == (collection, priority)
    ]
    assert tried == expected


@pytest.mark.parametrize(
    "value", [waiting(), seeker(), Named(frozenset())], ids=lambda each: type(each).__name__
)
def test_what_is_sought_and_what_waits_is_not_changed(value: object) -> None:
    name = next(iter(value.__slots__))  # type: ignore[attr-defined] # each is a slotted dataclass
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, None)
    assert not hasattr(value, "__dict__")
    assert len({value, value}) == 1
