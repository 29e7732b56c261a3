"""Studies: their spaces, what is proposed, when they end, and the process that estimates."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections import Counter
from typing import Any

import pytest
from bson import decode, encode
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.groups.members import Members, Trial
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.space import VALUES_BYTES_MAX, space_of
from control_plane.model.groups.study import Study, identity, study_of
from control_plane.model.groups.trials import objective
from control_plane.runs.groups import proposer as proposing
from control_plane.runs.groups.proposals import Proposals
from control_plane.runs.groups.proposer import PROCESSES_MAX, Proposer, request, require_sampler
from events.runtime.errors import Rejected, Transient

SPACE: dict[str, Any] = {
    "lr": {"type": "log", "low": 0.001, "high": 10.0},
    "depth": {"type": "int", "low": 1, "high": 4},
    "opt": {"type": "values", "values": ["adam", "sgd"]},
}


def make_study(**plan: Any) -> Study:
    usual = {"sampler": "random", "space": SPACE, "goal": "min:loss", "max_runs": 20, "parallel": 2}
    return study_of({**usual, **plan})


def trials(study: Study, *objectives: float | None, ended: bool = True) -> list[Trial]:
    """Return trials with these objectives, each with values of its own."""
    values = study.woven([], study.proposals([], len(objectives)))[: len(objectives)]
    return [Trial(slot, values[slot], ended, value) for slot, value in enumerate(objectives)]


@pytest.mark.parametrize(
    ("form", "low", "high"),
    [("log", 0, 1), ("uniform", 1, 1), ("int", 2, 1), ("int", 0.5, 2), ("int", 0, 1e17), ("log", -1, 1)],
)
def test_a_range_that_holds_no_numbers_is_refused(form: str, low: float, high: float) -> None:
    with pytest.raises(Rejected, match=r"plan\.space: x"):
        space_of({"x": {"type": form, "low": low, "high": high}})


@given(seed=st.integers(0, 1000), sampler=st.sampled_from(["random", "grid"]))
def test_proposals_lie_in_the_space_are_new_and_follow_from_the_seed(seed: int, sampler: str) -> None:
    study = make_study(seed=seed, sampler=sampler)
    first = study.proposals([], 10)
    assert first == study.proposals([], 10)
    following = study.proposals(first, 10)
    every = [*first, *following]
    assert len({identity(each) for each in every}) == len(every) == 20
    for each in every:
        assert 0.001 <= each["lr"] <= 10.0
        assert each["depth"] in (1, 2, 3, 4)
        assert type(each["depth"]) is int
        assert each["opt"] in ("adam", "sgd")


def test_a_grid_ends_with_its_last_combination_and_holds_the_ends_of_its_ranges() -> None:
    study = make_study(sampler="grid", points=3)
    every = study.proposals([], 1_000)
    assert len(every) == 3 * 3 * 2
    assert sorted({each["lr"] for each in every}) == pytest.approx([0.001, 0.1, 10.0])
    assert {each["depth"] for each in every} == {1, 2, 4}
    assert study.proposals(every, 5) == []


def test_a_grid_of_equal_values_ends() -> None:
    equal = {"type": "values", "values": [1] * 1_000}
    study = make_study(sampler="grid", space={f"p{number}": equal for number in range(20)})
    assert study.proposals([], 2) == [{f"p{number}": 1 for number in range(20)}]
    near = {"type": "uniform", "low": 1.0, "high": 1.0 + 2**-52}
    study = make_study(sampler="grid", points=100, space={f"p{number}": near for number in range(20)})
    assert len(study.proposals([], 5)) == 5


def test_values_that_take_long_to_compare_are_refused() -> None:
    half = {"type": "values", "values": [1, "x" * (VALUES_BYTES_MAX // 2)]}
    assert space_of({"p": half})
    with pytest.raises(Rejected, match="bytes"):
        space_of({"p": half, "q": half})


def test_numbers_are_the_same_before_and_after_they_were_stored() -> None:
    stored = decode(encode({"each": 2**40}))
    assert identity(stored) == identity({"each": 2**40})


def test_random_values_of_a_small_space_run_out() -> None:
    study = make_study(space={"opt": SPACE["opt"]})
    assert sorted(each["opt"] for each in study.proposals([], 10)) == ["adam", "sgd"]


def test_a_trial_is_the_mean_of_its_repeats_once_all_have_ended() -> None:
    study = make_study(repeats=2, max_runs=5)
    assert study.slots == 4
    found = trials(study, 1.0, 3.0, 5.0)
    assert [(each.values, each.objective) for each in study.outcomes(found)] == [
        (found[0].values, 2.0),
        (found[2].values, None),
    ]
    assert study.due(found) == [found[2].values]
    going = [found[0], Trial(1, found[0].values, has_ended=False, objective=None)]
    assert [(each.has_ended, each.objective) for each in study.outcomes(going)] == [(False, None)]
    with pytest.raises(Rejected, match="no room for 9 repeats"):
        make_study(repeats=9, max_runs=5)


def test_values_that_run_again_later_add_to_their_trial_wherever_the_slot_is() -> None:
    study = make_study(repeats=2)
    found = trials(study, 1.0, 3.0, 5.0, 7.0)
    first, second = found[0].values, found[2].values
    assert len(study.outcomes(found)) == 2
    later = [*found, Trial(4, first, True, 8.0), Trial(5, second, False, None)]
    assert [(each.values, each.objective) for each in study.outcomes(later)] == [(first, 4.0), (second, 6.0)]
    assert study.due(later) == []
    failed = [*found, Trial(4, first, True, None)]
    assert study.outcomes(failed)[0].objective == 2.0, "a run that failed later takes nothing back"
    apart = [found[0], found[2], Trial(7, first, True, 3.0)]
    assert study.due(apart) == [second]


def test_a_study_ends_at_its_target_or_when_its_patience_is_over() -> None:
    study = make_study(target=0.5, patience=3)

    def stopped(*objectives: float | None, of: Study = study) -> str | None:
        return of.stopped(Members(trials=trials(of, *objectives)))

    assert stopped() is None
    assert stopped(None, None) is None
    assert stopped(1.0, 0.9, 2.0, 3.0) is None
    assert "no better than 0.9" in str(stopped(1.0, 0.9, 2.0, 3.0, 4.0))
    assert "reached 0.5" in str(stopped(1.0, 0.5))
    highest = make_study(goal="max:accuracy", target=0.9)
    assert stopped(0.5, 0.8, of=highest) is None
    assert "reached 0.95" in str(stopped(0.95, 0.1, of=highest))
    few = make_study(stop_after_failures=2)
    assert "2 members failed" in str(few.stopped(Members(failed=2)))


@pytest.mark.parametrize(
    ("status", "summary", "value"),
    [
        ("COMPLETED", {"loss": 1}, 1.0),
        ("HUMAN_REJECTED", {"loss": 0.5}, 0.5),
        ("FAILED", {"loss": 0.5}, None),
        ("RUNNING", {"loss": 0.5}, None),
        ("COMPLETED", {"loss": True}, None),
        ("COMPLETED", {"loss": "1"}, None),
        ("COMPLETED", {"loss": float("nan")}, None),
        ("COMPLETED", {}, None),
        ("COMPLETED", None, None),
    ],
)
def test_only_a_number_of_a_run_that_succeeded_is_measured(
    status: str, summary: dict[str, Any] | None, value: float | None
) -> None:
    assert objective({"status": status, "summary": summary}, "loss") == value


async def test_the_baseline_comes_first_and_repeats_follow_their_trial() -> None:
    baseline = {"lr": 1.0, "depth": 2, "opt": "sgd"}
    study = make_study(baseline=baseline, repeats=2)
    first = await Proposer().slots(study, [], 3)
    assert first[:2] == [baseline, baseline]
    assert first[2] != baseline
    begun = [Trial(slot, values, has_ended=False, objective=None) for slot, values in enumerate(first)]
    following = await Proposer().slots(study, begun, 3)
    assert following[0] == first[2]
    assert following[1] == following[2] not in (first[0], first[2])
    with pytest.raises(Rejected, match="a value for each of lr, depth, opt"):
        make_study(baseline={"lr": 1.0})


def test_what_is_asked_names_choices_by_their_place_and_leaves_out_what_lies_outside() -> None:
    study = make_study(sampler="tpe", baseline={"lr": 99.0, "depth": 1, "opt": "sgd"})
    inside = {"lr": 1.0, "depth": 2, "opt": "sgd"}
    found = [
        Trial(0, {"lr": 99.0, "depth": 1, "opt": "sgd"}, True, 3.0),
        Trial(1, inside, True, 2.0),
        Trial(2, {**inside, "depth": 3}, False, None),
        Trial(3, {**inside, "depth": 4}, True, None),
    ]
    asked = request(study, found, [each.values for each in found], 2)
    told = {"lr": 1.0, "depth": 2, "opt": 1}
    assert asked["trials"] == [
        {"params": told, "state": "complete", "values": [2.0], "excess": []},
        {"params": {**told, "depth": 3}, "state": "running"},
    ]
    assert asked["known"] == [told, {**told, "depth": 3}, {**told, "depth": 4}]
    assert asked["space"] == {"lr": ["log", 0.001, 10.0], "depth": ["int", 1, 4], "opt": ["values", 0, 1]}
    assert json.loads(json.dumps(asked)) == asked


async def test_estimates_come_from_a_process_near_the_best_and_the_same_for_the_same_trials() -> None:
    space = {"x": {"type": "uniform", "low": -10.0, "high": 10.0}, "opt": SPACE["opt"]}
    study = make_study(sampler="tpe", space=space, goal="min:value")
    proposer = Proposer()
    try:
        known: list[Trial] = []
        while len(known) < 40:
            for values in await proposer.slots(study, known, 4):
                value = (values["x"] - 1) ** 2 + (values["opt"] == "sgd")
                known.append(Trial(len(known), values, has_ended=True, objective=value))
        assert min(each.objective for each in known if each.objective is not None) < 0.5
        again = await proposer.slots(study, known, 2)
        assert again == await proposer.slots(study, known, 2)
        assert not {identity(each) for each in again} & {identity(each.values) for each in known}
        (process,) = proposer.idle
        process.kill()
        with pytest.raises(Transient):
            await proposer.slots(study, known, 2)
        assert await proposer.slots(study, known, 2) == again
        running = asyncio.create_task(proposer.slots(study, known, 2))
        turns = 0
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 10, "the event loop waited for the process"
    finally:
        await proposer.close()


async def test_a_slow_proposal_holds_no_other_group_and_is_asked_for_once() -> None:
    proposals, gate, made = Proposals(), asyncio.Event(), Counter[str]()

    async def make(name: str, *, is_slow: bool = False) -> list[Values]:
        made[name] += 1
        if is_slow:
            await gate.wait()
        return [{"of": name}]

    try:
        assert await proposals.of("slow", "1/0", lambda: make("slow", is_slow=True)) is None
        assert await proposals.of("quick", "1/0", lambda: make("quick")) == [{"of": "quick"}]
        assert await proposals.of("slow", "1/0", lambda: make("slow")) is None
        assert await proposals.of("slow", "2/4", lambda: make("later")) is None  # one of a group at a time
        assert made == {"slow": 1, "quick": 1}
        gate.set()
        assert await proposals.of("slow", "1/0", lambda: make("slow")) == [{"of": "slow"}]
        gate.clear()
        assert await proposals.of("slow", "2/4", lambda: make("slow", is_slow=True)) is None
        gate.set()
        await asyncio.sleep(0)
        assert await proposals.of("slow", "3/4", lambda: make("new")) == [{"of": "new"}]  # it was edited

        async def fails() -> list[Values]:
            raise Rejected("slow_study", "it took too long")

        with pytest.raises(Rejected, match="too long"):
            await proposals.of("slow", "3/8", fails)
        gate.clear()
        assert await proposals.of("left", "1/0", lambda: make("left", is_slow=True)) is None
    finally:
        await proposals.close()
    assert not proposals.asked


async def test_two_studies_are_asked_at_once_and_further_ones_wait_for_a_process() -> None:
    proposer = Proposer()
    study = make_study(sampler="tpe")
    try:
        found = await asyncio.gather(*(proposer.slots(study, [], 1) for _ in range(2 * PROCESSES_MAX)))
        assert len(found) == 2 * PROCESSES_MAX
        assert len(proposer.idle) == PROCESSES_MAX
    finally:
        await proposer.close()
    assert proposer.idle == []


async def test_without_the_extra_a_study_by_estimates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    require_sampler(make_study())
    with pytest.raises(Rejected, match="podfleet\\[study\\]"):
        require_sampler(make_study(sampler="tpe"))
    with pytest.raises(Rejected, match="podfleet\\[study\\]"):
        await Proposer().slots(make_study(sampler="tpe"), [], 1)


async def test_a_proposal_that_takes_long_ends_the_process_and_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proposing, "ANSWER_S", 0.0)
    proposer = Proposer()
    with pytest.raises(Rejected, match="took longer"):  # the group rests, and no other one waits for it again
        await proposer.slots(make_study(sampler="tpe"), [], 1)
    assert proposer.idle == []


async def test_an_answer_that_is_none_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposing, "MODULE", "this")  # prints text and ends
    proposer = Proposer()
    with pytest.raises(Transient, match="did not answer"):
        await proposer.slots(make_study(sampler="tpe"), [], 1)
    assert proposer.idle == []
