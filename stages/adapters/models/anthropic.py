"""A model behind the messages API of Anthropic.

Law: the SDK sends, and nothing else: retries are ours, and its answer is read by us.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import httpx2
import msgspec
from anthropic import AnthropicError, APIConnectionError, APIStatusError, AsyncAnthropic, omit

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

TEMPERATURE_MAX: Final = 1.0


class _Block(msgspec.Struct):
    type: str
    text: str = ""


class _Usage(msgspec.Struct):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    # these are input too, and `input_tokens` leaves them out
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None

    def prompt_tokens(self) -> int | None:
        if self.input_tokens is None:
            return None
        return (
            self.input_tokens + (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)
        )


class _Bill(msgspec.Struct):
    usage: _Usage | None = None


class _Message(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None


@dataclass(slots=True, kw_only=True)
class AnthropicModel:
    """One model at one endpoint, for any number of threads; its connections are kept until `close`."""

    model: str
    base_url: str
    api_key: Key = field(repr=False)
    retrier: Retrier
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    is_direct: bool = False
    _has_temperature: bool = field(default=True, repr=False)  # newer models refuse it
    _line: Line[AsyncAnthropic] = field(init=False, repr=False)

    def __post_init__(self) -> None:
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
        has_temperature = self._has_temperature
        work = partial(self._request, question, has_temperature, seconds)
        try:
            body = self._line.request(seconds, work, self.retrier.stop)
        except APIStatusError as error:
            words = words_of(error.body, str(error))
            if error.status_code == 400 and has_temperature and "temperature" in words:
                self._has_temperature = False
                raise TryFailed("refused", shown(words), is_mended=True) from error
            raise refusal(
                error.status_code, error.response, words, setting="ANTHROPIC_API_KEY", now=clock.now()
            ) from error
        except TimeoutError as error:  # ours; its cause is only how asyncio ended the request
            raise no_answer(error, self._lost(begun_s)) from error
        except (APIConnectionError, AddressRefused) as error:  # a time-out of the SDK's own is one too
            raise no_answer(error.__cause__ or error, self._lost(begun_s)) from error
        except (AnthropicError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise TryFailed("refused", f"the request cannot be sent: {shown(str(error))}") from error
        return read(body, self._lost(begun_s))

    async def _request(
        self, question: Question, has_temperature: bool, seconds: float, sdk: AsyncAnthropic
    ) -> bytes:
        extra: dict[str, Any] = (
            {"temperature": min(TEMPERATURE_MAX, question.temperature)} if has_temperature else {}
        )
        sdk.api_key = self.api_key()
        answer = await sdk.messages.with_raw_response.create(
            model=self.model,
            system=text_of(question.system) or omit,
            messages=[{"role": "user", "content": text_of(question.text)}],
            max_tokens=question.tokens_max,
            extra_body=extra,
            timeout=limits_of(seconds),
        )
        return answer.http_response.content

    def _sdk(self) -> AsyncAnthropic:
        return AsyncAnthropic(
            api_key=self.api_key(),
            base_url=self.base_url,
            max_retries=0,
            http_client=client(self.egress, is_direct=self.is_direct),
            open_telemetry=False,
        )

    def _lost(self, begun_s: float) -> Usage:
        """Return the bill of a request without a count."""
        seconds = self.retrier.clock.monotonic_s() - begun_s
        return Usage(prompt_tokens=None, completion_tokens=None, seconds=seconds)


def read(body: bytes, lost: Usage) -> Answer:
    """Return the answer that a body holds. Raises `TryFailed`, with the bill, where it holds none."""
    bill = decoded(body, _Bill, lost).usage or _Usage()
    usage = replace(lost, prompt_tokens=bill.prompt_tokens(), completion_tokens=bill.output_tokens)
    message = decoded(body, _Message, usage)
    text = text_of("".join(block.text for block in message.content if block.type == "text"))
    is_cut_off = message.stop_reason in ("max_tokens", "model_context_window_exceeded")
    if message.stop_reason == "refusal":
        raise TryFailed("refused", "the model does not answer: it refuses", usage=usage)
    if not text.strip() and not is_cut_off:
        raise TryFailed("malformed", "the answer is empty", usage=usage)
    return Answer(text=text, usage=usage, is_cut_off=is_cut_off)
