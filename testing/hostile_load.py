"""What a control plane costs under hostile load, and whether honest senders are still served.

    python -m testing.hostile_load [--seconds 8] [--only NAME ...]

Starts a fleet of its own on loopback without workers, then attacks it in one way after the other, each for
`--seconds`. Beside each attack an honest pod, a process with a key and an address of its own, sends ten
events at a time, and a stranger opens a new connection each time to ask for `/healthz`. Each row says how the
attackers were answered, the memory of the control plane before and at most, and how long the honest waited.
It attacks nothing but what it has started.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import multiprocessing
import os
import queue
import resource
import statistics
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import psutil
import zstandard

from events.catalog import RunLog, RunStarted, StageStarted
from events.delivery.control_plane_client import bearer
from events.envelope import Head, wire
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCodeGenerated, NodeCompleted, NodeCreated
from events.runtime.clock import SystemClock, SystemIds
from events.text.attempt_id import AttemptId
from events.text.key_text import letters
from podfleet.embedded.stack import Options, Stack, World

MIB: Final = 1 << 20
CLOCK: Final = SystemClock()
IDS: Final = SystemIds()
LOOK_S: Final = 0.05
HONEST_PAUSE_S: Final = 0.05
HONEST_LIMIT_S: Final = 30.0
SETTLE_S: Final = 2.0
SLOW_BYTE_S: Final = 0.5
CONNECTING_MAX: Final = 200
CONNECT_S: Final = 5.0
NDJSON: Final = "application/x-ndjson"
LONG_HEADER: Final = "\\" * 60_000
PAGES: Final = (
    "/runs/{}", "/runs/{}/events", "/api/runs/{}", "/api/runs/{}/nodes",
    "/api/runs/{}/events?limit=200", "/runs", "/", "/numbers",
)  # fmt: skip
NODES: Final = 300
LOG_LINES: Final = 5_000
LINES_AT_ONCE: Final = 100
READ_HEADERS: Final = ("Accept", "Cookie", "If_None_Match", "Last_Event_ID", "Traceparent", "X_Forwarded_For")


@dataclass(slots=True)
class Attack:
    """One attack: where, with which key, until when; and how it was answered."""

    host: str
    port: int
    key: str
    until_s: float
    run_id: str  # one that a pod has filled as far as it may
    answers: Counter[str] = field(default_factory=Counter)
    connecting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONNECTING_MAX))

    def is_on(self) -> bool:
        return CLOCK.monotonic_s() < self.until_s

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection, and reset it at the end of the block."""
        async with self.connecting:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(self.host, self.port), CONNECT_S)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    def head(self, method: str, path: str, **headers: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def signed(self, path: str, length: int, **headers: str) -> bytes:
        """Return the head of a request with a right key."""
        return self.head("POST", path, **bearer(self.key), Content_Length=str(length), **headers)

    async def answered(self, reader: asyncio.StreamReader) -> None:
        """Note the status of the next answer, or that there was none."""
        left_s = max(self.until_s - CLOCK.monotonic_s(), 0) + CONNECT_S
        line = await asyncio.wait_for(reader.readline(), left_s)
        self.answers[line.split()[1].decode() if line else "closed"] += 1


Step = Callable[[Attack], Awaitable[None]]


async def again(attack: Attack, step: Step) -> None:
    """Attack until the time is over, on a new connection each time."""
    while attack.is_on():
        try:
            await step(attack)
        except TimeoutError:
            attack.answers["no answer"] += 1
        except (OSError, asyncio.IncompleteReadError):
            attack.answers["closed"] += 1
            await asyncio.sleep(LOOK_S)


def posting(body: bytes, path: str = "/api/ingest/events", **headers: str) -> Step:
    """Return the attack that sends this body with a right key."""

    async def post(attack: Attack) -> None:
        async with attack.connected() as (reader, writer):
            writer.write(attack.signed(path, len(body), **headers) + body)
            await attack.answered(reader)

    return post


def asking(path: str, *, is_known: bool, **headers: str) -> Step:
    """Return the attack that asks for a page with these headers."""

    async def ask(attack: Attack) -> None:
        async with attack.connected() as (reader, writer):
            known = bearer(attack.key) if is_known else {}
            writer.write(attack.head("GET", path, **{**known, **headers}))
            await attack.answered(reader)

    return ask


async def read_filled(attack: Attack) -> None:
    """Ask for the pages of a run that a pod has filled, one after the other."""
    for page in PAGES:
        if attack.is_on():
            await asking(page.format(attack.run_id), is_known=True, Accept="text/html")(attack)


async def slow_head(attack: Attack) -> None:
    """Send a header byte by byte, for ever."""
    async with attack.connected() as (_, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        while attack.is_on():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(SLOW_BYTE_S)
            if writer.transport.is_closing():
                attack.answers["closed"] += 1
                return
        attack.answers["still open"] += 1


def slow_body(path: str, *, is_known: bool) -> Step:
    """Return the attack that announces a body and sends it byte by byte."""

    async def post(attack: Attack) -> None:
        async with attack.connected() as (reader, writer):
            headers = {"Content_Type": NDJSON if "ingest" in path else "application/json"}
            head = attack.signed(path, 9_000, **headers)
            writer.write(head if is_known else attack.head("POST", path, Content_Length="9000", **headers))
            answer = asyncio.ensure_future(reader.readline())
            while attack.is_on() and not answer.done():
                writer.write(b" ")
                await writer.drain()
                await asyncio.wait([answer], timeout=SLOW_BYTE_S)
            if answer.done():
                line = answer.result()
                attack.answers[line.split()[1].decode() if line else "closed"] += 1
            else:
                answer.cancel()
                attack.answers["still open"] += 1

    return post


async def endless_head(attack: Attack) -> None:
    """Send a header without end, as fast as it is taken."""
    async with attack.connected() as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nX-Long: ")
        for _ in range(64):
            writer.write(b"x" * MIB)
            await asyncio.wait_for(writer.drain(), CONNECT_S)
            if writer.transport.is_closing():
                break
        await attack.answered(reader)


async def idle(attack: Attack) -> None:
    """Ask once, and keep the connection."""
    async with attack.connected() as (reader, writer):
        writer.write(attack.head("GET", "/healthz"))
        await attack.answered(reader)
        while attack.is_on() and not reader.at_eof():
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(MIB), SLOW_BYTE_S)


async def pipelined(attack: Attack) -> None:
    """Send thousands of small requests at once."""
    async with attack.connected() as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 10_000)
        await attack.answered(reader)
        while attack.is_on() and not reader.at_eof():
            await asyncio.wait_for(reader.read(MIB), CONNECT_S)


