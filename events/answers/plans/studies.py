"""Studies as the HTTP interface shows them: how far the search is, and which trials are the best."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Count


class StudyNumber(Answer, frozen=True, kw_only=True):
    """The mean of a headline number over the runs of a trial, and the ends of its 95 % t interval.

    These are null for a single run.
    """

    mean: float
    low: float | None
    high: float | None


class StudyTrial(Answer, frozen=True, kw_only=True):
    """Values that were tried: in which slots, and what so many `runs` of them measured of each goal."""

    slots: list[Count]
    values: dict[str, Any]
    runs: Count
    numbers: dict[str, StudyNumber]


class StudyDifference(Answer, frozen=True, kw_only=True):
    """How much higher the number of the best trial is than that of the baseline.

    `low` and `high` are the ends of the 95 % interval of Welch, null where one of the two ran once;
    `percent` is null where the baseline is zero.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    percent: float | None


class StudyStanding(Answer, frozen=True, kw_only=True):
    """How a study stands: `state` is search, confirmation or over; so many `trials` are known.

    `best` is the best trial; of two goals those of the Pareto front, of which `front` has the first slots.
    """

    state: str
    trials: Count
    best: list[StudyTrial]
    baseline: StudyTrial | None
    difference: StudyDifference | None
    front: list[Count] | UnsetType = UNSET


class ParameterImportance(Answer, frozen=True, kw_only=True):
    """Which share of the importance of all parameters one has: 0 to 1."""

    name: str
    share: float


class StudyImportance(Answer, frozen=True, kw_only=True):
    """How much each parameter decides whether a trial is among the best tenth (PED-ANOVA), the largest first.

    It is by so many feasible `trials`; without parameters, `reason` says why.
    """

    trials: Count
    parameters: list[ParameterImportance]
    reason: str | None
