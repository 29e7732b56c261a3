"""Measures an engine under one load: scales prompts, warms up, and asks in a closed or an open loop.

Law: it ends within twice the limit of its load, or soon after it is canceled; the seed says what it asks.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

from events.runtime.clock import Clock
from events.runtime.errors import Canceled
from stages.engines.load.arrivals import due_after_s
from stages.engines.load.client import Asking, Client, opened
from stages.engines.load.measurement import Answered, Measurement
from stages.engines.load.plan import Load, Target
from stages.engines.load.prompts import Prompts, Scale

LOOK_S: Final = 0.1
IN_FLIGHT_MAX: Final = 1_024  # those of an open loop that are due meanwhile are late, and that is counted
WARMUP_STREAMS: Final = 8  # of an open loop
APART_S: Final = 0.005
APART_MAX_S: Final = 1.0  # of all streams together
FEW_WORDS: Final = 16
MANY_WORDS: Final = 80  # a prompt of so many is within the context of any engine

Heard = Callable[[Answered], object]


def measure(
    target: Target, load: Load, *, clock: Clock, canceled: Callable[[], bool], heard: Heard | None = None
) -> Measurement:
    """Return the figures of a load; `heard` is called for each request that they are made of.

    No failure of the server is raised: it is counted by its name. Raises `Canceled` soon after `canceled`.
    """
    with without_old_garbage():
        return asyncio.run(_watched(target, load, clock, canceled, heard))


@contextmanager
def without_old_garbage() -> Iterator[None]:
    """Let the collector leave alone what is there: to look through all of a pipeline takes 0.1 s and more.

    Answers that come meanwhile would be timed as late. What was left alone before stays so.
    """
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()


async def _watched(
    target: Target, load: Load, clock: Clock, canceled: Callable[[], bool], heard: Heard | None
) -> Measurement:
    async with opened(target, load, clock) as client:
        task = asyncio.create_task(_Measuring(client, load, clock, heard).whole())
        try:
            while not (await asyncio.wait({task}, timeout=LOOK_S))[0]:
                if canceled():
                    raise Canceled("the measurement was asked to stop")
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait({task})


@dataclass(frozen=True, slots=True)
class _Measuring:
    """One measurement by an open client."""

    client: Client
    load: Load
    clock: Clock
    heard: Heard | None

    async def whole(self) -> Measurement:
        load = self.load
        until_s = self.clock.monotonic_s() + load.limit_s
        scale = await self._scale(until_s)
        before = Measurement()
        streams = min(load.warmup, load.concurrency or WARMUP_STREAMS)
        await self._closed(self._askings("warm-up", scale, load.warmup), streams, until_s, before.add)

        found = Measurement(limits=load.limits, scale=scale, warmup_errors=before.errors)
        askings = self._askings("figures", scale, load.requests)
        begun_s, begun_processor_s = self.clock.monotonic_s(), time.thread_time()
        ended_s = begun_s

        def take(answered: Answered) -> None:
            nonlocal ended_s
            ended_s = max(ended_s, answered.ended_s)
            found.add(answered)
            if self.heard is not None:
                self.heard(answered)

        if load.concurrency is not None:
            await self._closed(askings, load.concurrency, begun_s + load.limit_s, take)
        else:
            await self._open(askings, begun_s, begun_s + load.limit_s, take)
        found.seconds, found.processor_s = ended_s - begun_s, time.thread_time() - begun_processor_s
        return found

    async def _scale(self, until_s: float) -> Scale:
        """Ask for the tokens of two prompts, one after the other."""
        prompts, found = Prompts(f"{self.load.seed} scale", Scale()), []
        is_chat = self.load.lengths.asks == "chat"
        for words in (FEW_WORDS, MANY_WORDS):
            asking = Asking(prompts.of_words(words), words, int(is_chat))
            answered = await self.client.ask(asking, until_s)
            if answered.failure or not answered.is_counted:
                return Scale()
            found.append((words, answered.tokens_in))
        return Scale.between(*found)

    def _askings(self, part: str, scale: Scale, count: int) -> Iterator[Asking]:
        """Yield what is asked; it follows from the seed, the load and the part of the measurement."""
        load = self.load
        seed = f"{load.seed} {load.name} {part}"
        chance = _chance(f"{seed} lengths")
        prompts = Prompts(seed, scale, load.shared_prefix_tokens)
        for _ in range(count):
            tokens_in, tokens_out = load.lengths.drawn(chance)
            yield Asking(prompts.next(tokens_in), tokens_in, tokens_out)

    async def _closed(
        self, askings: Iterator[Asking], streams: int, until_s: float, take: Callable[[Answered], None]
    ) -> None:
        """Ask in so many streams, each of which asks again as soon as it has an answer.

        They begin one after the other: requests that begin at once are timed while they wait for each other.
        """
        apart_s = min(APART_S, APART_MAX_S / max(1, streams))

        async def stream(number: int) -> None:
            await asyncio.sleep(number * apart_s)
            for asking in askings:
                if self.clock.monotonic_s() >= until_s:
                    return
                take(await self.client.ask(asking, until_s))

        await asyncio.gather(*map(stream, range(streams)))

    async def _open(
        self, askings: Iterator[Asking], begun_s: float, until_s: float, take: Callable[[Answered], None]
    ) -> None:
        """Ask when it is due, whatever has been answered."""
        load, free = self.load, asyncio.Semaphore(IN_FLIGHT_MAX)
        chance = _chance(f"{load.seed} {load.name} arrivals")
        assert load.rate_per_s is not None
        moments = due_after_s(load.rate_per_s, load.arrivals, chance)

        async def one(asking: Asking, due_s: float) -> None:
            try:
                take(await self.client.ask(asking, until_s, due_s))
            finally:
                free.release()

        waiting: set[asyncio.Task[None]] = set()
        for asking, after_s in zip(askings, islice(moments, load.requests), strict=True):
            due_s = begun_s + after_s
            if due_s >= until_s:
                break
            await asyncio.sleep(due_s - self.clock.monotonic_s())
            await free.acquire()
            task = asyncio.create_task(one(asking, due_s))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)


def _chance(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - repeatable, no secret
