"""Reads an answer of either API as it comes: its text, why it ends, and what the engine timed itself; pure.

Law: what an engine says of its own times is a number from 0 on, or nothing. A line with half a character,
which no strict reader takes, is read nevertheless.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from stages.engines.chat.said import Said
from stages.engines.load.stream import BadAnswer, Choice, Chunk, Delta, Reading, Usage

TEXT_BYTES_MAX: Final = 16 << 20
REASON_CHARS_MAX: Final = 40
NS: Final = 1e9
MS: Final = 1e3

Count = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
Nanos = Annotated[int, msgspec.Meta(ge=0, le=10**16)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e7)]


@dataclass(frozen=True, slots=True)
class OwnTimes:
    """What an engine says itself: its time to the first token, its speed, and the tokens that it had kept."""

    ttft_s: float | None = None
    tokens_per_s: float | None = None
    cached_tokens: int | None = None


class _LlamaTimings(msgspec.Struct):
    prompt_ms: Amount | None = None
    predicted_per_second: Amount | None = None
    cache_n: Count | None = None


class _Details(msgspec.Struct):
    cached_tokens: Count | None = None


class _Counted(msgspec.Struct):
    """The part of `usage` that only some servers have."""

    prompt_tokens_details: _Details | None = None


class _WithDetails(msgspec.Struct):
    usage: _Counted | None = None


@dataclass(slots=True)
class ChatReading(Reading):
    """An answer of the API of OpenAI with its text; `own` is what llama.cpp says beside it."""

    takes_empty: bool = True
    said: Said = field(default_factory=Said)
    reason: str = ""
    finished_s: float | None = None
    own: OwnTimes = field(default_factory=OwnTimes)
    is_overrun: bool = False  # it went on after its end
    _new: str = ""
    _is_raw: bool = False

    def taken(self) -> str:
        """Return the text that came since the last call."""
        new, self._new = self._new, ""
        return new

    def close(self) -> str:
        """Take the text as ended, also in its middle, and return what is left of it."""
        return self.taken() + self.said.end()

    def _line(self, line: bytes, now_s: float) -> None:
        if self.done_s is not None and line.strip():
            self.is_overrun = True
        Reading._line(self, line, now_s)

    def _decoded(self, data: bytes) -> Chunk:
        chunk: Chunk
        chunk, self._is_raw = read_line(data, Chunk)
        if b'"timings"' in data:
            self.own = _llama(chunk.timings) or self.own
        if b'"cached_tokens"' in data:
            self.own = _with_cached(data, self.own)
        return chunk

    def _choice(self, choice: Choice, name: str | None, now_s: float) -> None:
        if choice.delta is not None and choice.delta.content:
            self._new += self.said.add(choice.delta.content, is_raw=self._is_raw)
            if len(self.said.data) > TEXT_BYTES_MAX:
                raise BadAnswer("too_large")
        if choice.finish_reason is not None and self.finished_s is None:
            self.finished_s, self.reason = now_s, choice.finish_reason[:REASON_CHARS_MAX]
        Reading._choice(self, choice, name, now_s)


class _Message(msgspec.Struct):
    content: str = ""
    thinking: str | None = None


class _OllamaLine(msgspec.Struct):
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")
    load_duration: Nanos | None = None
    prompt_eval_count: Count | None = None
    prompt_eval_duration: Nanos | None = None
    eval_count: Count | None = None
    eval_duration: Nanos | None = None


@dataclass(slots=True)
class OllamaReading(ChatReading):
    """An answer of Ollama's own API: a line of JSON for each piece, the last one with its times."""

    def _line(self, line: bytes, now_s: float) -> None:
        data = line.strip()
        if not data:
            return
        if self.done_s is not None:
            self.is_overrun = True
            return
        said, self._is_raw = read_line(data, _OllamaLine)
        if bytes(said.error) != b"null":
            raise BadAnswer("stream_error", bytes(said.error).decode(errors="replace"))
        message = said.message or _Message()
        delta = Delta(content=message.content, reasoning=message.thinking)
        reason = (said.done_reason or "stop") if said.done else None
        usage = Usage(prompt_tokens=said.prompt_eval_count, completion_tokens=said.eval_count)
        counted = usage if said.done and said.eval_count is not None else None
        self._take(Chunk(choices=[Choice(delta=delta, finish_reason=reason)], usage=counted), now_s)
        if said.done:
            self.done_s, self.own = now_s, _ollama(said)


def read_line(data: bytes, form: type[Any]) -> tuple[Any, bool]:
    """Return what a line of JSON says, and whether it has bytes that are no UTF-8. Raises `BadAnswer`."""
    try:
        return msgspec.json.decode(data, type=form), False
    except msgspec.ValidationError as error:
        raise BadAnswer("malformed", str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _leniently(data, form)


def _leniently(data: bytes, form: type[Any]) -> tuple[Any, bool]:
    """Read a line as Python does, which takes half a character as what it is."""
    text = data.decode(errors="surrogateescape")
    try:
        found: dict[str, Any] = json.loads(text)
        if not isinstance(found, dict):
            raise BadAnswer("malformed", "an event is an object")
        plain = {name: value for name, value in found.items() if name not in ("error", "timings")}
        made = msgspec.convert(plain, form)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise BadAnswer("malformed", str(error).encode(errors="replace").decode()) from error
    if found.get("error") is not None:
        made.error = msgspec.Raw(json.dumps(found["error"]).encode())
    return made, not _is_text(data)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _llama(raw: msgspec.Raw) -> OwnTimes | None:
    """Return llama.cpp's times; None where they are none."""
    try:
        told = msgspec.json.decode(raw, type=_LlamaTimings)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    ttft_s = None if told.prompt_ms is None else told.prompt_ms / MS
    return OwnTimes(ttft_s, told.predicted_per_second, told.cache_n)


def _with_cached(data: bytes, own: OwnTimes) -> OwnTimes:
    try:
        told = msgspec.json.decode(data, type=_WithDetails)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return own
    details = None if told.usage is None else told.usage.prompt_tokens_details
    cached = None if details is None else details.cached_tokens
    return own if cached is None else OwnTimes(own.ttft_s, own.tokens_per_s, cached)


def _ollama(said: _OllamaLine) -> OwnTimes:
    """Return Ollama's times: to load the model, where it had to, and to read the prompt."""
    ttft_s = None if said.prompt_eval_duration is None else said.prompt_eval_duration / NS
    if ttft_s is not None and said.load_duration is not None:
        ttft_s += said.load_duration / NS
    speed = said.eval_count / said.eval_duration * NS if said.eval_count and said.eval_duration else None
    return OwnTimes(ttft_s, speed)
