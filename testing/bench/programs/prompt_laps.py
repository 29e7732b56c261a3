"""`python -m testing.bench.programs.prompt_laps ORDER`: asks an engine as the laps of a prompt do.

It prints how far the times to the first token are from those that the engine tells: a scripted one by the
moments in its log, llama.cpp with the small model by its own timings.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from events.models.engines import XLLAMACPP
from events.runtime.clock import SystemClock, SystemIds
from stages.engines.chat.asking import Answer, Question, Server
from stages.engines.load.client import opened_session
from stages.engines.load.measuring import without_old_garbage
from stages.engines.serving import serve
from stages.engines.weights import located
from testing.bench.comparison import percentile

CLOCK: Final = SystemClock()
MODEL: Final = "smollm2"
LIMIT_S: Final = 120.0
FIRST_WORD: Final = re.compile(rb'"content":"[^"]')
OWN_MS: Final = re.compile(rb'"prompt_ms":([0-9.]+)')


@dataclass(frozen=True, slots=True)
class Order:
    """What to do: so many questions, one after the other."""

    way: str
    url: str
    script: str
    questions: int
    tokens: int
    is_bare: bool = False  # by plain sockets, which read no more of HTTP than they need


def asked(order: Order, url: str, model: str) -> list[Answer]:
    """Ask each question, and return the answers."""

    async def laps() -> list[Answer]:
        async with opened_session(CLOCK) as session:
            server = Server(base_url=url, session=session, clock=CLOCK)
            return [
                await server.ask(_question(model, order.tokens), LIMIT_S, _heard)
                for _ in range(order.questions)
            ]

    with without_old_garbage():
        answers = asyncio.run(laps())
    assert [each.failure for each in answers] == [""] * order.questions
    return answers


def by_script(order: Order) -> list[float]:
    """Return by how many seconds each time differs from that in the log of a scripted engine."""
    asked(Order(order.way, order.url, order.script, 2, order.tokens), f"{order.url}/v1", order.script)
    _log(order.url)
    answers = asked(order, f"{order.url}/v1", order.script)
    told = [each["first_s"] - each["received_s"] for each in _log(order.url)]
    return [(each.ttft_s or 0.0) - own for each, own in zip(answers, told, strict=True)]


def by_llama(order: Order) -> list[float]:
    """Return by how many seconds each time differs from llama.cpp's own."""
    with _served() as url:
        asked(Order(order.way, url, MODEL, 2, order.tokens), url, MODEL)
        if order.is_bare:
            return [_bare(url, order.tokens) for _ in range(order.questions)]
        answers = asked(order, url, MODEL)
    return [(each.ttft_s or 0.0) - (each.own_ttft_s or 0.0) for each in answers]


def _bare(url: str, tokens: int) -> float:
    """Ask by a plain socket; return by how many seconds the first token differs from llama.cpp's own."""
    place = urlsplit(url)
    asked_for = {"model": MODEL, "messages": [{"role": "user", "content": "Go."}], "max_tokens": tokens}
    body = json.dumps({**asked_for, "temperature": 0.0, "seed": 1, "stream": True}).encode()
    head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), LIMIT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun_s, first_s, text = CLOCK.monotonic_s(), None, b""
        connection.sendall((head + kind).encode() + body)
        while data := connection.recv(1 << 16):
            text += data
            if first_s is None and FIRST_WORD.search(text):
                first_s = CLOCK.monotonic_s() - begun_s
    own = OWN_MS.findall(text)
    assert first_s is not None, text[:1_000]
    return first_s - float(own[-1]) / 1_000


WAYS: Final[Mapping[str, Callable[[Order], list[float]]]] = {
    "scripted engine": by_script,
    "llama.cpp": by_llama,
}


def main(order: Order) -> dict[str, float]:
    """Return how far the times are apart."""
    apart_ms = [1_000 * abs(each) for each in WAYS[order.way](order)]
    return {
        "first token off, median": percentile(apart_ms, 0.5),
        "first token off, p95": percentile(apart_ms, 0.95),
    }


@contextmanager
def _served() -> Iterator[str]:
    parameters = {**XLLAMACPP.sized(1, 512), **dict(XLLAMACPP.uncached)}
    with (
        tempfile.TemporaryDirectory(prefix="podfleet-bench-") as folder,
        serve(
            XLLAMACPP,
            located(MODEL),
            parameters,
            name=MODEL,
            folder=Path(folder),
            clock=CLOCK,
            ids=SystemIds(),
        ) as served,
    ):
        yield served.url


def _question(model: str, tokens: int) -> Question:
    return Question(model=model, prompt="Go.", tokens_max=tokens, temperature=0.0, seed=1, context=512)


def _heard(_: object) -> None:
    """Hear the text, as a page would."""


def _log(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/log", timeout=LIMIT_S) as answer:  # noqa: S310 - a server of ours
        told: list[dict[str, Any]] = json.loads(answer.read())
    return told


if __name__ == "__main__":
    print(json.dumps(main(Order(**json.loads(sys.argv[1])))))
