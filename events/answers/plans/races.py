"""Races as the HTTP interface shows them: when they start, and where each lane stands."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class RaceLane(Answer, frozen=True, kw_only=True):
    """A lane: its pod, its run once it is submitted, and what that said of the start.

    `state` is waiting, preparing, ready, started, late or dead: ended before it started, or without a pod
    after the start. It started `late_s` after the moment, by the store's clock as its pod knows it up to
    `bound_s`; its own clock was `offset_s` ahead. `problem` says why no pod takes it.
    """

    slot: Count
    pod: str
    run_id: str | None
    status: str | None
    state: str
    ready_at: Moment | None
    started_at: Moment | None
    late_s: float | None
    offset_s: float | None
    bound_s: float | None
    problem: str | None


class RaceStanding(Answer, frozen=True, kw_only=True):
    """A round of a race: `start_at` once that is decided; `skew_s` is how far apart the lanes started.

    Lanes that were late are not counted in `skew_s`, which is null for fewer than two.
    """

    start_at: Moment | None
    skew_s: float | None
    lanes: list[RaceLane]
