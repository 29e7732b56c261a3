"""The library of an Ollama server: whether it has a model, and how one is pulled into it.

Law: a model is a name in the library that Ollama fetches from by itself: none names another host. Lines, the
bytes of all and the time are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Final

import aiohttp
import msgspec

from events.runtime.errors import PipelineError
from stages.engines.load.client import Got, exchange

# [namespace/]model[:tag]; a first part with a dot would be a host
NAME: Final = re.compile(r"([A-Za-z0-9_-]{1,80}/)?[A-Za-z0-9_.-]{1,80}(:[A-Za-z0-9_.-]{1,80})?")
ASK_S: Final = 30.0
LINE_BYTES_MAX: Final = 64 << 10
PULL_BYTES_MAX: Final = 64 << 20  # of lines that tell how far it is
WORDS_CHARS: Final = 300
LAYERS_MAX: Final = 1_000  # of one model, which has about five

Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Pulling = Callable[[float, str], object]  # how far it is, and in words


class _Line(msgspec.Struct):
    status: str = ""
    error: str = ""
    digest: str = ""
    total: Bytes = 0
    completed: Bytes = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The library of one server, by the address of its API (`.../api`)."""

    base_url: str
    session: aiohttp.ClientSession = field(repr=False)

    async def has(self, model: str) -> bool:
        """Return whether the model is there. Raises `PipelineError`: ENGINE_UNREACHABLE."""
        got = await self._post("/show", {"model": model}, _ignored, ASK_S)
        if got.failure == "404":
            return False
        if got.failure:
            said = got.said[:WORDS_CHARS]
            raise PipelineError(
                "ENGINE_UNREACHABLE",
                f"Ollama does not say whether it has {model}: {got.failure}{f' ({said})' if said else ''}; "
                "look whether it runs on the pod",
                retryable=True,
            )
        return True

    async def pull(self, model: str, limit_s: float, tell: Pulling) -> None:
        """Have the server fetch a model. Raises `PipelineError`: MODEL_MISSING, with its words."""
        if not NAME.fullmatch(model):
            raise _missing(model, "it is no [namespace/]model[:tag] of Ollama's library, and is not pulled")
        pull = Pull(tell)
        got = await self._post("/pull", {"model": model, "stream": True}, pull.read, limit_s)
        if got.failure == "timeout":
            raise _missing(model, f"pulling it took more than {limit_s:.0f} s (pull_s); {pull.words}")
        if got.failure or pull.error:
            raise _missing(model, f"it cannot be pulled: {pull.error or got.said or got.failure}")
        if not pull.is_done:
            raise _missing(model, f"pulling it ended before its end; {pull.words}")

    async def _post(
        self,
        path: str,
        body: dict[str, object],
        read: Callable[[aiohttp.ClientResponse, Got], Awaitable[None]],
        limit_s: float,
    ) -> Got:
        request = (f"{self.base_url.rstrip('/')}{path}", msgspec.json.encode(body))
        return await exchange(self.session, request, read, limit_s, Got(0.0))


async def _ignored(response: aiohttp.ClientResponse, got: Got) -> None:
    """Take the status as the answer."""


@dataclass(slots=True)
class Pull:
    """What a server says while it fetches a model: how far all layers are, once for each whole percent."""

    tell: Pulling
    error: str = ""
    words: str = "it said nothing"
    is_done: bool = False
    _layers: dict[str, tuple[int, int]] = field(default_factory=dict)  # what is there, and the whole
    _done: int = 0
    _whole: int = 0
    _told: int = -1

    async def read(self, response: aiohttp.ClientResponse, got: Got) -> None:
        """Read lines until the last one."""
        rest, size = bytearray(), 0
        async for data in response.content.iter_any():
            rest += data
            size += len(data)
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in lines:
                self._line(line)
            if len(rest) > LINE_BYTES_MAX or size > PULL_BYTES_MAX:
                got.failure, got.said = "too_large", "its answer is too long"
                return
            if self.error or self.is_done:
                return
        self._line(bytes(rest))

    def _line(self, line: bytes) -> None:
        if not line.strip() or self.error or self.is_done:
            return
        try:
            said = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.error = f"a line of its answer is none: {error}"
            return
        self.error = said.error[:WORDS_CHARS]
        self.is_done = said.status == "success"
        self.words = f"its last word was {said.status[:WORDS_CHARS]!r}"
        if said.total and (said.digest in self._layers or len(self._layers) < LAYERS_MAX):
            self._add(said.digest, min(said.completed, said.total), said.total)
        share = self._done / self._whole if self._whole else 0.0
        if (percent := int(100 * share)) > self._told:
            self._told = percent
            self.tell(share, said.status[:WORDS_CHARS])

    def _add(self, layer: str, done: int, whole: int) -> None:
        """Take how far a layer is in the place of what was said of it before."""
        before = self._layers.get(layer, (0, 0))
        self._layers[layer] = (done, whole)
        self._done += done - before[0]
        self._whole += whole - before[1]


def _missing(model: str, why: str) -> PipelineError:
    return PipelineError("MODEL_MISSING", f"the pod's Ollama has no model {model[:WORDS_CHARS]}, and {why}")
