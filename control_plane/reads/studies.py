"""Reads how a study stands: its trials, the best of them, and the difference to its baseline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from control_plane.model.groups.plan import plan_of
from control_plane.model.groups.ranking import difference, mean_with_interval
from control_plane.model.groups.status import GroupStatus
from control_plane.model.groups.study import Study
from control_plane.model.groups.trials import Outcome
from control_plane.model.views.readable import reading_of, typed
from control_plane.reads.groups import shown
from control_plane.store.queue.groups import Groups
from events.answers.groups import Group
from events.answers.plans.studies import StudyDifference, StudyNumber, StudyStanding, StudyTrial
from events.runtime.errors import Rejected

FRONT_MAX: Final = 200  # trials of a front that are told
GOING_ON: Final = (GroupStatus.OPEN, GroupStatus.PAUSED)


@dataclass(frozen=True, slots=True)
class StudyView:
    """The trials of a study with what they came to, the best ones, and the baseline where it is known."""

    study: Study
    outcomes: Sequence[Outcome]
    best: Sequence[Outcome]
    baseline: Outcome | None
    is_confirming: bool

    def standing(self, status: GroupStatus) -> StudyStanding:
        """Return what is told of it."""
        is_single = len(self.study.goals) == 1
        best = self.best[:1] if is_single else self.best[:FRONT_MAX]
        phase = "confirmation" if self.is_confirming else "search"
        told = StudyStanding(
            state=phase if status in GOING_ON else "over",
            trials=sum(each.is_known for each in self.outcomes),
            best=[_trial(self.study, each) for each in best],
            baseline=None if self.baseline is None else _trial(self.study, self.baseline),
            difference=_difference(self.study, best[0], self.baseline) if best and is_single else None,
        )
        if is_single:
            return told
        return msgspec.structs.replace(told, front=[each.slots[0] for each in best])


async def study_view(groups: Groups, group: Group) -> StudyView | None:
    """Return the trials of the present round of a study; None for a group of another plan.

    Raises `UnreadableDocument`.
    """
    if group.plan.get("kind") != "study":
        return None
    with reading_of("group", group.id):
        study = plan_of(group.plan)
        if not isinstance(study, Study):
            raise Rejected("bad_group", "its plan is no study")
        trials = await groups.trials(group.id, group.first, study)

        def viewed() -> StudyView:
            outcomes = study.outcomes(trials)
            known = [each for each in outcomes if each.numbers and study.reruns.is_baseline(each.values)]
            baseline = next(iter(known), None)
            return StudyView(study, outcomes, study.best(trials), baseline, study.is_confirming(trials))

        return await asyncio.to_thread(viewed)  # beside the event loop: trials are thousands


async def with_study(groups: Groups, group: Group) -> Group:
    """Return a group with the standing of its study; one of another plan as it is."""
    view = await study_view(groups, group)
    return group if view is None else told_with(group, view)


def told_with(group: Group, view: StudyView) -> Group:
    """Return a group with the standing of its study. Raises `UnreadableDocument`."""
    with reading_of("group", group.id):
        return typed(msgspec.structs.replace(group, study=view.standing(GroupStatus(group.status))))


def _trial(study: Study, outcome: Outcome) -> StudyTrial:
    means = {name: mean_with_interval(outcome, place) for place, name in enumerate(study.metrics)}
    return StudyTrial(
        slots=list(outcome.slots),
        values=shown(outcome.values),
        runs=len(outcome.numbers[0]),
        numbers={
            name: StudyNumber(mean=each.mean, low=each.low, high=each.high) for name, each in means.items()
        },
    )


def _difference(study: Study, best: Outcome, baseline: Outcome | None) -> StudyDifference | None:
    if baseline is None or best is baseline or best.values == baseline.values:
        return None
    found = difference(best.numbers[0], baseline.numbers[0])
    before = baseline.means[0]
    return StudyDifference(
        name=study.goal.name,
        value=found.value,
        low=found.low,
        high=found.high,
        percent=None if before == 0 else 100 * found.value / abs(before),
    )
