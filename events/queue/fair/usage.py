"""What projects have used, and what that means for their shares and quotas, pure.

Two sums are kept of each project. One halves in `half_life_s`, and decides whose turn it is. The other is
that of the calendar month in UTC, and is held against the quotas. What runs now is added at each look.
Law: an attempt and a cost are added once, in the order of the cursor that is stored beside the sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from events.queue.fair.shares import CLAIM_S, DEFAULT

HALF_LIFE_S: Final = 24 * 3600.0
HOUR_S: Final = 3600.0
SECONDS_MAX: Final = 366 * 24 * 3600.0  # of one attempt
WEIGHT_MAX: Final = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The limits of a project: GPUs at once, GPU hours and dollars of a calendar month; None: no limit."""

    gpus: int | None = None
    gpu_hours: float | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as it is set."""

    name: str
    weight: float = 1.0
    quotas: Quotas = field(default_factory=Quotas)


@dataclass(frozen=True, slots=True)
class Held:
    """A time in which a run had a pod, and how many GPUs; without `ended_at` it has them now."""

    project: str
    gpus: int
    claimed_at: datetime
    ended_at: datetime | None = None

    def seconds(self, now: datetime, since: datetime | None = None) -> float:
        """Return how long it lasted by `now`, or the part of that since then; an odd time is none."""
        begun = self.claimed_at if since is None else max(self.claimed_at, since)
        return min(max(0.0, ((self.ended_at or now) - begun).total_seconds()), SECONDS_MAX)

    @property
    def size(self) -> int:
        """How many GPUs it counts as: a run without any has the pod all the same."""
        return max(1, self.gpus)


@dataclass(frozen=True, slots=True)
class Used:
    """The sums of one project; `decayed` is as of the moment of the sums."""

    decayed: float = 0.0  # GPU seconds
    gpu_s: float = 0.0  # of the month
    usd: float = 0.0  # of the month


NOTHING: Final = Used()


@dataclass(frozen=True, slots=True)
class ProjectSums:
    """The sums of all projects as of `at`, of which `month` is the month."""

    at: datetime
    used: Mapping[str, Used] = field(default_factory=dict)

    @property
    def month(self) -> datetime:
        """When the month of the sums began."""
        return month_of(self.at)


def month_of(moment: datetime) -> datetime:
    """Return when the calendar month of a moment began, in UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(moment: datetime) -> datetime:
    """Return when the next calendar month begins."""
    begun = month_of(moment)
    return begun.replace(year=begun.year + begun.month // 12, month=begun.month % 12 + 1)


def at_moment(sums: ProjectSums, now: datetime, half_life_s: float = HALF_LIFE_S) -> ProjectSums:
    """Return the sums as of `now`: what is older counts less, and a new month begins at nothing."""
    now = max(now, sums.at)
    factor = 0.5 ** ((now - sums.at).total_seconds() / half_life_s)
    is_new = month_of(now) != sums.month
    used = {
        name: Used(each.decayed * factor, 0.0 if is_new else each.gpu_s, 0.0 if is_new else each.usd)
        for name, each in sums.used.items()
    }
    return ProjectSums(now, used)


def with_held(sums: ProjectSums, held: Iterable[Held], half_life_s: float = HALF_LIFE_S) -> ProjectSums:
    """Return the sums with these times, of those without an end what they lasted by now.

    A claim of just now counts as `CLAIM_S` at once, so that a project does not take all free pods.
    """
    used, now = dict(sums.used), sums.at
    for each in held:
        ended = min(each.ended_at or now, now)
        seconds = each.seconds(now) if each.ended_at is not None else max(CLAIM_S, each.seconds(now))
        factor = 0.5 ** ((now - ended).total_seconds() / half_life_s)
        in_month = each.gpus * each.seconds(now, sums.month)
        old = used.get(each.project, NOTHING)
        used[each.project] = replace(
            old, decayed=old.decayed + each.size * seconds * factor, gpu_s=old.gpu_s + in_month
        )
    return ProjectSums(now, used)


def with_costs(sums: ProjectSums, costs: Iterable[tuple[str, float]]) -> ProjectSums:
    """Return the sums with these costs of the month, by project, in dollars."""
    used = dict(sums.used)
    for project, usd in costs:
        old = used.get(project, NOTHING)
        if math.isfinite(usd) and usd > 0:
            used[project] = replace(old, usd=old.usd + usd)
    return ProjectSums(sums.at, used)


def over(project: Project, used: Used, gpus: int, now: datetime) -> str | None:
    """Return in words which quota of the month a project has used up, None if it has not."""
    quotas, until = project.quotas, f"until {next_month(now):%Y-%m-%d}"
    if quotas.gpu_hours is not None and used.gpu_s / HOUR_S >= quotas.gpu_hours:
        hours = used.gpu_s / HOUR_S
        return f"its quota of {quotas.gpu_hours:g} GPU hours a month, {until}: {hours:.1f} are used"
    if quotas.usd is not None and used.usd >= quotas.usd:
        return f"its quota of {quotas.usd:g} USD a month, {until}: {used.usd:.2f} are spent"
    if quotas.gpus is not None and gpus >= quotas.gpus:
        return f"its quota of {quotas.gpus} GPUs: {gpus} run now"
    return None


def shares(
    projects: Iterable[Project], sums: ProjectSums, running: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return what pods are told of each project; `running` is how many GPUs its runs have now."""
    known = {each.name: each for each in projects}
    known.setdefault(DEFAULT, Project(name=DEFAULT))
    return [_told(each, sums, running.get(each.name, 0)) for each in known.values()]


def _told(project: Project, sums: ProjectSums, gpus: int) -> dict[str, Any]:
    used, most = sums.used.get(project.name, NOTHING), project.quotas.gpus
    return {
        "name": project.name,
        "weight": project.weight,
        "used": used.decayed,
        "gpuS": used.gpu_s,
        "usd": used.usd,
        "gpus": gpus,
        "free": None if most is None else most - gpus,
        "closed": over(project, used, gpus, sums.at),
    }
