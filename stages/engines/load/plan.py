"""What a measurement asks for: of which server, which traffic, how much of it, and for how long; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from events.text.traffic import Scenario, TextScenario

CONCURRENCY_MAX: Final = 1_024
RATE_MAX_PER_S: Final = 10_000.0
REQUESTS_MAX: Final = 100_000
WARMUP_MAX: Final = 10_000
LIMIT_S_MAX: Final = 86_400.0
PREFIX_TOKENS_MAX: Final = 1_000_000
NAME_CHARS_MAX: Final = 1_000

Arrivals = Literal["poisson", "constant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an answer has to keep to be counted as good; None asks for nothing."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server with the API of OpenAI, to `/v1`; without `takes_ignore_eos` answers may be short.

    Raises `ValueError` for what is no address, and for a key that no header can hold.
    """

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    takes_ignore_eos: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("the address of a server is http://HOST:PORT/v1")
        if not 0 < len(self.model) <= NAME_CHARS_MAX:
            raise ValueError(f"the name of a model has 1 to {NAME_CHARS_MAX:,} characters")
        if not (self.key.isascii() and self.key.isprintable()) or " " in self.key:
            raise ValueError("a key has no spaces and no letters beyond ASCII")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One measurement: either `concurrency` requests at any time, or `rate_per_s` whatever the answers do.

    It ends after `requests`, or after `limit_s`; what comes before (the scale of prompts, `warmup` requests)
    takes `limit_s` at most, too. One request takes `request_s` at most. Prompts follow from `seed` and load:
    a repeat on the same server takes another seed, else a cache answers. Raises `ValueError` with words.
    """

    scenario: Scenario
    concurrency: int | None = None
    rate_per_s: float | None = None
    arrivals: Arrivals = "poisson"
    requests: int = 100
    limit_s: float = 300.0
    request_s: float = 120.0
    warmup: int = 0
    seed: int = 0
    shared_prefix_tokens: int = 0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if problem := next(self._problems(), None):
            raise ValueError(problem)

    @property
    def lengths(self) -> TextScenario:
        """The scenario as one whose lengths can be drawn, which each load has."""
        assert isinstance(self.scenario, TextScenario)
        return self.scenario

    @property
    def name(self) -> str:
        """What a reader and the seed of prompts tell this load by."""
        pace = f"{self.concurrency} at once" if self.concurrency else f"{self.rate_per_s:g}/s {self.arrivals}"
        return f"{self.scenario}, {pace}"

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.scenario, TextScenario):
            asks = self.scenario.asks
            yield f"{self.scenario} asks for {asks}, which no client here speaks: take D, N, U or E"
        if (self.concurrency is None) == (self.rate_per_s is None):
            yield "a load has either a concurrency or a rate"
        if self.concurrency is not None and not 1 <= self.concurrency <= CONCURRENCY_MAX:
            yield f"concurrency is from 1 to {CONCURRENCY_MAX:,}"
        if self.rate_per_s is not None and not 0 < self.rate_per_s <= RATE_MAX_PER_S:
            yield f"a rate is above 0 and at most {RATE_MAX_PER_S:,.0f} a second"
        if not 1 <= self.requests <= REQUESTS_MAX:
            yield f"requests are from 1 to {REQUESTS_MAX:,}"
        if not 0 <= self.warmup <= WARMUP_MAX:
            yield f"requests before the figures are from 0 to {WARMUP_MAX:,}"
        if not (0 < self.limit_s <= LIMIT_S_MAX and 0 < self.request_s <= LIMIT_S_MAX):
            yield f"a limit is above 0 and at most {LIMIT_S_MAX:,.0f} s"
        if not 0 <= self.shared_prefix_tokens <= PREFIX_TOKENS_MAX:
            yield f"a shared prefix has from 0 to {PREFIX_TOKENS_MAX:,} tokens"
