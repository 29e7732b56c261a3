"""What the laps of a prompt came to, pure: a row for each, and their means."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from events.kinds.prompt import MEASURED
from events.kinds.results import Value
from stages.engines.chat.asking import Answer


@dataclass(slots=True)
class Tally:
    """The laps so far."""

    rows: list[Mapping[str, Value]] = field(default_factory=list)

    def add(self, answer: Answer) -> Mapping[str, Value]:
        """Take an answer, and return its row."""
        row = {"lap": len(self.rows) + 1, **row_of(answer)}
        self.rows.append(row)
        return row

    def headline(self) -> Mapping[str, Value]:
        """Return the means of what was measured; what no lap has is None."""
        return {**{each.name: self._mean(each.name) for each in MEASURED}, "laps": len(self.rows)}

    def _mean(self, name: str) -> float | None:
        found = [row.get(name) for row in self.rows]
        numbers = [each for each in found if isinstance(each, int | float)]
        return statistics.fmean(numbers) if numbers else None


def row_of(answer: Answer) -> Mapping[str, Value]:
    """Return the numbers of an answer by the names of their columns."""
    gaps, own_s, ttft_s = answer.gaps_s, answer.own_ttft_s, answer.ttft_s
    return {
        "tokens_per_s": answer.tokens_per_s,
        "ttft_s": ttft_s,
        "total_s": answer.total_s,
        "itl_p50_s": statistics.median(gaps) if gaps else None,
        "itl_max_s": max(gaps, default=None),
        "tokens": answer.tokens,
        "prompt_tokens": answer.prompt_tokens,
        "cached_tokens": answer.cached_tokens,
        "engine_ttft_s": own_s,
        "engine_tokens_per_s": answer.own_tokens_per_s,
        "ttft_off_s": None if own_s is None or ttft_s is None else ttft_s - own_s,
        "tokens_from": answer.tokens_from,
        "ends": answer.reason or None,
        "chars": answer.chars,
        "bytes": len(answer.text),
        "replaced": answer.replaced,
    }
