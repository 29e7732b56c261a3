"""Projects as the HTTP interface shows them: their limits, what they have used, and what is left of both."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class ProjectQuotas(Answer, frozen=True, kw_only=True):
    """The limits of a project: GPUs at once, GPU hours and dollars of a calendar month; null: no limit."""

    gpus: int | None
    gpu_hours: float | None
    usd: float | None


class Project(Answer, frozen=True, kw_only=True):
    """A project, `id` is its name: its weight, its quotas, and what it has used.

    `recent_gpu_hours` count half after each half-life: of two projects that wait, the one with less of them
    for its weight is asked first. `share` is its part of those of all. `gpus`, `gpu_hours` and `usd` are held
    against the quotas: GPUs of its runs now, and what this month has used. `waiting` are its runs in the
    queue, more where that `is_partial`. Pods claim no run of one that is `closed`, for that reason.
    """

    id: str
    weight: float
    quotas: ProjectQuotas
    recent_gpu_hours: float
    share: float
    gpus: Count
    gpu_hours: float
    usd: float
    waiting: Count
    is_partial: bool
    closed: str | None
    told_at: Moment | None
    set_by: str | None
    set_at: Moment | None
    created_at: Moment | None
