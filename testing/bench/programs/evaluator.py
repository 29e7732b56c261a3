"""`python -m testing.bench.programs.evaluator WAY COUNT URL FOLDER`: evaluates items in one of three ways.

Imports and a first evaluation, which loads what is loaded late, are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

from events.kinds.benchmark import BenchmarkSpec, OwnSuite
from stages.kinds.benchmark.pipeline import run
from stages.testing import RecordingReporter, make_context, make_tools

CONCURRENCY: Final = 16
WARM: Final = 100
MODEL: Final = "bench"


class Silent(RecordingReporter):
    """Keeps nothing of what is said: that goes to the worker."""

    def say(self, fact: Any) -> None:
        """Forget it."""

    def made(self, path: Path, **_: Any) -> None:
        """Forget it."""


def ours(count: int, url: str, folder: Path) -> None:
    """Evaluate by the pipeline of benchmarks, with all that it records."""
    data = folder / "data"
    data.mkdir()
    lines = [json.dumps({"prompt": question(number), "answer": "42"}) for number in range(count)]
    (data / "items.jsonl").write_text("\n".join(lines) + "\n")
    spec = BenchmarkSpec(
        model=MODEL,
        own=[OwnSuite(name="items", file="items.jsonl", scorer="number")],
        concurrency=CONCURRENCY,
    )
    told = {"model": {"endpoint": {"provider": "openai", "model": MODEL, "baseUrl": url}}}
    tools = make_tools(variables={"PODFLEET_PRIVATE_HOSTS": "127.0.0.1"}, data_sets=(data,))
    run(make_context(spec, folder, reporter=Silent(), tools=tools, told=told))


def plain(count: int, url: str, folder: Path) -> None:
    """Evaluate by inspect_ai as it comes."""
    samples = [Sample(id=number, input=question(number), target="42") for number in range(1, count + 1)]
    done = eval(
        Task(name="items", dataset=MemoryDataset(samples), solver=generate(), scorer=match(numeric=True)),
        model=get_model(f"openai-api/local/{MODEL}", base_url=url, api_key="none", memoize=False),
        log_dir=str(folder),
        log_realtime=False,
        max_samples=CONCURRENCY,
        max_connections=CONCURRENCY,
        display="none",
    )
    assert done[0].status == "success"


def loop(count: int, url: str, folder: Path) -> None:
    """Ask in a bare loop, and look at the answers."""

    async def ask_all() -> None:
        free = asyncio.Semaphore(CONCURRENCY)
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=CONCURRENCY)) as client:

            async def ask(number: int) -> None:
                async with free:
                    body = {"model": MODEL, "messages": [{"role": "user", "content": question(number)}]}
                    answer = await client.post(f"{url}/chat/completions", json=body)
                    assert "42" in answer.json()["choices"][0]["message"]["content"]

            await asyncio.gather(*map(ask, range(count)))

    asyncio.run(ask_all())


def question(number: int) -> str:
    return f"What is 40 + 2? This is question {number} of many."


WAYS: Final[Mapping[str, Callable[[int, str, Path], None]]] = {
    "podfleet": ours,
    "inspect_ai": plain,
    "loop": loop,
}


def main(way: str, count: int, url: str, folder: Path) -> dict[str, float]:
    """Return seconds and memory of an evaluation, behind a small one."""
    for name, number in (("warm", WARM), ("timed", count)):
        place = folder / name
        place.mkdir()
        before_mib, begun_s, begun_cpu_s = _mib(), time.perf_counter(), time.process_time()
        WAYS[way](number, url, place)
    wall_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - begun_cpu_s
    return {"wall": wall_s, "processor": cpu_s, "grows": _mib() - before_mib}


def _mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))))
