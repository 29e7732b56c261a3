"""The port of a language model: a prompt in, text and its cost out.

Law: an adapter gives up in bounded time and reports its failure. It never retries for ever, and it reports
every request that was billed, also a failed one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from events.runtime.errors import Canceled

ANSWER_TOKENS_MAX: Final = 8_192
REQUESTS_MAX: Final = 4  # as many as are tried where each may have been billed

# What kind of failure it was, all retries spent: what the caller can do about it differs.
Trouble = Literal[
    "unreachable",  # no connection, or the server's own error (5xx)
    "timed_out",
    "rate_limited",  # too many requests, or the server is overloaded
    "quota",  # the account has no money left
    "unauthorised",
    "refused",  # the request is wrong, or the model will not answer it
    "cut_off",  # only where a whole answer was needed: `Answer.is_cut_off` is no error in itself
    "malformed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and what for (`purpose`, as the usage events name it).

    Of `requests_max` requests that may be billed each, the last one's failure ends the question.
    """

    purpose: str
    system: str
    text: str
    temperature: float = 0.7
    tokens_max: int = ANSWER_TOKENS_MAX
    requests_max: int = REQUESTS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The cost of one request, by the server's own count; None where the server did not report it.

    A request whose answer never came, and that the server may have billed, has None in both.
    """

    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; `is_cut_off` where the model stopped at the limit of tokens.

    `billed_before` are earlier requests for the same question that were billed and gave no answer.
    """

    text: str
    usage: Usage
    is_cut_off: bool = False
    billed_before: tuple[Usage, ...] = ()

    @property
    def usages(self) -> tuple[Usage, ...]:
        """Return every request that was billed for this answer."""
        return (*self.billed_before, self.usage)


class ModelError(Exception):
    """A question has no answer; `usages` are the requests that were billed on the way."""

    def __init__(self, trouble: Trouble, message: str, usages: tuple[Usage, ...] = ()) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble
        self.message = message
        self.usages = usages


class QuestionCanceled(Canceled):
    """The pipeline was asked to stop while a request was open; `usages` as in `ModelError`."""

    def __init__(self, reason: str, usages: tuple[Usage, ...]) -> None:
        super().__init__(reason)
        self.usages = usages


class Model(Protocol):
    """One model at one endpoint; `name` is what prices are looked up by."""

    @property
    def name(self) -> str: ...

    def ask(self, question: Question) -> Answer:
        """Answer in bounded time. Raises `ModelError`."""
        ...
