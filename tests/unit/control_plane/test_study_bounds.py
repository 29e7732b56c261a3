"""What bounds a study: its declared numbers, its constraints, and the rule that prunes its members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.groups.constraints import LACKING, broken, read_constraint
from control_plane.model.groups.members import Members, Trial
from control_plane.model.groups.pruning import VALUE_MAX, Curve, Pruning, Stop, stop_of
from control_plane.model.groups.space import Choice
from control_plane.model.groups.study import Study, require_measured, study_of
from control_plane.model.groups.trials import trial_of
from control_plane.runs.groups import tpe
from control_plane.runs.groups.proposer import request, values_of
from control_plane.runs.groups.tpe import propose
from events.kinds import KINDS
from events.kinds.results import WHOLE_MAX, Column
from events.runtime.errors import Rejected

STOP = Stop(metric="loss", step=3, value=0.75, bound=0.5, members=5)
VALUES = {"x": 1.0}


def make_study(**plan: Any) -> Study:
    space = {"x": {"type": "uniform", "low": -4.0, "high": 4.0}}
    usual = {"sampler": "tpe", "space": space, "goal": "min:value", "max_runs": 40, "parallel": 2}
    return study_of({**usual, **plan})


@pytest.mark.parametrize(
    "plan", [{"goal": "min:loss"}, {"constraints": ["loss <= 1"]}, {"constraints": ["value <= 1", "v >= 0"]}]
)
def test_a_number_that_the_kind_does_not_declare_is_refused_with_those_that_it_does(
    plan: dict[str, Any],
) -> None:
    require_measured(make_study(constraints=["radius <= 1"]), KINDS["probe"])
    require_measured(make_study(**plan), KINDS["job"])  # what its programs measure is not declared
    with pytest.raises(Rejected, match="it declares value, radius"):
        require_measured(make_study(**plan), KINDS["probe"])
    with pytest.raises(Rejected, match="it declares none"):  # a text is no number
        require_measured(make_study(), replace(KINDS["probe"], headline=(Column("value", type="text"),)))


def test_a_study_ends_when_several_members_succeed_and_none_has_the_number_of_the_goal() -> None:
    study = make_study(goal="min:los")
    without = [Trial(slot, {"x": float(slot)}, True, None) for slot in range(10)]
    assert study.stopped(Members(succeeded=9, failed=1, trials=without)) is None
    assert (
        study.stopped(Members(succeeded=10, trials=without))
        == "10 members succeeded, and none has the number los"
    )
    measured = [*without, Trial(10, {"x": 10.0}, True, 1.0)]
    assert study.stopped(Members(succeeded=11, trials=measured)) is None


@pytest.mark.parametrize(
    "text",
    ["", "x", "x < 3", "x <= ", "x <= y", "<= 3", "x <= 3 ", "x <= nan", "x <= 1e301", "x <= 3\n", "a.b <= 3",
     "x <= 3; y <= 4", "$x <= 3", "x => 3"],
)  # fmt: skip
def test_what_is_no_constraint_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="no constraint"):
        read_constraint(text)


def test_a_member_that_breaks_a_constraint_or_lacks_its_number_is_infeasible() -> None:
    upper, lower = read_constraint("cost <= 1.5"), read_constraint("score>=-1e1")
    assert (str(upper), str(lower)) == ("cost <= 1.5", "score >= -10")
    assert broken([upper, lower], {"cost": 1.5, "score": -10}) is None
    assert broken([upper, lower], {"cost": 2, "score": 0}) == "cost <= 1.5 (it is 2)"
    for odd in (None, "1", True, float("nan")):
        assert upper.excess({"cost": odd}) == LACKING
    assert broken([upper, lower], {}) == "cost <= 1.5 (it has none); score >= -10 (it has none)"


def trial(slot: int, value: float, radius: float | None, study: Study, x: float | None = None) -> Trial:
    summary = {"value": value} if radius is None else {"value": value, "radius": radius}
    run = {"slot": slot, "status": "COMPLETED", "summary": summary}
    return trial_of(run, {"x": float(slot) if x is None else x}, study.metrics, study.constraints)


def test_an_infeasible_member_is_never_the_best_nor_the_target_and_counts_for_the_patience() -> None:
    study = make_study(constraints=["radius <= 1"], target=0.5, patience=3)
    found = [trial(0, 2.0, 1.0, study), trial(1, 0.1, 2.0, study), trial(2, 0.2, None, study)]
    assert [each.best for each in study.outcomes(found)] == [2.0, None, None]
    assert study.stopped(Members(trials=found)) is None
    assert "no better than 2" in str(study.stopped(Members(trials=[*found, trial(3, 0.0, 3.0, study)])))
    assert "reached 0.4" in str(study.stopped(Members(trials=[*found, trial(3, 0.4, 1.0, study)])))


def test_a_trial_of_which_one_repeat_breaks_a_constraint_or_is_pruned_is_no_best() -> None:
    study = make_study(constraints=["radius <= 1"], repeats=2)
    pairs = [trial(0, 1.0, 0.5, study, x=1.0), trial(1, 1.0, 1.5, study, x=1.0)]
    (outcome,) = study.outcomes(pairs)
    assert (outcome.objective, list(outcome.excess), outcome.best) == (1.0, [0.5], None)
    pruned = Trial(1, {"x": 1.0}, has_ended=True, objective=None, stop=STOP)
    (outcome,) = study.outcomes([pairs[0], pruned])
    assert (outcome.objective, outcome.stop, outcome.is_known) == (None, STOP, True)
    later = Trial(2, {"x": 1.0}, has_ended=True, objective=None, stop=STOP)
    (outcome,) = study.outcomes([*pairs, later])
    assert (outcome.objective, outcome.stop) == (1.0, None), "what is pruned later takes nothing back"


def test_a_pruned_run_is_no_failure_and_an_unreadable_reason_is_none() -> None:
    run = {"slot": 0, "status": "CANCELED", "cancelRequested": {"by": "group:g", "pruned": STOP.stored()}}
    assert trial_of(run, VALUES, ["loss"], []).stop == STOP
    assert trial_of({**run, "status": "COMPLETED"}, VALUES, ["loss"], []).stop is None
    for odd in (None, {}, {"pruned": None}, {"pruned": "yes"}, {"pruned": {"metric": "loss", "step": "x"}}):
        assert stop_of({"cancelRequested": odd}) is None
    assert "0.75 at step 3" in str(STOP)


def test_what_is_not_pruned_is_the_baseline_and_what_runs_more_often_than_usual() -> None:
    study = make_study(repeats=2, baseline={"x": 0.0}, confirm={"top": 1, "repeats": 2})
    slots = [Trial(slot, {"x": 1.0}, has_ended=False, objective=None) for slot in range(3)]
    assert [each.slot for each in study.kept({"x": 1.0}, slots)] == [2]
    assert [each.slot for each in study.kept({"x": 0.0}, slots)] == [0, 1, 2]


def test_the_estimator_hears_of_broken_constraints_and_of_pruned_members() -> None:
    prune = {"by": "max:score"}
    study = make_study(constraints=["radius <= 1"], prune=prune)
    found = [trial(0, 2.0, 1.5, study), Trial(1, VALUES, has_ended=True, objective=None, stop=STOP)]
    asked = request(study, found, [each.values for each in found], 1)
    assert asked["trials"] == [
        {"params": {"x": 0.0}, "state": "complete", "values": [2.0], "excess": [0.5]},
        {"params": {"x": 1.0}, "state": "pruned", "step": 3, "value": -0.75},  # as the goal, lower is better
    ]
    assert len(propose(asked)) == 1


def test_proposals_keep_to_where_the_constraint_holds() -> None:
    study = make_study(constraints=["radius <= 1"])
    found: list[Trial] = []
    while len(found) < 50:  # the least value lies where the constraint is broken
        (params,) = propose(request(study, found, [each.values for each in found], 1))
        summary = {"value": (params["x"] - 3) ** 2, "radius": params["x"]}
        run = {"slot": len(found), "status": "COMPLETED", "summary": summary}
        found.append(trial_of(run, params, study.metrics, study.constraints))
    late = [each.values["x"] for each in found[30:]]
    assert sum(value <= 1.2 for value in late) > len(late) / 2
    bests = [each.best for each in study.outcomes(found) if each.best is not None]
    assert 4.0 <= min(bests) < 5.5


def test_estimates_try_every_combination_of_a_small_space_and_then_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tpe, "ASKS_MAX", 1)
    space = {"x": {"type": "values", "values": [1, 2, 4]}, "y": {"type": "int", "low": 0, "high": 3}}
    study = make_study(space=space)
    found: list[Trial] = []
    while params := propose(request(study, found, [each.values for each in found], 1)):
        values = values_of(study, params[0])
        found.append(Trial(len(found), values, True, float(values["x"])))
    assert sorted((each.values["x"], each.values["y"]) for each in found) == [
        (x, y) for x in (1, 2, 4) for y in range(4)
    ]
    assert request(study, [], [], 1)["space"] == {"x": ["ordered", 0, 2], "y": ["int", 0, 3]}
    for odd in ([1, 1], [2, 1, 3], ["a", "b"], [True, False], [1]):
        assert not Choice(odd).is_ordered
    assert Choice([4, 2.5, 1]).is_ordered


def rule(**changes: Any) -> Pruning:
    usual = {
        "metric": "loss",
        "is_lower_better": True,
        "keep_percent": 50.0,
        "after_step": 2,
        "min_members": 3,
    }
    return Pruning(**{**usual, **changes})


def curve(*values: float) -> Curve:
    made = Curve()
    made.add(list(enumerate(values)))
    return made


def test_a_member_is_stopped_where_its_best_is_worse_than_the_median_of_the_means() -> None:
    others = [curve(1, 1, 1).means, curve(2, 2, 2).means, curve(9, 3, 0).means]  # means 1, 2, 4
    stop = rule().stop(curve(4, 3, 2.5).points, others)
    assert stop == Stop(metric="loss", step=2, value=2.5, bound=2.0, members=3)
    assert rule().stop(curve(4, 2, 3).points, others) is None  # its best is as good
    assert rule().stop(curve(4, 3).points, others) is None  # before the step
    assert rule(min_members=4).stop(curve(4, 3, 2.5).points, others) is None
    assert rule(keep_percent=75.0).stop(curve(4, 3, 2.5).points, others) is None  # up to 3
    assert rule(is_lower_better=False).stop(curve(0, 0, 0).points, others) is not None
    assert rule(is_lower_better=False).stop(curve(5, 0, 0).points, others) is None
    late = Curve()
    late.add([(7, 0.0)])
    assert rule(min_members=1).stop(curve(4, 3, 2.5).points, [late.means]) is None  # it said nothing by then


@given(
    said=st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63), st.floats() | st.none() | st.text())),
    more=st.lists(st.tuples(st.integers(0, 3_000), st.floats(-9, 9)), max_size=50),
)
def test_whatever_a_pod_says_is_a_curve_of_numbers_in_the_order_of_steps(said: Any, more: Any) -> None:
    made = Curve()
    made.add(said)
    made.add(more)
    steps = [step for step, _ in made.points]
    assert steps == sorted(set(steps))
    assert all(abs(value) <= 1e300 for _, value in [*made.points, *made.means])
    stop = rule(after_step=0, min_members=1).stop(made.points, [made.means])
    assert stop is None or stop_of({"cancelRequested": {"pruned": stop.stored()}}) == stop


def test_what_is_no_number_is_no_point_and_a_step_is_a_whole_number_of_the_store() -> None:
    made = Curve()
    made.add([(1, float("nan")), (2, float("inf")), (3, None), (10 * WHOLE_MAX, 4.0), (-10 * WHOLE_MAX, 5.0)])
    assert made.points == [(-float(WHOLE_MAX), 5.0), (float(WHOLE_MAX), 4.0)]


def test_a_long_curve_keeps_its_ends_and_stays_bounded() -> None:
    made = curve(*range(5_000))
    assert 250 <= len(made.points) <= 1_000
    assert made.points[0] == (0, 0)


def test_the_mean_of_the_largest_numbers_is_a_number_that_is_proposed_from() -> None:
    study = make_study(repeats=2)
    run = {"slot": 0, "status": "COMPLETED", "summary": {"value": 1.7e308}}
    slots = [trial_of({**run, "slot": slot}, {"x": slot // 2 / 10}, ["value"], []) for slot in range(24)]
    asked = msgspec.json.decode(msgspec.json.encode(request(study, slots, [], 1)))
    assert {each["values"][0] for each in asked["trials"]} == {VALUE_MAX}
    assert len(propose(asked)) == 1
