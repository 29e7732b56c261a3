"""`python -m testing.bench.programs.scores FOLDER COUNT [PYTHON]`: scores items by us and by lm-eval.

It serves the small model, asks it one question at a time, and prints for each suite a line of JSON: the score
of each item by us, and by the lm-eval that PYTHON has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from events.catalog import ResultRecorded
from events.kinds.benchmark import BenchmarkSpec
from events.models.engines import XLLAMACPP
from events.runtime.clock import SystemIds
from stages.adapters.sandbox.sandbox import LocalSandbox
from stages.engines.serving import serve
from stages.engines.weights import located
from stages.kinds.benchmark.pipeline import run_with
from stages.kinds.benchmark.suite_loader import LOADER, SuiteLoader
from stages.kinds.benchmark.suites.data.sources import DataSources
from stages.kinds.benchmark.suites.item import Item, Suite
from stages.kinds.benchmark.suites.payload import Function
from stages.testing import RecordingReporter, make_context, make_tools
from testing.bench.machine import CLOCK
from testing.bench.peers.environments import Program, program

PEER: Final = "testing.bench.peers.programs.lm_eval_scores"
MODEL: Final = "smollm2"
TOKENS_MAX: Final = 256
SUITES: Final = {"functions": "humaneval", "numbers": "gsm8k"}
THINGS: Final = ("apples", "books", "coins", "stamps", "shells")

Scores = dict[str, float]


def main(folder: Path, count: int, python: str | None) -> Iterator[dict[str, Any]]:
    """Yield the scores of each suite."""
    (folder / "gsm8k.jsonl").write_text("".join(f"{json.dumps(problem(each))}\n" for each in range(count)))
    engine = folder / "engine"
    engine.mkdir()
    parameters = {"n_parallel": 1, "n_ctx": 4_096, "cache_prompt": False}  # else one prompt changes the next
    ids = SystemIds()
    with ExitStack() as stack:
        served = stack.enter_context(
            serve(XLLAMACPP, located(MODEL), parameters, name=MODEL, folder=engine, clock=CLOCK, ids=ids)
        )
        peer = stack.enter_context(program(Path(python), PEER, {})) if python else None
        for task, suite in SUITES.items():
            items = items_of(suite, folder, count)
            ours = scored(folder, suite, items, served.url)
            theirs = None if peer is None else scored_by(peer, task, items, served.url)
            yield {"suite": suite, "ours": ours, "theirs": theirs}


def problem(number: int) -> dict[str, str]:
    """Return a problem in the form of GSM8K; no two are the same."""
    first, second, thing = 2 + number // 5, 1 + number % 4, THINGS[number % len(THINGS)]
    question = f"Mia has {first} {thing}. She finds {second} more. How many {thing} does Mia have now?"
    return {"question": question, "answer": f"{first} and {second} more.\n#### {first + second}"}


def items_of(suite: str, folder: Path, count: int) -> list[Item]:
    """Return the first items of a suite."""
    sources = DataSources(folders=(folder,), cache=folder / "cache", hub="")
    return LOADER.load(LOADER.suite(suite, BenchmarkSpec(model=MODEL, suites=suite)), sources)[:count]


def scored(folder: Path, suite: str, items: list[Item], url: str) -> Scores:
    """Return the score of each item by our pipeline."""
    workspace = folder / suite
    workspace.mkdir()
    spec = BenchmarkSpec(model=MODEL, suites=suite, concurrency=1, tokens_max=TOKENS_MAX)
    told = {"model": {"endpoint": {"provider": "openai", "model": MODEL, "baseUrl": url}}}
    tools = make_tools(
        LocalSandbox(clock=CLOCK), variables={"PODFLEET_PRIVATE_HOSTS": "127.0.0.1"}, data_sets=(folder,)
    )
    reporter = RecordingReporter()

    def load(_: Suite, __: DataSources) -> list[Item]:
        return items

    loader = SuiteLoader(LOADER.suite, LOADER.sources, load)
    run_with(make_context(spec, workspace, reporter=reporter, tools=tools, told=told), loader)
    rows = [each.values for each in reporter.of(ResultRecorded) if each.set == "items"]
    return {str(each["item"]): float(each["score"] or 0.0) for each in rows}


def scored_by(peer: Program, task: str, items: list[Item], url: str) -> Scores:
    """Return the score of each item by lm-eval."""
    rows = [{"id": each.id, "prompt": each.prompt, "answer": each.expected, **_tests(each)} for each in items]
    order = {"task": task, "items": rows, "url": url, "model": MODEL, "tokens_max": TOKENS_MAX}
    found: Scores = peer.ask(order)
    return found


def _tests(item: Item) -> dict[str, Any]:
    if not isinstance(item.payload, Function):
        return {}
    return {
        "opening": item.payload.prompt,
        "test": item.payload.tests,
        "entry_point": item.payload.name,
    }


if __name__ == "__main__":
    for found in main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None):
        print(json.dumps(found), flush=True)
