"""`python -m testing.bench.programs.load_client ORDER`: loads a scripted engine in one of three ways.

It prints the processor's time as a share of a core, and how far its times to a first token are from those of
the engine, which tells them after the end. Imports and a first small load are left out.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from events.runtime.clock import SystemClock
from events.text.traffic import Uniform
from stages.engines.load.measurement import Answered
from stages.engines.load.measuring import APART_S, measure
from stages.engines.load.plan import Load, Target
from stages.engines.load.stream import Reading
from testing.bench.comparison import OURS, percentile

LIMIT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to do: so many requests in so many streams, with answers of so many tokens."""

    way: str
    url: str
    model: str
    streams: int
    requests: int
    least: int
    most: int

    def bodies(self) -> Iterator[tuple[int, bytes]]:
        """Yield the length of each answer, and the body of its request."""
        chance = random.Random(1)
        for _ in range(self.requests):
            tokens = chance.randint(self.least, self.most)
            yield (
                tokens,
                msgspec.json.encode(
                    {
                        "model": self.model,
                        "max_tokens": tokens,
                        "messages": [{"role": "user", "content": "Go."}],
                    }
                ),
            )


Times = dict[str, float]  # seconds to the first token, by the id of the answer


def ours(order: Order) -> Times:
    """Measure as a trial does."""
    heard: list[Answered] = []
    load = Load(
        scenario=Uniform(100, 100, order.least, order.most),
        concurrency=order.streams,
        requests=order.requests,
        limit_s=LIMIT_S,
    )
    target = Target(base_url=f"{order.url}/v1", model=order.model)
    found = measure(target, load, clock=SystemClock(), canceled=lambda: False, heard=heard.append)
    assert found.errors == 0, found.said
    return {each.id: each.ttft_s for each in heard if each.ttft_s is not None}


def bare(order: Order) -> Times:
    """Ask over plain connections, and read no more of HTTP than is needed."""
    place = urlsplit(order.url)
    bodies, times = order.bodies(), Times()

    async def stream(number: int) -> None:
        await asyncio.sleep(number * APART_S)
        for tokens, body in bodies:
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            begun_s, reading = time.monotonic(), Reading(tokens)
            head = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body)
            writer.write(head + body)
            await reader.readuntil(b"\r\n\r\n")
            while size := int(await reader.readline(), 16):
                reading.feed((await reader.readexactly(size + 2))[:-2], time.monotonic())
            writer.close()
            times[reading.id] = (reading.first_s or 0.0) - begun_s

    async def streams() -> None:
        await asyncio.gather(*map(stream, range(order.streams)))

    asyncio.run(streams())
    return times


def by_httpx(order: Order) -> Times:
    """Ask by httpx, as the rest of the project does."""
    bodies, times = order.bodies(), Times()

    async def streams() -> None:
        limits = httpx.Limits(max_connections=order.streams, max_keepalive_connections=0)
        async with httpx.AsyncClient(limits=limits, trust_env=False, timeout=LIMIT_S) as client:

            async def stream(number: int) -> None:
                await asyncio.sleep(number * APART_S)
                for tokens, body in bodies:
                    begun_s, reading = time.monotonic(), Reading(tokens)
                    async with client.stream(
                        "POST", f"{order.url}/v1/chat/completions", content=body
                    ) as answer:
                        async for data in answer.aiter_raw():
                            reading.feed(data, time.monotonic())
                    times[reading.id] = (reading.first_s or 0.0) - begun_s

            await asyncio.gather(*map(stream, range(order.streams)))

    asyncio.run(streams())
    return times


WAYS: Final[Mapping[str, Callable[[Order], Times]]] = {OURS: ours, "bare loop": bare, "httpx": by_httpx}


def main(order: Order) -> dict[str, float]:
    """Return what the load cost, and how exact it was."""
    way = WAYS[order.way]
    way(Order(order.way, order.url, "plain", 2, 4, 2, 2))
    _log(order.url)
    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    times = way(order)
    seconds, cpu_s = time.monotonic() - begun_s, time.process_time() - begun_cpu_s
    told = {f"r{each['number']}": each["first_s"] - each["received_s"] for each in _log(order.url)}
    errors_ms = [1_000 * abs(taken_s - told[name]) for name, taken_s in times.items()]
    assert len(errors_ms) == order.requests
    return {
        "processor": 100 * cpu_s / seconds,
        "first token, median error": percentile(errors_ms, 0.5),
        "first token, p99 error": percentile(errors_ms, 0.99),
    }


def _log(url: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = httpx.get(f"{url}/log", trust_env=False, timeout=LIMIT_S).json()
    return told


if __name__ == "__main__":
    print(json.dumps(main(Order(**json.loads(sys.argv[1])))))