async def unread(attack: Attack) -> None:
    """Ask for much, and read nothing."""
    async with attack.connected() as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined] # it reads, too
        writer.write(attack.head("GET", "/static/pages.css") * 500)
        while attack.is_on() and not writer.transport.is_closing():
            await asyncio.sleep(SLOW_BYTE_S)
        attack.answers["still open" if not writer.transport.is_closing() else "closed"] += 1


def events_of(size: int, run_id: str = "01FLOOD") -> bytes:
    """Return legal NDJSON of at most so many bytes and at most a thousand lines."""
    message = "x" * (size // 1_000 - 400) if size > MIB else "hello"
    lines = [
        wire(
            RunLog(message=message),
            Head(
                id=IDS.ulid(),
                source="//flood",
                attempt_id=AttemptId(run_id, 1),
                sequence=None,
                time="2026-11-21T10:00:00.000Z",
            ),
        )
        for _ in range(1_000 if size > MIB else 10)
    ]
    return b"\n".join(lines)


def fill(client: httpx.Client) -> str:
    """Submit a run, claim it, and tell of it all that one event may hold, many times; return its id."""
    run_id = str(client.post("/api/runs", json={"kind": "probe"}).raise_for_status().json()["id"])
    sought = {"token": letters(IDS.token()), "pod": "flood/1", "kinds": ["probe"]}
    claim = client.post("/api/claims", json=sought).raise_for_status().json()["claim"]
    facts: list[Fact] = [RunStarted(), StageStarted(stage="one", index=1, total=1)]
    for number in range(NODES):
        node: dict[str, Any] = {"stage": "one", "node": str(number)}
        facts.append(NodeCreated(**node, plan="<b>&" * 20_000, params={"[" * 99: number}))
        facts.append(NodeCodeGenerated(**node, code="\\" * 60_000))
        facts.append(NodeCompleted(**node, buggy=False, seconds=1e308, log_tail="\u202e" * 20_000))
    facts += [RunLog(message="\x1b[31m" + "x" * 4_000) for _ in range(LOG_LINES)]
    lines = [
        wire(
            fact,
            Head(
                id=IDS.ulid(),
                source="//flood",
                attempt_id=AttemptId(run_id, 1),
                sequence=number,
                time="2026-11-21T10:00:00.000Z",
            ),
        )
        for number, fact in enumerate(facts, 1)
    ]
    headers = {**bearer(claim["runToken"]), "Content-Type": NDJSON}
    while lines:
        at_once = [lines.pop(0) for _ in range(min(len(lines), LINES_AT_ONCE))]
        while sum(map(len, at_once)) > MIB // 2 and len(at_once) > 1:
            lines.insert(0, at_once.pop())
        answer = client.post("/api/ingest/events", content=b"\n".join(at_once), headers=headers)
        assert answer.is_success, answer.text
        assert not answer.json()["rejected"], answer.text
    return run_id


def gzip_bomb() -> bytes:
    """Return a gibibyte of zeros in a little less than a mebibyte."""
    compressor = zlib.compressobj(9, wbits=31)
    head = compressor.compress(b"") + compressor.flush(zlib.Z_FULL_FLUSH)
    block = compressor.compress(bytes(32 * MIB)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return head + block * 31


def _cookie(value: str) -> str:
    return f'__Host-podfleet="{value}"'


def attacks() -> Mapping[str, tuple[int, Step]]:
    """Return each attack with how many do it at once."""
    bomb = {"Content_Type": NDJSON, "Content_Encoding": "gzip"}
    zeros = zstandard.ZstdCompressor().compress(bytes(1024 * MIB))
    deep = b'{"specversion":"1.0","data":' + b'{"a":' * 40_000 + b"1" + b"}" * 40_001
    large = gzip.compress(events_of(7 * MIB), compresslevel=9)
    return {
        "nobody": (0, idle),
        "gzip bombs": (64, posting(gzip_bomb(), **bomb)),
        "zstd bombs": (64, posting(zeros, **{**bomb, "Content_Encoding": "zstd"})),
        "bodies that become 7 MiB of events": (64, posting(large, **bomb)),
        "40,000 levels of JSON": (64, posting(deep, Content_Type=NDJSON)),
        "cookies of backslashes": (8, asking("/api/runs", is_known=False, Cookie=_cookie(LONG_HEADER))),
        **{
            f"60,000 characters in {name}": (8, asking("/runs", is_known=True, **{name: LONG_HEADER}))
            for name in READ_HEADERS
        },
        "readers of every run": (32, asking("/api/runs?limit=200", is_known=True)),
        "readers of the first page": (32, asking("/", is_known=True, Accept="text/html")),
        "readers of a run that a pod filled": (64, read_filled),
        "slow bodies of events, with a key": (200, slow_body("/api/ingest/events", is_known=True)),
        "slow bodies of runs, without": (1_000, slow_body("/api/runs", is_known=False)),
        "slow heads": (3_000, slow_head),
        "heads without end": (16, endless_head),
        "idle connections": (5_000, idle),
        "10,000 requests at once": (100, pipelined),
        "answers that nobody reads": (500, unread),
    }


def honest(url: str, key: str, results: Any, stop: Event) -> None:
    """Send events as a pod does, and ask as a stranger; put down how long each took, None where it failed."""
    headers = {**bearer(key), "Content-Type": NDJSON}
    # an address of its own, as a pod has
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=url, timeout=HONEST_LIMIT_S, transport=transport) as client:
        while not stop.is_set():
            begun_s = CLOCK.monotonic_s()
            try:
                answer = client.post("/api/ingest/events", content=events_of(0, "01HONEST"), headers=headers)
                is_taken = answer.status_code == httpx.codes.ACCEPTED
            except httpx.TransportError:
                is_taken = False
            results.put(("pod", CLOCK.monotonic_s() - begun_s if is_taken else None))
            begun_s = CLOCK.monotonic_s()
            try:
                is_taken = httpx.get(f"{url}/healthz", timeout=HONEST_LIMIT_S, trust_env=False).is_success
            except httpx.TransportError:
                is_taken = False
            results.put(("stranger", CLOCK.monotonic_s() - begun_s if is_taken else None))
            stop.wait(HONEST_PAUSE_S)


@dataclass(slots=True)
class Seen:
    """What was seen beside an attack."""

    memory_mib: list[float] = field(default_factory=list)
    waits_s: dict[str, list[float | None]] = field(default_factory=lambda: {"pod": [], "stranger": []})

    def line(self, name: str, answers: Counter[str]) -> str:
        """Return the row of a table."""
        results = ", ".join(f"{answer} × {count:,}" for answer, count in sorted(answers.items()))
        memory = f"{self.memory_mib[0]:.0f} → {max(self.memory_mib):.0f}"
        return f"| {name} | {results} | {memory} | {self._waits('pod')} | {self._waits('stranger')} |"

    def _waits(self, who: str) -> str:
        served = sorted(wait_s * 1_000 for wait_s in self.waits_s[who] if wait_s is not None)
        refused = len(self.waits_s[who]) - len(served)
        if not served:
            return f"none of {refused}"
        late = served[min(len(served) - 1, int(len(served) * 0.99))]
        return f"{statistics.median(served):.0f}, {late:.0f} ({len(served)}, {refused} refused)"


@contextmanager
def honest_ones(url: str, key: str, seen: Seen) -> Iterator[None]:
    """Let the honest go on as long as the context does."""
    spawn = multiprocessing.get_context("spawn")
    results, stop = spawn.Queue(), spawn.Event()
    process = spawn.Process(target=honest, args=(url, key, results, stop))
    process.start()
    who, wait_s = results.get(timeout=HONEST_LIMIT_S)  # it has begun
    try:
        yield
    finally:
        stop.set()
        process.join(2 * HONEST_LIMIT_S)
        with suppress(queue.Empty):
            while True:
                seen.waits_s[who].append(wait_s)
                who, wait_s = results.get(timeout=LOOK_S)


async def attacked(attack: Attack, count: int, step: Step, process: psutil.Process, seen: Seen) -> None:
    """Attack, and look at the memory meanwhile."""
    tasks = [asyncio.create_task(again(attack, step)) for _ in range(count)]
    while attack.is_on():
        seen.memory_mib.append(process.memory_info().rss / MIB)
        await asyncio.sleep(LOOK_S)
    await asyncio.wait(tasks, timeout=2 * CONNECT_S) if tasks else None
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    seen.memory_mib.append(process.memory_info().rss / MIB)


def main() -> int:
    """Run the command line."""
    known = attacks()
    parser = argparse.ArgumentParser(prog="python -m testing.hostile_load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each attack")
    parser.add_argument("--only", nargs="*", choices=known, default=list(known))
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with tempfile.TemporaryDirectory(prefix="podfleet-flood-") as folder:
        root = IDS.token()
        world = World(
            environment={**os.environ, "PODFLEET_API_KEY": root}, clock=CLOCK, ids=IDS, say=lambda _: None
        )
        with Stack(Options(data=Path(folder), port=0, workers=0, keyless=True), world) as stack:
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (hard, hard)
            )  # for the attackers, not for the attacked
            process = psutil.Process(stack.pids()["control-plane"])
            made = httpx.Client(base_url=stack.url, headers=bearer(root), trust_env=False)
            keys = [
                made.post("/api/keys", json={"kind": "admin", "name": name}).json()["key"]
                for name in ("attacker", "honest")
            ]
            run_id = fill(made)
            sys.stdout.write(
                "| attack | answers | memory, MiB | pod: median, p99 ms | stranger: the same |\n"
            )
            sys.stdout.write("|---|---|---|---|---|\n")
            for name in arguments.only:
                count, step = known[name]
                seen = Seen()
                place = urlsplit(stack.url)
                with honest_ones(stack.url, keys[1], seen):
                    until_s = CLOCK.monotonic_s() + arguments.seconds
                    attack = Attack(place.hostname or "", place.port or 0, keys[0], until_s, run_id)
                    asyncio.run(attacked(attack, count, step, process, seen))
                label = f"{name}, {count:,}" if count else name
                sys.stdout.write(seen.line(label, attack.answers) + "\n")
                sys.stdout.flush()
                CLOCK.wait(multiprocessing.Event(), SETTLE_S)  # type: ignore[arg-type] # waits alike
    return 0


if __name__ == "__main__":
    sys.exit(main())
