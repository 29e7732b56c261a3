"""Races as the HTTP interface shows them: when they start, and where each lane stands."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from events.answers.answer import Amount, Answer, Count, Moment
from events.answers.pods import Sample


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


class RaceNumber(Answer, frozen=True, kw_only=True):
    """A number of a lane over its laps: mean, standard deviation, and the ends of its 95 % t interval.

    Of a single lap there is neither deviation nor interval.
    """

    mean: float
    sd: float | None
    n: Count
    low: float | None
    high: float | None


class RaceLap(Answer, frozen=True, kw_only=True):
    """What a lane measured in one lap, by the names of the headline numbers."""

    lap: Count
    values: dict[str, Amount]


class RaceMachine(Answer, frozen=True, kw_only=True):
    """What a lane ran on, as its pod tells it; memory in MiB, that of the largest GPU for several."""

    worker: str
    device: str | None
    cpu: str | None
    cpus: int | None
    memory_mib: Amount | None
    gpus: list[str]
    gpu_memory_mib: Amount | None
    labels: dict[str, str]


class RacedLane(RaceLane, frozen=True, kw_only=True):
    """A lane with what it measured; `figures` are its headline numbers, over `laps` or of its run's summary.

    It ended `finish_s` after the start. `place` counts from 1; a lane that was late, or did not
    succeed, has none. `failure` says why it failed.
    """

    parameters: dict[str, Any]
    attempt: Count
    finished_at: Moment | None
    finish_s: float | None
    laps: list[RaceLap]
    figures: dict[str, RaceNumber]
    place: int | None
    failure: str | None
    machine: RaceMachine | None


class RaceMeasure(Answer, frozen=True, kw_only=True):
    """The number that decides a race; of `direction` lower or higher values win."""

    name: str
    unit: str
    direction: str


class RaceVerdict(Answer, frozen=True, kw_only=True):
    """Who won a race by how much: `value` is by how much the mean of the first is better than the second's.

    `low` and `high` are the ends of its 95 % interval by `method`, null for single laps. It is decided where
    the interval is above zero; `says` tells all of it in a sentence. `percent` is of the second's mean.
    """

    method: str
    decided: bool
    says: str
    winner: str | None = None
    second: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    percent: float | None = None


class RaceLeader(Answer, frozen=True, kw_only=True):
    """The lane with the best measure so far of those that started in time and succeeded."""

    pod: str
    value: Amount


class RaceRow(Answer, frozen=True, kw_only=True):
    """A race as lists show it: its present round, and who leads by the summaries of the runs."""

    id: str
    kind: str
    status: str
    round: Count
    pods: list[str]
    measure: RaceMeasure
    leader: RaceLeader | None
    start_at: Moment | None
    created_by: str
    created_at: Moment


class RaceRound(Answer, frozen=True, kw_only=True):
    """A round of a race, and when it began."""

    round: Count
    status: str
    since: Moment


class Race(Answer, frozen=True, kw_only=True):
    """A round of a race: what was asked of every lane, how each stands, and who won.

    `rounds` are all rounds that are known, the present one last.
    """

    id: str
    kind: str
    status: str
    round: Count
    rounds: list[RaceRound]
    spec: dict[str, Any]
    measure: RaceMeasure
    ready_s: float
    limit_s: float
    start_at: Moment | None
    skew_s: float | None
    lanes: list[RacedLane]
    verdict: RaceVerdict
    revision: Count
    created_by: str
    created_at: Moment
    since: Moment


class FitNumbers(Answer, frozen=True, kw_only=True):
    """The memory of a machine and what a model needs of it; `ratio` is usable by peak."""

    memory_bytes: int | None = None
    usable_bytes: int | None = None
    peak_bytes: int | None = None
    ratio: float | None = None


class RaceCheck(Answer, frozen=True, kw_only=True):
    """One check of a lane: its grade GOOD, RISK or FAIL, and why.

    `name` is reachable, kind, cordoned, busy, engine, model or memory.
    """

    name: str
    grade: str
    says: str
    numbers: FitNumbers | UnsetType = UNSET


class LaneChecks(Answer, frozen=True, kw_only=True):
    """The checks of a lane before a race; its grade is that of the worst."""

    pod: str
    parameters: dict[str, Any]
    grade: str
    checks: list[RaceCheck]


class RaceChecks(Answer, frozen=True, kw_only=True):
    """The checks of all lanes, in their order; the grade is that of the worst lane."""

    grade: str
    measure: RaceMeasure
    lanes: list[LaneChecks]


class LaneSamples(Answer, frozen=True, kw_only=True):
    """What the machine of a lane had in use lately, the earliest first."""

    pod: str
    samples: list[Sample]


class RaceSamples(Answer, frozen=True, kw_only=True):
    """The samples of the machines of a race, in the order of the lanes."""

    lanes: list[LaneSamples]
