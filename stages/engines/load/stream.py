"""Reads the answer to one request as it comes: its first token, the gaps between them, its counts; pure.

Law: what a server sends is bounded in bytes, of a line and in all, and what is no answer is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec

LINE_BYTES_MAX: Final = 1 << 20
ANSWER_BYTES: Final = 1 << 20  # beside its tokens
TOKEN_BYTES_MAX: Final = 4 << 10  # a chunk has about 300
EMBEDDING_BYTES_MAX: Final = 4 << 20
TOKENS_MAX: Final = 10_000_000
ID_CHARS_MAX: Final = 100
END: Final = b"[DONE]"

# How a request can fail, beside the status of HTTP that it is answered with:
# timeout (it took too long), unfinished (the measurement was over), refused (nobody listens), no_connection,
# cut_off (it ended before its end), malformed (no answer of this API), too_large, empty (no token),
# stream_error (the server said so behind its status), too_many_files (this process has too many open).
Failure = Literal[
    "timeout", "unfinished", "refused", "no_connection", "cut_off", "malformed", "too_large", "empty",
    "stream_error", "too_many_files",
]  # fmt: skip

Count = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]


class BadAnswer(Exception):
    """An answer is none, under the name of what is wrong with it, with words of the server."""

    def __init__(self, failure: Failure, said: str = "") -> None:
        super().__init__(failure)
        self.failure: Failure = failure
        self.said = said


class Usage(msgspec.Struct, frozen=True):
    """What a server counted."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None


class Delta(msgspec.Struct):
    """A piece of an answer."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(msgspec.Struct):
    """A piece, or why the answer ends."""

    delta: Delta | None = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    """One event of a stream; `timings` are llama.cpp's own."""

    id: str | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")
    timings: msgspec.Raw = msgspec.Raw(b"null")


class _Row(msgspec.Struct):
    embedding: msgspec.Raw


class _Embeddings(msgspec.Struct):
    data: list[_Row]
    usage: Usage | None = None


_CHUNKS: Final = msgspec.json.Decoder(Chunk)
_EMBEDDINGS: Final = msgspec.json.Decoder(_Embeddings)


@dataclass(slots=True)
class Reading:
    """One answer that is streamed, of `tokens_out` tokens; moments are those of the caller's clock."""

    tokens_out: int
    id: str = ""
    first_s: float | None = None
    last_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    done_s: float | None = None
    is_finished: bool = False  # the server named a reason, if not yet the end
    takes_empty: bool = False  # an answer of no token is one
    _is_answer: bool = False
    _bytes: int = 0
    _rest: bytearray = field(default_factory=bytearray)

    @property
    def chunks(self) -> int:
        """How many pieces of text there were."""
        return 0 if self.first_s is None else 1 + len(self.gaps_s)

    @property
    def counted(self) -> int | None:
        """The tokens that the server counts; None for more than it was allowed, and for none with text."""
        counted = self.usage.completion_tokens
        is_possible = counted is not None and bool(self.chunks) <= counted <= self.tokens_out + 1
        return counted if is_possible else None

    def feed(self, data: bytes, now_s: float) -> None:
        """Read what came at a moment. Raises `BadAnswer`."""
        self._bytes += len(data)
        if self._bytes > ANSWER_BYTES + TOKEN_BYTES_MAX * self.tokens_out:
            raise BadAnswer("too_large")
        self._rest += data
        if b"\n" in data:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest = bytearray(rest)
            for line in lines:
                self._line(line, now_s)
        if len(self._rest) > LINE_BYTES_MAX:
            raise BadAnswer("too_large")

    def end(self, now_s: float) -> None:
        """Take the answer as ended. Raises `BadAnswer` where that is too early, or where it has no token."""
        if self._rest:
            self._line(bytes(self._rest), now_s)
        if self.done_s is None:
            if not self._is_answer:
                raise BadAnswer("malformed")
            if not self.is_finished:
                raise BadAnswer("cut_off")
            self.done_s = now_s
        if self.first_s is None and not self.takes_empty:
            raise BadAnswer("empty")

    def _line(self, line: bytes, now_s: float) -> None:
        if not line.startswith(b"data:") or self.done_s is not None:
            return
        data = line[5:].strip()
        if data == END:
            self.done_s = now_s
            return
        chunk = self._decoded(data)
        if bytes(chunk.error) != b"null":
            raise BadAnswer("stream_error", bytes(chunk.error).decode(errors="replace"))
        self._take(chunk, now_s)

    def _decoded(self, data: bytes) -> Chunk:
        try:
            return _CHUNKS.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer("malformed", str(error)) from error

    def _take(self, chunk: Chunk, now_s: float) -> None:
        self._is_answer = True
        if chunk.usage is not None:
            self.usage = chunk.usage
        for choice in chunk.choices or ():
            self._choice(choice, chunk.id, now_s)

    def _choice(self, choice: Choice, name: str | None, now_s: float) -> None:
        self.is_finished |= choice.finish_reason is not None
        delta = choice.delta
        if delta is None or not (delta.content or delta.reasoning_content or delta.reasoning):
            return
        if self.first_s is None:
            self.first_s, self.id = now_s, (name or "")[:ID_CHARS_MAX]
        else:
            self.gaps_s.append(now_s - self.last_s)
        self.last_s = now_s


def read_embeddings(body: bytes) -> Usage:
    """Return what the answer with an embedding counts. Raises `BadAnswer`."""
    try:
        answer = _EMBEDDINGS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer("malformed", str(error)) from error
    if not answer.data or bytes(answer.data[0].embedding) in (b"[]", b'""', b"null"):
        raise BadAnswer("empty")
    return answer.usage or Usage()
