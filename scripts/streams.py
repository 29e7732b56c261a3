"""Measures open live pages beside pages that poll: `python -m scripts.streams --readers 200`.

Starts a fleet of its own without workers, opens the readers, submits runs one after the other, and says for
both ways how late the readers heard (median, 99th percentile), what that cost the server (CPU, memory) and
how many bytes were moved. What polls fetches `/runs` every two seconds, as pages without a stream have to.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import psutil

from control_plane.embedded.stack import Options, Stack, World
from events.clock import SystemClock, SystemIds

POLL_S: Final = 2.0
BETWEEN_S: Final = 0.5
SETTLE_S: Final = 3.0
CLOCK: Final = SystemClock()


@dataclass(slots=True)
class Heard:
    """When each reader first saw each run, and what that took."""

    submitted: dict[str, float] = field(default_factory=dict)
    delays_s: list[float] = field(default_factory=list)
    bytes_read: int = 0

    def see(self, text: str, known: set[str]) -> None:
        """Note the runs that a reader sees for the first time."""
        self.bytes_read += len(text)
        now_s = CLOCK.monotonic_s()
        for run_id, since_s in self.submitted.items():
            if run_id not in known and run_id in text:
                known.add(run_id)
                self.delays_s.append(now_s - since_s)


Reader = Callable[[httpx.AsyncClient, Heard], Coroutine[None, None, None]]


async def stream(client: httpx.AsyncClient, heard: Heard) -> None:
    """Hold one live page open."""
    known: set[str] = set()
    async with client.stream("GET", "/live", params={"topic": "runs"}) as answer:
        async for line in answer.aiter_lines():
            heard.see(line, known)


async def poll(client: httpx.AsyncClient, heard: Heard) -> None:
    """Fetch the page again and again."""
    known: set[str] = set()
    while True:
        heard.see((await client.get("/runs")).text, known)
        await asyncio.sleep(POLL_S)


async def measure(name: str, reader: Reader, url: str, readers: int, runs: int) -> None:
    """Run one way, and print its line."""
    server = _server(url)
    limits = httpx.Limits(max_connections=readers + 10, max_keepalive_connections=readers + 10)
    heard = Heard()
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        open_pages = [asyncio.create_task(reader(client, heard)) for _ in range(readers)]
        await asyncio.sleep(SETTLE_S)
        heard.bytes_read = 0
        cpu_s, begun_s = _cpu_s(server), CLOCK.monotonic_s()
        for _ in range(runs):
            since_s = CLOCK.monotonic_s()
            answer = await client.post("/api/runs", json={"kind": "probe"})
            heard.submitted[answer.json()["id"]] = since_s
            await asyncio.sleep(BETWEEN_S)
        await asyncio.sleep(SETTLE_S)
        cpu_s, took_s = _cpu_s(server) - cpu_s, CLOCK.monotonic_s() - begun_s
        for each in open_pages:
            each.cancel()
        for each in open_pages:
            with suppress(asyncio.CancelledError, httpx.HTTPError):
                await each
    delays = sorted(heard.delays_s)
    late_s = delays[int(0.99 * (len(delays) - 1))] if delays else float("nan")
    print(
        f"{name:8} heard {len(delays)} of {readers * runs}, "
        f"median {1000 * statistics.median(delays):.0f} ms, p99 {1000 * late_s:.0f} ms; "
        f"server {cpu_s / took_s:.0%} of a core, "
        f"{server.memory_info().rss / 2**20:.0f} MiB; {heard.bytes_read / 2**20:.1f} MiB moved"
    )


def main() -> int:
    """Measure both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="podfleet-streams-") as home:
        world = World(environment=os.environ, clock=CLOCK, ids=SystemIds(), say=lambda _: None)
        with Stack(Options(data=Path(home) / "data", port=0, workers=0), world) as stack:
            for name, reader in (("stream", stream), ("poll", poll)):
                asyncio.run(measure(name, reader, stack.url, arguments.readers, arguments.runs))
    return 0


def _server(url: str) -> psutil.Process:
    """Return the control plane's process, by its port."""
    port = int(url.rpartition(":")[2])
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(port == at.laddr.port for at in each.net_connections() if at.status == psutil.CONN_LISTEN):
                return each
    raise SystemExit(f"nothing of ours listens at {url}")


def _cpu_s(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


if __name__ == "__main__":
    sys.exit(main())
