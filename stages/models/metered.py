"""A model with metered requests: the budget is checked before each, and its cost is an event after it.

Law: one `ai.run.usage` for each request that was billed, whatever its result was, so that the sum of the
events is the server's own count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from events.catalog import Price, RunLog, RunUsage
from events.kinds.declaring.fact import Fact
from stages.models.budget import Budget
from stages.models.model import Answer, Model, ModelError, Question, QuestionCanceled, Usage
from stages.models.prices import Prices, cost_usd

FRAME_TOKENS_MAX: Final = 64  # what a server puts around the texts
CHARS_PER_TOKEN: Final = 4  # of English text and code, roughly: for servers that do not count


@dataclass(frozen=True, slots=True)
class Metered:
    """A model within a budget, for any number of threads."""

    model: Model
    budget: Budget
    prices: Prices
    emit: Callable[[Fact], None]
    keep: Callable[[], object] = lambda: None  # called after each bill: what is spent has changed
    _said: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)
    _saying: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.model.name

    def ask(self, question: Question) -> Answer:
        """Ask. Raises `ModelError`, and `PipelineError` BUDGET_EXCEEDED where nothing is left to ask for."""
        price = self._price()
        self.budget.check_before_asking(is_free=_is_free(price))
        worst_usd = cost_usd(price, worst_usage(question)) or 0.0
        requests = self.budget.affords(worst_usd, question.requests_max)
        with self.budget.reserved(worst_usd * requests):
            try:
                answer = self.model.ask(replace(question, requests_max=requests))
            except (ModelError, QuestionCanceled) as error:
                for usage in error.usages:
                    self._bill(question, usage, price, "")
                raise
            for usage in answer.billed_before:
                self._bill(question, usage, price, "")
            self._bill(question, answer.usage, price, answer.text)
        return answer

    def lost(self, question: Question) -> None:
        """Bill a request of which nobody knows whether it was answered: its prompt counts."""
        self._bill(
            question, Usage(prompt_tokens=None, completion_tokens=None, seconds=0.0), self._price(), ""
        )

    def _bill(self, question: Question, usage: Usage, price: Price | None, text: str) -> None:
        counted = _estimated(question, usage, text)
        self.budget.charge(counted, price, is_estimate=counted != usage)
        self.emit(
            RunUsage(
                purpose=question.purpose,
                model=self.name,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                seconds=round(usage.seconds, 3),
                cost_usd=cost_usd(price, usage),
                price=price,
            )
        )
        self.keep()

    def _price(self) -> Price | None:
        """Return the model's price; log once where there is none."""
        price = self.prices.of(self.name)
        if price is None:
            with self._saying:
                is_first = not self._said.is_set()
                self._said.set()
            if is_first:
                self.emit(RunLog(message=self._no_price(), level="warning"))
        return price

    def _no_price(self) -> str:
        known = f"no price is known for the model {self.name}: its tokens are counted, its cost is not"
        hint = "a file named by PODFLEET_PRICES can name it"
        if self.budget.max_cost_usd is None:
            return f"{known}; {hint}"
        return f"{known}, so max_cost_usd does not limit it (max_tokens does); {hint}"


def worst_usage(question: Question) -> Usage:
    """Return the most that one request may use: no token is shorter than a byte, an answer has a limit."""
    prompt_bytes = len((question.system + question.text).encode("utf-8", "replace"))
    return Usage(
        prompt_tokens=prompt_bytes + FRAME_TOKENS_MAX, completion_tokens=question.tokens_max, seconds=0.0
    )


def _is_free(price: Price | None) -> bool:
    return price is not None and not price.input_usd_per_mtok and not price.output_usd_per_mtok


def _estimated(question: Question, usage: Usage, text: str) -> Usage:
    """Return `usage` with the length of the texts where the server did not count."""
    prompt_tokens = -(-len(question.system + question.text) // CHARS_PER_TOKEN)
    answered = -(-len(text) // CHARS_PER_TOKEN)
    return replace(
        usage,
        prompt_tokens=prompt_tokens if usage.prompt_tokens is None else usage.prompt_tokens,
        completion_tokens=answered if usage.completion_tokens is None else usage.completion_tokens,
    )
