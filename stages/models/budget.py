"""The budget of a run, and how much of it is spent.

Law: a question is asked only where its worst price is left, beside the worst prices of those under way. An
answer that was paid for is kept, whatever it cost.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, Self

from msgspec import Meta

from events.catalog import Price
from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.bounds import Amount, Count, read_state
from stages.models.model import Usage
from stages.models.prices import cost_usd

HOUR_S: Final = 3_600.0
CODE: Final = "BUDGET_EXCEEDED"
LOOK_AGAIN_S: Final = 1.0  # the pod's time costs as well
NOISE_USD: Final = 1e-9  # what adding and taking away leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has used up; goes into a checkpoint, and comes back with the next attempt.

    `unpriced` and `estimated` count requests: those without a known price, and those whose
    tokens the server did not count, so that the length of the texts had to stand for them.
    """

    tokens: Annotated[int, Meta(ge=0, le=10**15)] = 0
    model_usd: Amount = 0.0
    pod_usd: Amount = 0.0
    unpriced: Count = 0
    estimated: Count = 0

    @property
    def cost_usd(self) -> float:
        """Return the money, for models and for the pod's time."""
        return self.model_usd + self.pod_usd

    def state(self) -> dict[str, Any]:
        """Return this as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """Return what `state` was made of. Raises `Unreadable`."""
        return read_state(state, cls)


NOTHING: Final = Spent()


class Budget:
    """The limits of one run, and what is spent against them; for any number of threads.

    The pod's time counts from the making of the budget, where its price is known.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        max_cost_usd: float | None = None,
        max_tokens: int | None = None,
        pod_usd_per_hour: float | None = None,
        spent: Spent = NOTHING,
    ) -> None:
        self.max_cost_usd = max_cost_usd
        self.max_tokens = max_tokens
        self._clock = clock
        self._pod_usd_per_hour = pod_usd_per_hour or 0.0
        self._begun_s = clock.monotonic_s()
        self._spent = spent
        self._reserved_usd = 0.0
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)

    @property
    def is_limited(self) -> bool:
        """Return whether anything that is spent can end the run."""
        return self.max_cost_usd is not None or self.max_tokens is not None

    def spent(self) -> Spent:
        """Return what is spent until now, the pod's time included."""
        with self._lock:
            return self._spent_now()

    def charge(self, usage: Usage, price: Price | None, *, is_estimate: bool = False) -> None:
        """Count one request; tokens that are not known count nothing."""
        cost = cost_usd(price, usage)
        with self._lock:
            self._spent = replace(
                self._spent,
                tokens=self._spent.tokens + (usage.prompt_tokens or 0) + (usage.completion_tokens or 0),
                model_usd=self._spent.model_usd + (cost or 0.0),
                unpriced=self._spent.unpriced + (price is None),
                estimated=self._spent.estimated + is_estimate,
            )

    def check(self) -> None:
        """Let the run go on. Raises `PipelineError` BUDGET_EXCEEDED where more is spent than allowed."""
        spent = self.spent()
        if self.max_cost_usd is not None and spent.cost_usd > self.max_cost_usd:
            raise self._too_dear(spent)
        if self.max_tokens is not None and spent.tokens > self.max_tokens:
            raise self._too_many(spent)

    def check_before_asking(self, *, is_free: bool = False) -> None:
        """Let a question be asked: as `check`, and there has to be something left to ask it for."""
        self.check()
        spent = self.spent()
        if self.max_cost_usd is not None and spent.cost_usd >= self.max_cost_usd and not is_free:
            raise self._too_dear(spent)
        if self.max_tokens is not None and spent.tokens >= self.max_tokens:
            raise self._too_many(spent)

    @contextmanager
    def reserved(self, worst_usd: float) -> Iterator[None]:
        """Hold the worst price of a question while it is asked and charged.

        Where it does not fit beside those under way, it waits for one of them to end. Raises `PipelineError`
        BUDGET_EXCEEDED where it would pass the limit all the same.
        """
        with self._freed:
            while not self._fits(worst_usd):
                if not self._reserved_usd:
                    raise self._not_begun(self._spent_now(), worst_usd)
                self._freed.wait(LOOK_AGAIN_S)
            self._reserved_usd += worst_usd
        try:
            yield
        finally:
            with self._freed:
                self._reserved_usd -= worst_usd
                if self._reserved_usd < NOISE_USD:
                    self._reserved_usd = 0.0
                self._freed.notify_all()

    def affords(self, worst_usd: float, most: int) -> int:
        """Return how many requests of this worst price are left, at least one and at most `most`."""
        if self.max_cost_usd is None or not worst_usd:
            return most
        with self._lock:
            left_usd = self.max_cost_usd - self._spent_now().cost_usd - self._reserved_usd
        return max(1, min(most, int(left_usd / worst_usd)))

    def time_left_s(self) -> float:
        """Return for how many seconds the pod's time may go on, beside the prices of questions under way."""
        if self.max_cost_usd is None or not self._pod_usd_per_hour:
            return math.inf
        with self._lock:
            left_usd = self.max_cost_usd - self._spent_now().cost_usd - self._reserved_usd
        return max(0.0, left_usd / self._pod_usd_per_hour * HOUR_S)

    def _fits(self, worst_usd: float) -> bool:
        """Say whether a price is left; the lock is held."""
        if self.max_cost_usd is None:
            return True
        return self._spent_now().cost_usd + self._reserved_usd + worst_usd <= self.max_cost_usd

    def _spent_now(self) -> Spent:
        """Return what is spent until now; the lock is held."""
        hours = (self._clock.monotonic_s() - self._begun_s) / HOUR_S
        return replace(self._spent, pod_usd=self._spent.pod_usd + hours * self._pod_usd_per_hour)

    def _not_begun(self, spent: Spent, worst_usd: float) -> PipelineError:
        return PipelineError(
            CODE,
            f"{spent.cost_usd:.6g} of {self.max_cost_usd:.6g} USD (max_cost_usd) are spent: "
            f"{spent.model_usd:.6g} for models, {spent.pod_usd:.6g} for the pod's time. "
            f"The next question may cost {worst_usd:.6g} USD, so it is not asked. "
            "What the run has made so far is kept; run it again with a greater max_cost_usd to go further",
        )

    def _too_dear(self, spent: Spent) -> PipelineError:
        return PipelineError(
            CODE,
            f"{spent.cost_usd:.6g} of {self.max_cost_usd:.6g} USD (max_cost_usd) are spent: "
            f"{spent.model_usd:.6g} for models, {spent.pod_usd:.6g} for the pod's time. "
            "What the run has made so far is kept; run it again with a greater max_cost_usd to go further",
        )

    def _too_many(self, spent: Spent) -> PipelineError:
        return PipelineError(
            CODE,
            f"{spent.tokens} of {self.max_tokens} tokens (max_tokens) are spent. "
            "What the run has made so far is kept; run it again with a greater max_tokens to go further",
        )
