"""Pods that do nothing but send: processes of several connections, with an attempt of its own on each."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from events.catalog import RunLog, RunStarted, StageMetric, StageProgress, StageStarted
from events.envelope import Head, wire
from events.kinds.declaring.fact import Fact
from events.queue.matching import WaitingClass
from events.runtime.clock import SystemClock, SystemIds, timestamp
from events.text.attempt_id import AttemptId
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect

PROCESSES: Final = 4
HEAD_START_S: Final = 0.3
Say = Callable[[int], Fact]  # a function of a module: processes are started with it
CLASS: Final = WaitingClass("runs", "probe/cpu/any", 0)
CLOCK: Final = SystemClock()
IDS: Final = SystemIds()


class Order(NamedTuple):
    """Send from `at_s` on, so long: each as fast as it is answered, or `per_s` requests a second in all.

    `again` sends what was sent before, instead of what comes next.
    """

    at_s: float
    seconds: float
    per_s: float | None = None
    again: bool = False


class Held(NamedTuple):
    """A run that was claimed, and the run token of its attempt."""

    run_id: str
    token: str


class Told(NamedTuple):
    """How many events went through, for how long, and how long each request took."""

    events: int
    seconds: float
    taken_s: list[float]


@dataclass(slots=True)
class Pod:
    """One connection, and what it has to tell."""

    url: str
    token: str
    bodies: Sequence[bytes]
    sent: int = 0
    taken_s: list[float] = field(default_factory=list)

    async def send(self, order: Order, pause_s: float, first_s: float) -> int:
        """Carry an order out; return the number of requests."""
        place = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        until_s = order.at_s + order.seconds
        mine = self.bodies[: self.sent] if order.again else self.bodies[self.sent :]
        due_s, count = order.at_s + first_s, 0
        for body in mine:
            now_s = CLOCK.monotonic_s()
            await asyncio.sleep(max(0.0, due_s - now_s))
            if max(now_s, due_s) >= until_s:
                break
            begun_s = due_s if pause_s else max(now_s, due_s)
            await _post(reader, writer, self.token, body)
            self.taken_s.append(CLOCK.monotonic_s() - begun_s)
            count += 1
            due_s += pause_s
        writer.close()
        if not order.again:
            self.sent += count
        return count


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, body: bytes) -> None:
    head = "POST /api/ingest/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
    head += f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
    content = await reader.readexactly(length)
    assert answer.startswith(b"http/1.1 202"), content[:500]


def claimed(control_plane: str, database: str, count: int) -> list[Held]:
    """Submit so many runs and claim them."""
    with httpx.Client(base_url=control_plane, trust_env=False) as client:
        for _ in range(count):
            client.post("/api/runs", json={"kind": "probe"}).raise_for_status()
    queue = MongoQueue(connect(database))
    claims = [queue.take(CLASS, token=letters(IDS.token()), pod="bench/1") for _ in range(count)]
    queue.db.client.close()
    return [Held(claim.run_id, claim.run_token) for claim in claims if claim is not None]


def lines(run_id: str, first: int, count: int, say: Say | None = None) -> list[bytes]:
    """Return events of an attempt, as a training loop tells them, or as `say` tells each position."""
    fact = say or _fact
    time = timestamp(CLOCK.now())
    source = f"//podfleet/pod/bench-1/{run_id}"
    return [
        wire(
            fact(number),
            Head(id=IDS.ulid(), source=source, attempt_id=AttemptId(run_id, 1), sequence=number, time=time),
        )
        for number in range(first, first + count)
    ]


def _fact(number: int) -> Fact:
    if number == 1:
        return RunStarted()
    if number == 2:
        return StageStarted(stage="train", index=1, total=1)
    if number % 50 == 25:
        return StageProgress(stage="train", progress=min(1.0, number / 1e6), activity="an epoch")
    if number % 10 == 5:
        return RunLog(message=f"step {number}: loss went down again, 412 samples/s", stage="train")
    return StageMetric(stage="train", name="loss", value=1 / number, step=number)


@dataclass(frozen=True, slots=True)
class Senders:
    """Processes that send what they are ordered."""

    size: int
    pipes: Sequence[Connection]

    def send(self, seconds: float, *, per_s: float | None = None, again: bool = False) -> Told:
        """Let all of them send at the same time."""
        at_s = CLOCK.monotonic_s() + HEAD_START_S
        share = None if per_s is None else per_s / len(self.pipes)
        for pipe in self.pipes:
            pipe.send(Order(at_s, seconds, share, again))
        results: list[tuple[int, float, list[float]]] = [pipe.recv() for pipe in self.pipes]
        requests = sum(count for count, _, _ in results)
        longest_s = max(taken for _, taken, _ in results)
        return Told(requests * self.size, longest_s, [each for _, _, taken in results for each in taken])


@contextmanager
def senders(
    urls: Sequence[str], runs: Sequence[Held], *, size: int, requests: int, say: Say | None = None
) -> Iterator[Senders]:
    """Start the processes; each run has a connection, and `requests` bodies of `size` events to send."""
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(PROCESSES):
        here, there = spawn.Pipe()
        own = runs[number::PROCESSES]
        process = spawn.Process(
            target=_work, args=(urls[number % len(urls)], own, size, requests, say, there)
        )
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    try:
        for pipe in pipes:
            pipe.recv()  # everything is made ready
        yield Senders(size, pipes)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join()


def _work(
    url: str, runs: Sequence[Held], size: int, requests: int, say: Say | None, orders: Connection
) -> None:
    pods = [
        Pod(url, token, [b"\n".join(lines(run_id, 1 + size * turn, size, say)) for turn in range(requests)])
        for run_id, token in runs
    ]
    orders.send(None)
    while True:
        try:
            order: Order = orders.recv()
        except EOFError:
            return
        orders.send(asyncio.run(_carry_out(order, pods)))


async def _carry_out(order: Order, pods: Sequence[Pod]) -> tuple[int, float, list[float]]:
    pause_s = len(pods) / order.per_s if order.per_s else 0.0
    for pod in pods:
        pod.taken_s.clear()
    sending = (pod.send(order, pause_s, pause_s * turn / len(pods)) for turn, pod in enumerate(pods))
    counts = await asyncio.gather(*sending)
    taken_s = [each for pod in pods for each in pod.taken_s]
    return sum(counts), CLOCK.monotonic_s() - order.at_s, taken_s
