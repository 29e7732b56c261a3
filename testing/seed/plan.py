"""What a seed makes: how many of what, when, and by whose hand; the same arguments, the same plan."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from testing.seed import texts
from testing.seed.life import digest, ulid

SPAN: Final = timedelta(days=180)
CHUNK: Final = 500
RUNS_A_HYPOTHESIS: Final = 40
SWEEP: Final = 10  # of which the first is told, the others echo it
SMALL_SWEEP: Final = 2
SMALL_RUNS: Final = 10_000
RUNS_A_POD: Final = 2_000
PODS_MIN: Final = 5
QUIET_EVENTS: Final = 8  # of a probe: three decisions and its own
EXPERIMENT_EVENTS: Final = 24
SHARE_MIN: Final = 0.06
SHARE_MAX: Final = 0.6
WAITING_SHARE: Final = 0.04
LATE_EVERY: Final = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole of a fill; `until` is the moment at which its fleet stands still."""

    seed: int
    runs: int
    events: int
    until: datetime
    long_log: int

    @property
    def pods(self) -> int:
        return max(PODS_MIN, self.runs // RUNS_A_POD)

    @property
    def busy(self) -> int:
        """How many runs are held; each by a pod of its own."""
        return max(1, self.pods * 3 // 4)

    @property
    def waiting(self) -> int:
        return int(self.runs * WAITING_SHARE)

    @property
    def experiment_share(self) -> float:
        """How many of the runs are experiments: as many as the wanted events can tell of."""
        a_run = self.events / max(1, self.runs)
        return min(SHARE_MAX, max(SHARE_MIN, (a_run - QUIET_EVENTS) / EXPERIMENT_EVENTS))

    @property
    def sweep(self) -> int:
        """How many runs share a history: few in a small store, many where time counts."""
        return SMALL_SWEEP if self.runs < SMALL_RUNS else SWEEP

    @property
    def long_run(self) -> int:
        """The number of the run with the long log."""
        return self.runs // 2

    @property
    def chunks(self) -> int:
        return -(-self.runs // CHUNK)

    def numbers(self, chunk: int) -> range:
        """Return the numbers of a chunk's runs; the oldest run has number 0."""
        return range(chunk * CHUNK, min(self.runs, (chunk + 1) * CHUNK))

    def rng(self, *parts: object) -> random.Random:
        """Return the source of chance for one thing, whatever else is made before it."""
        return random.Random(digest("podfleet seed", self.seed, *parts))

    def created_at(self, number: int) -> datetime:
        """Return when a run was submitted: sparse at first, dense towards the end."""
        left = 1 - (number + self.rng("moment", number).random()) / self.runs
        moment = self.until - SPAN * (0.75 * left**2 + 0.25 * left)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def fate(self, number: int) -> str:
        """Say which of the newest runs are held, wait or are delayed; all others are over."""
        age = self.runs - 1 - number
        turn, place = age % LATE_EVERY, age // LATE_EVERY
        if turn == 1 and place < self.busy:
            return "held"
        if turn in (2, 3) and place < self.waiting // 2:
            return "delayed" if place % 5 == 0 and turn == 2 else "queued"
        return "over"

    def echoes(self, number: int) -> int | None:
        """Return which run's history this one shares, None where it has its own."""
        first = number - number % self.sweep
        has_own = number == first or self.long_run in (number, first)
        return None if has_own or {self.fate(number), self.fate(first)} != {"over"} else first

    def run(self, number: int) -> str:
        """Return the id of a run."""
        return ulid(self.created_at(number), self.rng("id", number))

    def pod(self, place: int) -> str:
        """Return the id of a pod that lives now: name and boot."""
        return f"seed{self.seed}-pod-{place:04d}/{digest(self.seed, 'boot', place)[:4]}"

    def past_pod(self, rng: random.Random) -> str:
        """Return some pod that a run was on, of this boot or one long gone."""
        place = rng.randrange(self.pods)
        if rng.random() < 0.3:
            return self.pod(place)
        return f"seed{self.seed}-pod-{place:04d}/{rng.randrange(16):04x}"

    def region(self, place: int) -> str:
        return texts.REGIONS[place % len(texts.REGIONS)]

    def gpu_gib(self, place: int) -> int:
        """Return the memory of a pod's GPU, 0 where it has none."""
        return (0, 0, 24, 24, 80)[place % 5]

    def hypothesis(self, group: int) -> str:
        """Return the id of a hypothesis, which is a little older than its first run."""
        at = self.created_at(min(self.runs - 1, group * RUNS_A_HYPOTHESIS)) - timedelta(hours=1)
        return ulid(at, self.rng("hypothesis", group))
