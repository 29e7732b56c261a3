"""What a study runs again: its baseline between the trials, and its best ones when the search is over."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.groups.goals import Goal
from control_plane.model.groups.members import Members, Trial
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.plan import Close, Group, Submit, Wait, next_slots
from control_plane.model.groups.ranking import difference, front, ranked
from control_plane.model.groups.status import GroupStatus
from control_plane.model.groups.study import Study, study_of
from control_plane.model.groups.trials import Outcome
from control_plane.runs.groups.proposer import Proposer
from events.runtime.clock import SystemClock
from events.runtime.errors import Rejected

BASE: Values = {"x": 0.0}
HIGHEST, LOWEST = Goal("speed", is_lower_better=False), Goal("seconds", is_lower_better=True)


def make_study(**plan: Any) -> Study:
    usual = {
        "sampler": "random", "goal": "max:speed", "max_runs": 20, "parallel": 3, "baseline": BASE,
        "space": {"x": {"type": "uniform", "low": 1.0, "high": 9.0}},
    }  # fmt: skip
    return study_of({**usual, **plan})


def named(study: Study, values: Sequence[Values]) -> str:
    """Return slots as letters: b for the baseline, and for the others one each, in their order."""
    seen: dict[float, str] = {0.0: "b"}
    for each in values:
        seen.setdefault(each["x"], chr(ord("A") + len(seen) - 1))
    return "".join(seen[each["x"]] for each in values)


async def carried_out(study: Study, speed: Any, parallel: int = 3) -> tuple[list[Trial], str | None]:
    """Run a study to its end: what is proposed is measured by `speed`, and told why it closed."""
    trials: list[Trial] = []
    proposer = Proposer()
    for _ in range(1_000):
        group = Group(
            id="g", status=GroupStatus.OPEN, plan=study, first=0, next=len(trials), filled=len(trials),
            since=SystemClock().now(), is_canceled=False,
        )  # fmt: skip
        live = [each for each in trials if not each.has_ended]
        match next_slots(group, Members(running=len(live), succeeded=len(trials) - len(live), trials=trials)):
            case Submit(count):
                values = await proposer.slots(study, trials, count)
                if not values and not live:
                    return trials, "nothing else is left to try"
                trials += [Trial(len(trials) + n, each, False, None) for n, each in enumerate(values)]
                if values:
                    continue
            case Close(_, reason):
                return trials, reason
            case Wait():
                pass
        ending = live[0]
        trials[ending.slot] = Trial(ending.slot, ending.values, True, speed(ending))
    raise AssertionError("it never closes")


def measured(values: Values, *numbers: float, slots: Sequence[int] = (0,)) -> Outcome:
    return Outcome(values=values, slots=slots, has_ended=True, numbers=[numbers])


@pytest.mark.parametrize("parallel", [1, 2, 5])
async def test_the_baseline_runs_first_and_again_after_so_many_trials(parallel: int) -> None:
    study = make_study(baseline_every=3, max_runs=14, parallel=parallel)
    trials, reason = await carried_out(study, lambda each: each.values["x"])
    assert named(study, [each.values for each in trials]) == "bABCbDEFbGHIbJ"
    assert reason is None
    (base, *others) = study.outcomes(trials)
    assert (base.slots, len(others)) == ([0, 4, 8, 12], 10)
    twice = make_study(baseline_every=1, max_runs=8, repeats=2, parallel=parallel)
    trials, _ = await carried_out(twice, lambda each: each.values["x"])
    assert named(twice, [each.values for each in trials]) == "bbAAbBBb"
    with pytest.raises(Rejected, match="no baseline"):
        make_study(baseline_every=3, baseline=None)


@pytest.mark.parametrize("parallel", [1, 2, 5])
async def test_the_best_and_the_baseline_run_again_in_turn_when_the_search_is_over(parallel: int) -> None:
    study = make_study(confirm={"top": 2, "repeats": 3}, max_runs=15, parallel=parallel)
    trials, reason = await carried_out(study, lambda each: each.values["x"])
    assert [each.values for each in trials[:1]] == [BASE]
    best = sorted((each.values["x"] for each in trials[:6]), reverse=True)[:2]
    assert [each.values["x"] for each in trials[6:]] == [*best, 0.0] * 3
    assert reason is None, "its slots are used up"
    early = make_study(confirm={"top": 2, "repeats": 1}, target=1.0, max_runs=15, parallel=parallel)
    trials, reason = await carried_out(early, lambda each: each.values["x"])
    assert reason == "the best trials ran 1 more times each"
    assert len(trials) <= 1 + parallel + 3
    assert trials[-1].values == BASE
    few = make_study(sampler="grid", points=2, confirm={"top": 4, "repeats": 2}, parallel=parallel)
    trials, reason = await carried_out(few, lambda each: each.values["x"])
    assert [each.values["x"] for each in trials] == [0.0, 1.0, 9.0, *[9.0, 1.0, 0.0] * 2]
    assert reason == "the best trials ran 2 more times each"


async def test_nothing_is_confirmed_where_nothing_is_feasible() -> None:
    study = make_study(confirm={"top": 2, "repeats": 3}, max_runs=15)
    trials, reason = await carried_out(study, lambda _: None)
    assert (len(trials), reason) == (6, "the 6 runs of the search are used up")
    with pytest.raises(Rejected, match="9 are for its confirmation"):
        make_study(confirm={"top": 2, "repeats": 3}, max_runs=9)


@given(seed=st.integers(0, 10_000), parallel=st.integers(1, 6), repeats=st.integers(1, 2))
async def test_whatever_ends_when_a_confirmation_is_whole_and_within_its_runs(
    seed: int, parallel: int, repeats: int
) -> None:
    chance = random.Random(seed)
    study = make_study(
        confirm={"top": 2, "repeats": 2}, baseline_every=2, max_runs=16, parallel=parallel,
        repeats=repeats, patience=chance.choice([None, 2]), seed=seed,
    )  # fmt: skip
    trials, _ = await carried_out(study, lambda _: chance.choice([None, chance.random()]))
    assert len(trials) <= 16
    counts = {values["x"]: len(slots) for values, slots in study.tried(trials) if values != BASE}
    assert (
        sorted(counts.values(), reverse=True)[:3]
        in (
            [repeats + 2, repeats + 2, repeats],
            [repeats + 2, repeats, repeats],
            [repeats, repeats, repeats],
        )
        or len(counts) < 3
    )


def test_one_lucky_run_is_behind_what_was_confirmed_and_the_bound_decides() -> None:
    lucky, steady, wild = (
        measured({"x": 1.0}, 99.0),
        measured({"x": 2.0}, 10.0, 10.1, 9.9),
        measured({"x": 3.0}, 20.0, 2.0, 14.0),
    )
    assert ranked([lucky, wild, steady], HIGHEST, by_bound=True) == [steady, wild, lucky]
    assert ranked([lucky, wild, steady], HIGHEST, by_bound=False) == [lucky, wild, steady]
    assert ranked([wild, steady], LOWEST, by_bound=True) == [steady, wild]
    broken = Outcome(values={"x": 4.0}, slots=[9], has_ended=True, numbers=[[500.0, 501.0]], excess=[0.1])
    assert ranked([broken, steady], HIGHEST, by_bound=True) == [steady]


def test_a_study_that_confirms_names_its_best_by_the_bound_once_it_has_begun_to() -> None:
    study = make_study(confirm={"top": 1, "repeats": 2}, max_runs=9)
    found = [Trial(0, BASE, True, 5.0), Trial(1, {"x": 1.0}, True, 9.0), Trial(2, {"x": 2.0}, True, 8.0)]
    assert [each.values["x"] for each in study.best(found)] == [1.0, 2.0, 0.0]
    more = [Trial(3, {"x": 2.0}, True, 8.1), Trial(4, BASE, True, 5.1), Trial(5, {"x": 2.0}, True, 7.9)]
    assert study.best([*found, *more])[0].values == {"x": 2.0}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), max_size=30))
def test_the_front_is_what_nothing_surpasses_whatever_the_order(told: list[tuple[int, int, bool]]) -> None:
    outcomes = [
        Outcome(values={"x": n}, slots=[n], has_ended=True, numbers=[[float(one)], [float(two)]],
                excess=[0.5 if broken else 0.0])
        for n, (one, two, broken) in enumerate(told)
    ]  # fmt: skip
    found = [each.slots[0] for each in front(outcomes, [HIGHEST, LOWEST])]
    there = [(n, one, two) for n, (one, two, broken) in enumerate(told) if not broken]
    assert found == [
        n
        for n, one, two in there
        if not any(a >= one and b <= two and ((a, b) != (one, two) or m < n) for m, a, b in there)
    ]


def test_the_patience_of_two_goals_counts_trials_that_do_not_change_the_front() -> None:
    study = make_study(goal=["max:speed", "min:seconds"], patience=2, baseline=None)

    def stopped(*pairs: tuple[float, float]) -> str | None:
        trials = [Trial(n, {"x": float(n)}, True, one, second=two) for n, (one, two) in enumerate(pairs)]
        return study.stopped(Members(trials=trials))

    assert stopped((1.0, 5.0), (2.0, 6.0), (0.5, 9.0)) is None
    assert stopped((1.0, 5.0), (0.9, 5.0), (0.8, 4.0)) is None, "it is slower and quicker to answer"
    assert stopped((1.0, 5.0), (2.0, 6.0), (0.5, 9.0), (2.0, 6.0)) == (
        "the last 2 trials did not change the Pareto front of 2"
    )


def test_the_difference_of_two_means_has_the_interval_of_welch() -> None:
    one = (27.5, 21.0, 19.0, 23.6, 17.0, 17.9)
    other = (27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2)
    found = difference(one, other)
    assert found.value == pytest.approx(-2.3)
    assert found.low is not None
    assert found.high is not None
    # 6.83 degrees of freedom give (-6.478, 1.878); they are rounded down, so that it is a little wider
    assert (found.low, found.high) == pytest.approx((-6.601, 2.001), abs=0.001)
    assert difference([1.0], other).low is None
    assert difference([2.0, 2.0], [1.0, 1.0]).low == 1.0
    assert difference([1e300, -1e300], [1e300, 1e300]).value == -1e300


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5), st.lists(st.floats(-1e300, 1e300), min_size=2)
)
def test_a_difference_of_any_numbers_is_within_its_interval(one: list[float], other: list[float]) -> None:
    found = difference(one, other)
    if found.low is not None and found.high is not None:
        assert found.low <= found.value <= found.high
