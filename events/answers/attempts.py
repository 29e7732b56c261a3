"""Attempts as the HTTP interface shows them: which pod had a run, from when to when, and how that ended."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Count, Moment


class CurrentStage(Answer, frozen=True, kw_only=True):
    """What a run does at the moment; `progress` from 0 to 1."""

    name: str
    progress: float | None
    activity: str | UnsetType | None = UNSET


class Failure(Answer, frozen=True, kw_only=True):
    """Why something ended: a code for programs, words for people, the stage in which it was."""

    code: str | UnsetType | None = UNSET
    message: str | UnsetType | None = UNSET
    stage: str | UnsetType | None = UNSET
    retryable: bool | UnsetType | None = UNSET
    traceback: str | UnsetType | None = UNSET


class Attempt(Answer, frozen=True, kw_only=True):
    """A pod's time with a run.

    `claimed_at` and what follows are the control plane's words, `started_at` and what follows the pod's.
    `end_seq` is the position of the last event in its log, `last_event_seq` how far that was applied.
    """

    id: str
    run_id: str
    attempt: Count
    pod: str | UnsetType | None = UNSET
    claimed_at: Moment | UnsetType | None = UNSET
    outcome: str | UnsetType | None = UNSET
    code: str | UnsetType | None = UNSET
    message: str | UnsetType | None = UNSET
    ended_at: Moment | UnsetType | None = UNSET
    revision: int | UnsetType | None = UNSET
    watched_until: Moment | UnsetType | None = UNSET
    current_stage: CurrentStage | UnsetType | None = UNSET
    started_at: Moment | UnsetType | None = UNSET
    validation: dict[str, Any] | UnsetType | None = UNSET
    error: Failure | UnsetType | None = UNSET
    end_seq: int | UnsetType | None = UNSET
    last_event_seq: int | UnsetType | None = UNSET


class PodAttempt(Attempt, frozen=True, kw_only=True):
    """An attempt that a pod made, with the title of its run; null where the run is gone."""

    title: str | None
