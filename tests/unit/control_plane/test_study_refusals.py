"""Combinations that the kind of a study's runs refuses: never submitted, known as impossible, and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from control_plane.model.groups.members import Trial
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.study import Study, study_of
from control_plane.runs.groups import refusals as module
from control_plane.runs.groups.proposer import Proposer, request
from control_plane.runs.groups.refusals import Refusals
from events.kinds import KINDS
from events.runtime.errors import Rejected

PLAN: dict[str, Any] = {
    "kind": "study", "sampler": "grid", "goal": "min:value", "max_runs": 40, "parallel": 4, "points": 4,
    "space": {name: {"type": "uniform", "low": 0.0, "high": 3.0} for name in ("x", "y")},
}  # fmt: skip


def stored(plan: Mapping[str, Any] = PLAN, **spec: Any) -> dict[str, Any]:
    return {"_id": "g", "run": {"kind": "probe", "spec": spec}, "plan": dict(plan), "next": 0}


@pytest.fixture
def particular(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind probe takes only what has an x of at most its y."""

    def check(spec: Any) -> str | None:
        return f"x {spec.x:g} is above y {spec.y:g}" if spec.x > spec.y else None

    monkeypatch.setitem(KINDS, "probe", replace(KINDS["probe"], check=check))  # type: ignore[arg-type]


class Asked:
    """What a study proposes, with what it was asked."""

    def __init__(self) -> None:
        self.proposer = Proposer()
        self.calls = 0

    async def __call__(
        self, study: Study, trials: Sequence[Trial], count: int, refused: Sequence[Values]
    ) -> list[Values]:
        self.calls += 1
        return await self.proposer.slots(study, trials, count, refused)


@pytest.mark.usefixtures("particular")
async def test_a_grid_skips_what_is_refused_and_ends_with_how_much_that_was() -> None:
    study, refusals, asked = study_of(PLAN), Refusals(), Asked()
    trials: list[Trial] = []
    while (found := await refusals.proposal(stored(), study, trials, 3, asked)).values:
        trials += [Trial(len(trials) + n, each, True, 1.0) for n, each in enumerate(found.values)]
    assert [(each.values["x"], each.values["y"]) for each in trials] == [
        (x, y) for x in range(4) for y in range(4) if x <= y
    ]
    assert "6 combinations are refused, such as x=1.0, y=0.0: " in found.why
    assert "x 1 is above y 0" in found.why
    before = asked.calls
    assert (await refusals.proposal(stored(), study, trials, 3, asked)).why == found.why
    assert asked.calls == before + 1, "what is known is not looked at again"


@pytest.mark.usefixtures("particular")
async def test_a_search_that_is_refused_too_often_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSED_MAX", 20)
    space = {
        "x": {"type": "uniform", "low": 2.0, "high": 3.0},
        "y": {"type": "uniform", "low": 0.0, "high": 1.0},
    }
    plan = {**PLAN, "sampler": "random", "space": space}
    found = await Refusals().proposal(stored(plan), study_of(plan), [], 4, Asked())
    assert not found.values
    assert "nothing else is left to try: 24 combinations are refused" in found.why


async def test_where_what_has_run_is_refused_as_well_a_person_has_to_look(particular: None) -> None:
    study = study_of(PLAN)
    trials = [Trial(0, {"x": 3.0, "y": 0.0}, True, 1.0)]
    with pytest.raises(Rejected, match="unknown field"):
        await Refusals().proposal(stored(unknown=1), study, trials, 3, Asked())


@pytest.mark.usefixtures("particular")
async def test_what_runs_again_is_not_looked_at_and_a_changed_group_is_looked_at_anew() -> None:
    plan = {**PLAN, "sampler": "random", "baseline": {"x": 3.0, "y": 0.0}, "baseline_every": 1}
    refusals, asked = Refusals(), Asked()
    found = await refusals.proposal(stored(plan), study_of(plan), [], 1, asked)
    assert found.values == [plan["baseline"]]
    await refusals.proposal(stored(), study_of(PLAN), [], 16, asked)
    assert len(refusals.known["g"].refused) == 6
    await refusals.proposal(stored(seconds=2.0), study_of(PLAN), [], 1, asked)
    assert len(refusals.known["g"].refused) == 0


@pytest.mark.usefixtures("particular")
async def test_the_rest_of_a_trial_that_is_refused_by_now_is_left_to_whoever_submits_it() -> None:
    trials = [Trial(0, {"x": 3.0, "y": 0.0}, True, 1.0)]
    found = await Refusals().proposal(stored(), study_of({**PLAN, "repeats": 2}), trials, 1, Asked())
    assert found.values == [trials[0].values]


def test_the_estimator_hears_that_what_failed_is_worse_than_all_else() -> None:
    study = study_of({**PLAN, "sampler": "tpe", "constraints": ["radius <= 1"]})
    values = {"x": 1.0, "y": 2.0}
    found = [Trial(0, values, True, None, is_own_fault=True), Trial(1, {"x": 2.0, "y": 2.0}, True, None)]
    asked = request(study, found, [], 1)
    assert asked["trials"] == [{"params": values, "state": "failed", "excess": [1e300]}]
