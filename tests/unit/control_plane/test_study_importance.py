"""Which parameter decides: by the process of proposals, kept for those who look again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from control_plane.model.groups.members import Trial
from control_plane.model.groups.trials import Outcome
from control_plane.reads.studies import StudyView
from control_plane.runs.groups import importances as module
from control_plane.runs.groups.importances import FRESH_S, TRIALS_MIN, Importances
from control_plane.runs.groups.proposer import Proposer
from events.answers.groups import Group
from events.runtime.errors import Rejected
from events.testing import ManualClock
from tests.unit.control_plane.test_study_reruns import make_study

SPACE: dict[str, Any] = {
    "slots": {"type": "int", "low": 1, "high": 16},
    "cache": {"type": "values", "values": ["f16", "q8"]},
    "idle": {"type": "uniform", "low": 0.0, "high": 1.0},
}


@dataclass(slots=True)
class Counted:
    """A proposer that counts how often it is asked, and fails where it is told to."""

    asked: list[int] = field(default_factory=list)
    fails: bool = False

    async def importance(self, study: Any, outcomes: list[Outcome]) -> dict[str, float]:
        self.asked.append(len(outcomes))
        if self.fails:
            raise Rejected("study_unavailable", "there is no Optuna")
        return {"slots": 0.25, "idle": 0.75}


def view_of(count: int, goal: str | list[str] = "max:speed") -> StudyView:
    study = make_study(space=SPACE, goal=goal, baseline=None, max_runs=200)
    speeds = [(each, float(each["slots"])) for each in study.proposals([], count)]
    second = 1.0 if isinstance(goal, list) else None
    trials = [Trial(slot, each, True, speed, second=second) for slot, (each, speed) in enumerate(speeds)]
    return StudyView(study, study.outcomes(trials), study.best(trials), None, is_confirming=False)


def group(name: str = "g", number: int = 1) -> Group:
    made: Any = type("Named", (), {"id": name, "round": number})()
    return made  # type: ignore[no-any-return]  # two of its fields are read


async def test_the_parameter_that_decides_has_the_largest_share() -> None:
    proposer = Proposer()
    try:
        two = view_of(120, ["max:speed", "min:seconds"])
        assert (await proposer.importance(two.study, list(two.outcomes)))["slots"] > 0.8
        view = view_of(120)
        shares = await proposer.importance(view.study, list(view.outcomes))
        assert set(shares) == set(SPACE)
        assert sum(shares.values()) == pytest.approx(1.0)
        assert shares["slots"] > 0.8
        told = [(each.values, [[1.0]] * len(each.numbers)) for each in view.outcomes]
        equal = [Outcome(values=values, slots=[0], has_ended=True, numbers=ones) for values, ones in told]
        assert sum((await proposer.importance(view.study, equal)).values()) == pytest.approx(1.0)
        assert await proposer.importance(view.study, []) == {}
    finally:
        await proposer.close()


async def test_an_answer_stands_until_more_is_known_and_some_time_has_passed() -> None:
    counted, clock = Counted(), ManualClock()
    kept = Importances(counted, clock)  # type: ignore[arg-type]  # of a proposer, one method
    first = await kept.of(group(), view_of(20))
    assert [(each.name, each.share) for each in first.parameters] == [("idle", 0.75), ("slots", 0.25)]
    clock.advance(10 * FRESH_S)
    assert await kept.of(group(), view_of(20)) is first
    assert await kept.of(group(), view_of(21)) is not first, "more is known"
    assert await kept.soon(group(), view_of(22)) is not None
    assert counted.asked == [20, 21], "it is younger than it has to be"
    await kept.of(group(number=2), view_of(22))
    assert counted.asked == [20, 21, 22]
    few = await kept.of(group("few"), view_of(TRIALS_MIN - 1))
    assert (few.parameters, few.reason) == ([], module.TOO_FEW)
    assert len(counted.asked) == 3
    await kept.close()


async def test_a_page_is_shown_where_the_importance_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(fails=True)
    kept = Importances(counted, ManualClock())  # type: ignore[arg-type]  # of a proposer, one method
    assert await kept.soon(group(), view_of(20)) is None
    with pytest.raises(Rejected, match="no Optuna"):
        await kept.of(group(), view_of(20))
    counted.fails = False
    assert (await kept.of(group(), view_of(20))).parameters
    monkeypatch.setattr(module, "KEPT_MAX", 2)
    for name in "abc":
        await kept.of(group(name), view_of(20))
    assert list(kept.asked) == ["b", "c"]
