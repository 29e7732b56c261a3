"""Attempts as the HTTP interface shows them: which pod had a run, from when to when, and how that ended."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from events.answers.answer import Amount, Answer, Count, Moment


class CurrentStage(Answer, frozen=True, kw_only=True):
    """The current stage of a run; `progress` from 0 to 1."""

    name: str
    progress: Amount | None
    activity: str | UnsetType | None = UNSET


class Failure(Answer, frozen=True, kw_only=True):
    """Why something ended: a code for programs, words for people, in which stage and attempt it was.

    `fault` says whose it was: of the run, of its pod, or of something outside (`run`, `pod`, `outside`).
    """

    code: str | None
    message: str | None
    stage: str | UnsetType | None = UNSET
    retryable: bool | UnsetType | None = UNSET
    attempt: int | UnsetType | None = UNSET
    fault: str | UnsetType | None = UNSET
    traceback: str | UnsetType | None = UNSET


class Stage(Answer, frozen=True, kw_only=True):
    """A stage of an attempt; `progress` from 0 to 1, `duration_s` in seconds, `index` counts up to `total`.

    `status` is RUNNING, COMPLETED, how its attempt ended in it, or INTERRUPTED where that was lost. `order`
    is the position in the log at which it began, `seq` that of its last change.
    """

    id: str
    run_id: str
    attempt: Count
    name: str
    index: int | None
    total: int | None
    status: str
    progress: Amount
    activity: str | None
    started_at: Moment | None
    completed_at: Moment | None
    duration_s: Amount | None
    order: int | UnsetType | None = UNSET
    seq: int


class Attempt(Answer, frozen=True, kw_only=True):
    """A pod's time with a run.

    `claimed_at` and what follows are the control plane's words, `started_at` and what follows the pod's.
    `end_seq` is the position of the last event in its log, `last_event_seq` how far that was applied.
    `fault` says whose fault a failure was: `run`, `pod` or `outside`.
    """

    id: str
    run_id: str
    attempt: Count
    pod: str | UnsetType | None = UNSET
    claimed_at: Moment | UnsetType | None = UNSET
    outcome: str | UnsetType | None = UNSET
    code: str | UnsetType | None = UNSET
    message: str | UnsetType | None = UNSET
    fault: str | UnsetType | None = UNSET
    ended_at: Moment | UnsetType | None = UNSET
    revision: int | UnsetType | None = UNSET
    watched_until: Moment | UnsetType | None = UNSET
    current_stage: CurrentStage | UnsetType | None = UNSET
    started_at: Moment | UnsetType | None = UNSET
    validation: dict[str, Any] | UnsetType | None = UNSET
    error: Failure | UnsetType | None = UNSET
    end_seq: int | UnsetType | None = UNSET
    last_event_seq: int | UnsetType | None = UNSET
    summary: dict[str, Amount | str | bool | None] | UnsetType | None = UNSET


class PodAttempt(Attempt, frozen=True, kw_only=True):
    """An attempt that a pod made, with the title of its run; null where the run is gone."""

    title: str | None
