"""Schedules as the HTTP interface shows them: their times, and the runs that they submit."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Count, Moment


class ScheduledRun(Answer, frozen=True, kw_only=True):
    """The run that each slot submits; `queue_limit_s` bounds each wait for a pod, in seconds."""

    kind: str
    spec: dict[str, Any]
    priority: int
    requires: dict[str, Any]
    max_attempts: int
    queue_limit_s: int
    labels: dict[str, str]
    secrets: list[str] | UnsetType = UNSET
    project: str | UnsetType = UNSET


class Firing(Answer, frozen=True, kw_only=True):
    """The last slot that came; `outcome` is fired, late, overlapping or refused.

    What it fired is a run, or a round of a group.
    """

    slot: Moment
    outcome: str
    run_id: str | None
    group_id: str | UnsetType = UNSET
    round: Count | UnsetType = UNSET


class ScheduleError(Answer, frozen=True, kw_only=True):
    """Why the last slot was refused."""

    code: str
    message: str
    slot: Moment


class Schedule(Answer, frozen=True, kw_only=True):
    """A cron entry in a time zone; `next_at` is null while it is paused, and where it fires no more.

    `missed` says what becomes of slots that were missed (skip, one, all), `overlap` whether a slot fires
    while the last run goes on (allow, skip). It has a `run`, or the name of a `group` and no run.
    """

    id: str
    cron: str
    time_zone: str
    missed: str
    overlap: str
    paused: bool
    run: ScheduledRun | None
    group: str | UnsetType | None = UNSET
    next_at: Moment | None
    last: Firing | None
    error: ScheduleError | None
    revision: int
    created_by: str
    created_at: Moment
    updated_at: Moment
    paused_by: str | UnsetType | None = UNSET
    paused_at: Moment | UnsetType | None = UNSET
    pause_note: str | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        """Require a run or a group. Raises `ValueError`."""
        if self.run is None and not self.group:
            raise ValueError("it has neither a run nor a group")


class Slot(Answer, frozen=True, kw_only=True):
    """A moment at which a schedule fires: in UTC, and on the clocks of its zone with their offset."""

    at: Moment
    local: str


class Slots(Answer, frozen=True, kw_only=True):
    """The next slots of a schedule, the first one first."""

    items: list[Slot]


class CronProblem(Answer, frozen=True, kw_only=True):
    """Why a text is no cron entry."""

    code: str
    message: str


class CronPreview(Answer, frozen=True, kw_only=True):
    """The meaning of a cron text, and its next slots; else `problem` says why it is invalid."""

    cron: str
    time_zone: str
    meaning: str | None
    next: list[Slot]
    problem: CronProblem | None
