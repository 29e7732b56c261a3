"""The log of a run as the HTTP interface shows it."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Count, Moment


class LoggedEvent(Answer, frozen=True, kw_only=True):
    """An event of a run's log; `data` is as its type says (`docs/events.md`).

    `position` is its place in the order of arrival. One of a pod has a `sequence`, a decision a `revision`.
    """

    run_id: str
    position: str
    id: str
    source: str
    type: str
    time: str | None
    attempt: Count
    sequence: int | None
    revision: int | None
    data: dict[str, Any]
    traceparent: str | None
    received_at: Moment


class LogPage(Answer, frozen=True, kw_only=True):
    """A page of a log; `next` is the `after` of the next page, null on the last one.

    Of one in the order of arrival, `tail` is the `after` of what is still to come in.
    """

    items: list[LoggedEvent]
    next: str | None
    tail: str | UnsetType | None = UNSET
