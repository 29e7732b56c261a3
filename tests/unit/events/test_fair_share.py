"""Whose turn it is: shares by GPU time that counts less as it ages, weights, and quotas."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.queue.abilities import Abilities
from events.queue.fair.shares import (
    BELIEVED_S,
    CLAIM_S,
    DEFAULT,
    NOTED_S,
    PROJECTS_MAX,
    Share,
    Shares,
    shares_in,
)
from events.queue.fair.usage import (
    Held,
    Project,
    ProjectSums,
    Quotas,
    Used,
    at_moment,
    month_of,
    next_month,
    over,
    shares,
    with_costs,
    with_held,
)
from events.queue.matching import Named, Seeker, WaitingClass, candidates, cards_held, is_open

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
SEEKER = Seeker("pod/1", "experiment", Abilities(frozenset({"probe"}), 80.0, None))
HALF_S = 3600.0


def known(**used: float) -> Shares:
    """Shares of projects of one weight that have used so much."""
    found = Shares()
    found.read({"projects": [{"name": name, "used": each} for name, each in used.items()]}, 0.0)
    return found


def of(project: str, priority: int = 0, tier: str = "cpu") -> WaitingClass:
    behind = "" if project == DEFAULT else f"/@{project}"
    return WaitingClass("runs", f"probe/{tier}/any{behind}", priority)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_the_project_that_has_used_less_goes_first_whatever_the_priorities_of_another() -> None:
    greedy, modest = of("a", priority=100), of("b", priority=-100)
    assert candidates([greedy, modest], SEEKER, known(a=10.0, b=9.0)) == [modest, greedy]
    assert candidates([greedy, modest], SEEKER, known(a=9.0, b=10.0)) == [greedy, modest]


def test_within_a_project_and_between_equals_the_priority_decides() -> None:
    low, high, other = of("a", 1), of("a", 2, tier="8"), of(DEFAULT, 3)
    assert candidates([low, other, high], SEEKER, known(a=5.0, default=5.0)) == [other, high, low]
    assert candidates([low, other, high], SEEKER) == [other, high, low]


def test_a_claim_counts_at_once_so_that_the_next_one_is_anothers() -> None:
    first, found = [of("a"), of("b")], known(a=0.0, b=CLAIM_S / 2)
    assert [each.class_key[-1] for each in candidates(first, SEEKER, found)] == ["a", "b"]
    found.note("a", 0, 0.0)
    assert [each.class_key[-1] for each in candidates(first, SEEKER, found)] == ["b", "a"]
    found.forget(found.note("b", 0, 0.0))
    assert found.used("b") == CLAIM_S / 2
    found.read({"projects": []}, NOTED_S + 0.1)
    found.forget((0.0, "a", 0))
    assert found.used("a") == 0


def test_shares_are_believed_for_a_moment() -> None:
    found = Shares()
    assert not found.is_fresh(0.0)
    found.read(None, 5.0)
    assert found.is_fresh(5.0 + BELIEVED_S)
    assert not found.is_fresh(5.1 + BELIEVED_S)


def test_a_closed_project_and_one_without_free_gpus_is_left() -> None:
    found = Shares()
    told = [{"name": "a", "closed": "its quota"}, {"name": "b", "free": 1}, {"name": "c", "free": -3}]
    found.read({"projects": told}, 0.0)
    card = [of(name, tier="24") for name in "abc"]
    assert [each.class_key[-1] for each in candidates([*card, of("c"), of("d")], SEEKER, found)] == list(
        "bcd"
    )
    found.note("b", 1, 0.0)
    keys = [each.class_key for each in (*card, of("b"))]
    assert [is_open(each, found, {}) for each in keys] == [False, False, False, True]


@pytest.mark.parametrize(
    ("labels", "held"),
    [({}, 0), ({"gpus": "0"}, 0), ({"gpus": "4"}, 4), ({"gpus": "many"}, 0), ({"gpus": "9" * 99}, 0)],
)
def test_a_run_holds_the_gpus_of_its_slot_and_counts_as_those(labels: dict[str, str], held: int) -> None:
    assert cards_held("job/cpu/any", labels) == held
    assert cards_held("job/24/any", labels) == max(1, held)
    found = Shares()
    found.read({"projects": [{"name": "a", "free": 3}]}, 0.0)
    who = Seeker("pod/1", "experiment", Abilities(frozenset({"probe"}), 80.0, None, labels))
    assert bool(candidates([of("a")], who, found)) is (held <= 3)


@pytest.mark.parametrize(
    "document",
    [
        *(None, 1, [], {}, {"projects": None}, {"projects": 3}, {"projects": [None, 1, {}, {"name": 3}]}),
        {"projects": [{"name": "a", "weight": 0, "used": "x", "closed": 3, "free": True}]},
        {"projects": [{"name": "a", "weight": float("nan"), "used": float("inf"), "free": 1.5}]},
        {"projects": [{"name": "a", "weight": -1, "used": -5, "closed": ""}]},
    ],
)
def test_what_is_odd_in_the_stored_shares_closes_nothing(document: Any) -> None:
    found = shares_in(document)
    assert set(found.values()) <= {Share()}
    many = {"projects": [{"name": f"p{number}"} for number in range(PROJECTS_MAX + 5)]}
    assert len(shares_in(many)) == PROJECTS_MAX


@pytest.mark.parametrize(("sweep", "age_s"), [(1.0, 0.0), (1e9, 0.0), (1e9, 1e6), (0.1, 9e5)])
def test_a_run_of_one_who_has_used_nothing_goes_before_a_thousand_of_another(
    sweep: float, age_s: float
) -> None:
    sums = at_moment(ProjectSums(NOW, {"sweep": Used(sweep)}), NOW + timedelta(seconds=age_s))
    found = Shares()
    found.read({"projects": shares([Project(name="sweep"), Project(name="zoe")], sums, {})}, 0.0)
    assert candidates([of("sweep"), of("zoe")], SEEKER, found)[0] == of("zoe")


def test_use_halves_with_each_half_life_and_the_month_begins_at_nothing() -> None:
    sums = ProjectSums(NOW, {"a": Used(100.0, 70.0, 3.0)})
    assert at_moment(sums, NOW + timedelta(seconds=HALF_S), HALF_S).used["a"] == Used(50.0, 70.0, 3.0)
    december = at_moment(sums, next_month(NOW), HALF_S).used["a"]
    assert (december.gpu_s, december.usd) == (0.0, 0.0)
    assert december.decayed < 0.1
    assert at_moment(sums, ago(60), HALF_S) == sums
    assert next_month(datetime(2026, 12, 31, 23, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)


def test_what_a_run_had_counts_by_its_gpus_its_age_and_its_part_of_the_month() -> None:
    held = [
        Held("a", 2, ago(HALF_S + 10), ago(HALF_S)),
        Held("b", 0, ago(300)),
        Held("c", 1, ago(1)),
        Held("d", 1, ago(5), ago(15)),
        Held("e", 1, month_of(NOW) - timedelta(hours=1), month_of(NOW) + timedelta(hours=2)),
    ]
    used = with_held(ProjectSums(NOW), held, HALF_S).used
    assert used["a"].decayed == pytest.approx(10.0)
    assert used["a"].gpu_s == 20.0
    assert used["b"] == Used(300.0, 0.0)
    assert used["c"] == Used(CLAIM_S, 1.0)
    assert used["d"] == Used(0.0, 0.0)
    assert used["e"].gpu_s == 7200.0


def test_costs_that_are_no_money_are_left_out() -> None:
    costs = [("a", 1.5), ("a", 0.5), ("b", float("nan")), ("b", -1.0), ("b", float("inf"))]
    assert with_costs(ProjectSums(NOW), costs).used == {"a": Used(usd=2.0)}


@pytest.mark.parametrize(
    ("quotas", "used", "gpus", "told"),
    [
        (Quotas(), Used(1e9, 1e9, 1e9), 99, None),
        (Quotas(gpus=4), Used(), 3, None),
        (Quotas(gpus=4), Used(), 4, "its quota of 4 GPUs: 4 run now"),
        (Quotas(gpus=0), Used(), 0, "its quota of 0 GPUs: 0 run now"),
        (Quotas(gpu_hours=2), Used(gpu_s=7199.0), 9, None),
        (
            Quotas(gpu_hours=2),
            Used(gpu_s=7200.0),
            0,
            "its quota of 2 GPU hours a month, until 2026-12-01: 2.0 are used",
        ),
        (Quotas(usd=1), Used(usd=0.99), 0, None),
        (Quotas(usd=1), Used(usd=1.5), 0, "its quota of 1 USD a month, until 2026-12-01: 1.50 are spent"),
    ],
)
def test_a_project_is_over_a_quota_that_is_used_up(
    quotas: Quotas, used: Used, gpus: int, told: str | None
) -> None:
    project = Project(name="a", quotas=quotas)
    assert over(project, used, gpus, NOW) == told
    (default, share) = sorted(
        shares([project], ProjectSums(NOW, {"a": used}), {"a": gpus}), key=lambda each: each["name"] == "a"
    )
    assert (default["name"], default["closed"], default["free"]) == (DEFAULT, None, None)
    assert share["closed"] == told
    assert share["free"] == (None if quotas.gpus is None else quotas.gpus - gpus)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 4.0), (2.0, 1.0, 4.0)])
def test_in_the_long_run_each_project_has_the_gpu_time_of_its_weight_and_none_starves(
    weights: tuple[float, ...],
) -> None:
    """Eight cards, each of which takes the next run when its own ends, for four half-lives."""
    seed = random.Random(7)
    projects = [Project(name=f"p{number}", weight=each) for number, each in enumerate(weights)]
    waiting = [of(each.name) for each in projects]
    sums, ends = ProjectSums(NOW), [NOW] * 8
    had, waited = dict.fromkeys((each.name for each in projects), 0.0), Counter[str]()
    while (begun := min(ends)) < NOW + timedelta(seconds=4 * HALF_S):
        sums = at_moment(sums, begun, HALF_S)
        found = Shares()
        found.read({"projects": shares(projects, sums, {})}, 0.0)
        first = candidates(waiting, SEEKER, found)[0].class_key.partition("@")[2]
        lasts_s = seed.uniform(20, 60)
        ends[ends.index(begun)] = begun + timedelta(seconds=lasts_s)
        # what is claimed counts at once, here with all that it will take
        used = sums.used.get(first, Used())
        sums = ProjectSums(sums.at, {**sums.used, first: Used(used.decayed + lasts_s)})
        had[first] += lasts_s
        waited = Counter({each.name: waited[each.name] + 1 for each in projects if each.name != first})
        assert max(waited.values()) <= 40, "a project starves"
    for each in projects:
        share = had[each.name] / sum(had.values())
        assert share == pytest.approx(each.weight / sum(weights), abs=0.03)


@pytest.mark.parametrize("key", ["", "x", "probe/cpu", "probe/huge/any", "~pod", "~pod/probe", "/", "\0"])
def test_a_damaged_class_keeps_no_pod_from_the_others(key: str) -> None:
    damaged, good = WaitingClass("runs", key, 100), of("vision")
    assert candidates([damaged, good], SEEKER, known(vision=5.0)) == [good]
    assert not Named({"probe/cpu/any"}).serves("runs", key)
