"""A model behind the chat completions API of OpenAI, which most other servers have too.

Law: the SDK sends, and nothing else: retries are ours, and its answer is read by us.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import httpx2
import msgspec
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, OpenAIError
from openai.types.chat import ChatCompletionMessageParam

from events.runtime.allowed_addresses import AddressRefused
from events.runtime.egress_policy import EgressPolicy
from stages.adapters.models.endpoint import (
    Count,
    client,
    decoded,
    limits_of,
    no_answer,
    refusal,
    shown,
    text_of,
    words_of,
)
from stages.adapters.models.line import Key, Line
from stages.adapters.models.retrier import Retrier, TryFailed
from stages.models.model import Answer, Question, Usage

OWN_HOST: Final = "api.openai.com"

Limit = Literal["max_tokens", "max_completion_tokens"]


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None


class _Bill(msgspec.Struct):
    usage: _Usage | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How this server wants to be asked; found out by being refused."""

    limit: Limit
    is_limit_settled: bool = False
    has_temperature: bool = True

    def parameters(self, question: Question) -> dict[str, Any]:
        """Return the parameters that servers differ in."""
        parameters: dict[str, Any] = {self.limit: question.tokens_max}
        if self.has_temperature:
            parameters["temperature"] = question.temperature
        return parameters

    def mended(self, words: str) -> Dialect | None:
        """Return the dialect that a refusal in these words asks for; None where it asks for none."""
        if self.has_temperature and "temperature" in words:
            return replace(self, has_temperature=False)
        if not self.is_limit_settled and "max_completion_tokens" in words:
            other: Limit = "max_tokens" if self.limit == "max_completion_tokens" else "max_completion_tokens"
            return replace(self, limit=other, is_limit_settled=True)
        return None


def dialect_of(base_url: str) -> Dialect:
    """Return how to begin: older servers do not know the newer name, and let the model go on for ever."""
    is_own = urlsplit(base_url).hostname == OWN_HOST
    return Dialect("max_completion_tokens" if is_own else "max_tokens")


@dataclass(slots=True, kw_only=True)
class OpenAiModel:
    """One model at one endpoint, for any number of threads; its connections are kept until `close`."""

    model: str
    base_url: str
    api_key: Key = field(repr=False)
    retrier: Retrier
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    is_direct: bool = False
    _dialect: Dialect = field(init=False, repr=False)
    _line: Line[AsyncOpenAI] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._dialect = dialect_of(self.base_url)
        self._line = Line(self._sdk)

    @property
    def name(self) -> str:
        return self.model

    def ask(self, question: Question) -> Answer:
        """Answer in bounded time. Raises `ModelError`."""
        return self.retrier.ask(partial(self._send, question), requests_max=question.requests_max)

    def close(self) -> None:
        """Close its connections; nothing is asked at that time."""
        self._line.close()

    def _send(self, question: Question, seconds: float) -> Answer:
        clock = self.retrier.clock
        begun_s = clock.monotonic_s()
        dialect = self._dialect
        try:
            body = self._line.request(
                seconds, partial(self._request, question, dialect, seconds), self.retrier.stop
            )
        except APIStatusError as error:
            words = words_of(error.body, str(error))
            if error.status_code in (400, 422) and (other := dialect.mended(words)):
                self._dialect = other
                raise TryFailed("refused", shown(words), is_mended=True) from error
            raise refusal(
                error.status_code, error.response, words, setting="OPENAI_API_KEY", now=clock.now()
            ) from error
        except TimeoutError as error:  # ours; its cause is only how asyncio ended the request
            raise no_answer(error, self._lost(begun_s)) from error
        except (APIConnectionError, AddressRefused) as error:  # a time-out of the SDK's own is one too
            raise no_answer(error.__cause__ or error, self._lost(begun_s)) from error
        except (OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise TryFailed("refused", f"the request cannot be sent: {shown(str(error))}") from error
        return read(body, self._lost(begun_s))

    async def _request(self, question: Question, dialect: Dialect, seconds: float, sdk: AsyncOpenAI) -> bytes:
        sdk.api_key = self.api_key()
        answer = await sdk.chat.completions.with_raw_response.create(
            model=self.model,
            messages=_messages(question),
            extra_body=dialect.parameters(question),
            timeout=limits_of(seconds),
        )
        return answer.content

    def _sdk(self) -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key=self.api_key(),
            base_url=self.base_url,
            max_retries=0,
            http_client=client(self.egress, is_direct=self.is_direct),
        )

    def _lost(self, begun_s: float) -> Usage:
        """Return the bill of a request without a count."""
        seconds = self.retrier.clock.monotonic_s() - begun_s
        return Usage(prompt_tokens=None, completion_tokens=None, seconds=seconds)


def _messages(question: Question) -> list[ChatCompletionMessageParam]:
    """Return what is said; without a system prompt none is sent, not an empty one."""
    asked: list[ChatCompletionMessageParam] = [{"role": "user", "content": text_of(question.text)}]
    if not question.system:
        return asked
    return [{"role": "system", "content": text_of(question.system)}, *asked]


def read(body: bytes, lost: Usage) -> Answer:
    """Return the answer that a body holds. Raises `TryFailed`, with the bill, where it holds none."""
    bill = decoded(body, _Bill, lost).usage or _Usage()
    usage = replace(lost, prompt_tokens=bill.prompt_tokens, completion_tokens=bill.completion_tokens)
    choice = decoded(body, _Completion, usage).choices[0]
    text = text_of(choice.message.content or "")
    is_cut_off = choice.finish_reason == "length"
    if choice.finish_reason == "content_filter" or (choice.message.refusal and not text):
        why = shown(choice.message.refusal or "its content filter")
        raise TryFailed("refused", f"the model does not answer: {why}", usage=usage)
    if not text.strip() and not is_cut_off:
        raise TryFailed("malformed", "the answer is empty", usage=usage)
    return Answer(text=text, usage=usage, is_cut_off=is_cut_off)
