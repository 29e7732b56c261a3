"""What a measurement came to: counts, errors by name, latencies as histograms that can be merged; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from stages.engines.load.histogram import Histogram
from stages.engines.load.plan import Limits
from stages.engines.load.prompts import Scale

LATENCIES: Final = ("ttft", "tpot", "itl", "e2e", "late")
SAID_CHARS_MAX: Final = 500

# A server that says more tokens than there were characters is not believed.
TokensFrom = Literal[
    "usage", "counted from chunks", "counted from chunks: usage is more than was sent", "genai-bench"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One request: when it was due, sent, first answered and ended; `failure` is empty where it was answered.

    Its times count from `timed_s`: when it was due, or in a closed loop, where it is due at no moment, sent.
    `tokens_in` is what was wanted where the server counts nothing, and `tokens_out` the number of pieces.
    """

    due_s: float
    sent_s: float
    timed_s: float
    ended_s: float
    first_s: float | None = None
    gaps_s: tuple[float, ...] = ()
    wanted_in: int
    tokens_in: int
    tokens_out: int = 0
    is_counted: bool = False
    is_beyond: bool = False  # the server counted more than it was sent
    failure: str = ""
    said: str = ""
    id: str = ""

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token."""
        return None if self.first_s is None else self.first_s - self.timed_s

    @property
    def e2e_s(self) -> float:
        """Time to the end of the answer."""
        return self.ended_s - self.timed_s

    @property
    def tpot_s(self) -> float | None:
        """Time for each token behind the first."""
        if self.first_s is None or self.tokens_out < 2:
            return None
        return (self.ended_s - self.first_s) / (self.tokens_out - 1)

    def is_within(self, limits: Limits) -> bool:
        """Return whether it was answered, and as fast as asked; a limit on what it has not is kept."""
        pairs = ((self.ttft_s, limits.ttft_s), (self.tpot_s, limits.tpot_s), (self.e2e_s, limits.e2e_s))
        return not self.failure and all(
            taken is None or limit is None or taken <= limit for taken, limit in pairs
        )


@dataclass(slots=True, kw_only=True)
class Measurement:
    """The figures of one load. Latencies and tokens are those of requests that were answered.

    `said` has the first words of the server to each failure, and `processor_s` what the client itself used.
    `by` is who made it, where it was not the own client: how late that was, and what it used, is not known.
    """

    limits: Limits = field(default_factory=Limits)
    scale: Scale = field(default_factory=Scale)
    by: Literal["", "genai-bench"] = ""
    requests: int = 0
    good: int = 0
    uncounted: int = 0
    beyond: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    wanted_in: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0
    warmup_errors: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    said: dict[str, str] = field(default_factory=dict)
    latencies: dict[str, Histogram] = field(default_factory=lambda: {each: Histogram() for each in LATENCIES})

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """Return the measurement of several, made one after the other with the same limits."""
        first, *others = parts
        whole = cls(limits=first.limits, scale=first.scale, by=first.by)
        for part in (first, *others):
            for name in (
                *("requests", "good", "uncounted", "beyond", "tokens_in", "tokens_out", "wanted_in"),
                *("seconds", "processor_s", "warmup_errors"),
            ):
                setattr(whole, name, getattr(whole, name) + getattr(part, name))
            whole.failures.update(part.failures)
            whole.said = part.said | whole.said
            for name, histogram in whole.latencies.items():
                histogram.merge(part.latencies[name])
        return whole

    @property
    def errors(self) -> int:
        """How many requests were not answered."""
        return self.failures.total()

    @property
    def tokens_from(self) -> TokensFrom:
        """Who counted the tokens: the server, of each answer, or we, by pieces; else who made the figures."""
        if self.by:
            return self.by
        if self.beyond:
            return "counted from chunks: usage is more than was sent"
        return "counted from chunks" if self.uncounted else "usage"

    def add(self, answered: Answered) -> None:
        """Take one request in."""
        self.requests += 1
        if not self.by:
            self.latencies["late"].add(answered.sent_s - answered.due_s)
        if answered.failure:
            self.failures[answered.failure] += 1
            self.said.setdefault(answered.failure, answered.said[:SAID_CHARS_MAX])
            return
        self.good += answered.is_within(self.limits)
        self.uncounted += not answered.is_counted
        self.beyond += answered.is_beyond
        self.tokens_in += answered.tokens_in
        self.tokens_out += answered.tokens_out
        self.wanted_in += answered.wanted_in
        for name, taken_s in (
            *(("ttft", answered.ttft_s), ("tpot", answered.tpot_s), ("e2e", answered.e2e_s)),
            *(("itl", each) for each in answered.gaps_s),
        ):
            if taken_s is not None:
                self.latencies[name].add(taken_s)

    def values(self) -> dict[str, float]:
        """Return all figures by their names; a latency of which there is none is left out."""
        seconds = max(self.seconds, 1e-9)
        answered = self.requests - self.errors
        figures: dict[str, float] = {
            "requests": self.requests,
            "errors": self.errors,
            "error_rate": self.errors / max(1, self.requests),
            "seconds": self.seconds,
            "requests_per_s": answered / seconds,
            "goodput_per_s": self.good / seconds,
            "good_rate": self.good / max(1, self.requests),
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "tokens_in_per_s": self.tokens_in / seconds,
            "tokens_out_per_s": self.tokens_out / seconds,
            "tokens_per_s": (self.tokens_in + self.tokens_out) / seconds,
            "tokens_in_off": self.tokens_in / self.wanted_in - 1 if self.wanted_in else 0.0,
            "warmup_errors": self.warmup_errors,
        }
        if not self.by:
            figures["client_cores"] = self.processor_s / seconds
        for name, histogram in self.latencies.items():
            figures |= histogram.values(name)
        return figures
