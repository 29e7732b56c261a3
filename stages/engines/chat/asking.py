"""Asks a server one question, and returns its whole answer with the moments at which it came.

Law: a failure is a name and never raised; an answer is bounded in time and bytes, and what came of it until
then is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import aiohttp
import msgspec

from events.models.endpoints import Form
from events.runtime.clock import Clock
from stages.engines.chat.reading import ChatReading, OllamaReading
from stages.engines.load.client import Got, chat_body, exchange

SAID_CHARS_MAX: Final = 500

TokensFrom = Literal["usage", "chunks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and how it is to be answered; `context` is told to a server that takes it there."""

    model: str
    prompt: str
    tokens_max: int
    temperature: float
    seed: int
    context: int
    is_eos_ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a question; `failure` is empty where it came to its end.

    Moments are those of the clock: `sent_s` when the question was on its way, `first_s` when the first piece
    came, and `ended_s` when the reason of the end did.
    """

    failure: str
    said: str
    text: bytes
    sent_s: float
    ended_s: float
    first_s: float | None
    gaps_s: tuple[float, ...]
    tokens: int
    tokens_from: TokensFrom
    prompt_tokens: int | None
    cached_tokens: int | None
    reason: str
    chars: int
    replaced: int
    own_ttft_s: float | None
    own_tokens_per_s: float | None
    is_overrun: bool

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token."""
        return None if self.first_s is None else self.first_s - self.sent_s

    @property
    def total_s(self) -> float:
        """Time of the whole answer."""
        return self.ended_s - self.sent_s

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second behind the first one; None of fewer than two."""
        if self.first_s is None or self.tokens < 2 or self.ended_s <= self.first_s:
            return None
        return (self.tokens - 1) / (self.ended_s - self.first_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an answer is: the text that is new, and what is known of it."""

    text: str
    pieces: int
    ttft_s: float
    seconds: float

    @property
    def pieces_per_s(self) -> float | None:
        """Pieces a second behind the first one."""
        return (self.pieces - 1) / self.seconds if self.pieces > 1 and self.seconds > 0 else None


Heard = Callable[[Progress], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server, by the address of its API, and the form in which that is spoken to."""

    base_url: str
    form: Form = "openai"
    session: aiohttp.ClientSession = field(repr=False)
    clock: Clock

    async def ask(self, question: Question, limit_s: float, heard: Heard | None = None) -> Answer:
        """Return what came of a question within `limit_s`; `heard` is told each time that text comes."""
        reading = (OllamaReading if self.form == "ollama" else ChatReading)(question.tokens_max)

        async def read(response: aiohttp.ClientResponse, got: Got) -> None:
            async for data in response.content.iter_any():
                try:
                    reading.feed(data, self.clock.monotonic_s())
                finally:
                    _tell(heard, reading, got)
                if reading.done_s is not None:
                    break
            reading.end(self.clock.monotonic_s())

        request = (self._address, self._body(question))
        got = await exchange(self.session, request, read, limit_s, Got(self.clock.monotonic_s()))
        left = reading.close()
        if left and heard is not None and reading.first_s is not None:
            heard(_progress(reading, got, left))
        return self._answer(reading, got)

    @property
    def _address(self) -> str:
        path = "/chat" if self.form == "ollama" else "/chat/completions"
        return f"{self.base_url.rstrip('/')}{path}"

    def _body(self, asked: Question) -> bytes:
        sampling = {"temperature": asked.temperature, "seed": asked.seed}
        if self.form == "openai":
            body = chat_body(asked.model, asked.prompt, asked.tokens_max, asked.is_eos_ignored)
            return msgspec.json.encode(body | sampling)
        options = sampling | {"num_predict": asked.tokens_max, "num_ctx": asked.context}
        messages = [{"role": "user", "content": asked.prompt}]
        return msgspec.json.encode(
            {"model": asked.model, "messages": messages, "stream": True, "options": options}
        )

    def _answer(self, reading: ChatReading, got: Got) -> Answer:
        counted = reading.counted
        prompt_tokens, cached = reading.usage.prompt_tokens, reading.own.cached_tokens
        return Answer(
            failure=got.failure,
            said=got.said[:SAID_CHARS_MAX],
            text=bytes(reading.said.data),
            sent_s=got.sent_s,
            ended_s=reading.finished_s or reading.done_s or self.clock.monotonic_s(),
            first_s=reading.first_s,
            gaps_s=tuple(reading.gaps_s),
            tokens=reading.chunks if counted is None else counted,
            tokens_from="chunks" if counted is None else "usage",
            prompt_tokens=None if got.is_beyond(prompt_tokens) else prompt_tokens,
            cached_tokens=None if got.is_beyond(cached) else cached,
            reason=reading.reason,
            chars=reading.said.chars,
            replaced=reading.said.replaced,
            own_ttft_s=reading.own.ttft_s,
            own_tokens_per_s=reading.own.tokens_per_s,
            is_overrun=reading.is_overrun,
        )


def _tell(heard: Heard | None, reading: ChatReading, got: Got) -> None:
    text = reading.taken()
    if text and heard is not None and reading.first_s is not None:
        heard(_progress(reading, got, text))


def _progress(reading: ChatReading, got: Got, text: str) -> Progress:
    first_s = reading.first_s or 0.0
    return Progress(
        text=text, pieces=reading.chunks, ttft_s=first_s - got.sent_s, seconds=reading.last_s - first_s
    )
