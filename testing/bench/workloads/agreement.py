"""Whether our scores are those of others: the same prompts to the same small model, by us and by lm-eval.

One question at a time, at temperature 0: HumanEval, and problems of our own in the form of GSM8K.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from events.catalog import ResultRecorded
from events.kinds.benchmark import BenchmarkSpec
from events.runtime.clock import SystemIds
from stages.adapters.sandbox.sandbox import LocalSandbox
from stages.benchmark.pipeline import run_with
from stages.benchmark.suite_loader import LOADER, SuiteLoader
from stages.benchmark.suites.data.sources import DataSources
from stages.benchmark.suites.item import Item, Suite
from stages.benchmark.suites.payload import Function
from stages.engines.rows import XLLAMACPP
from stages.engines.serving import serve
from stages.engines.weights import located
from stages.testing import RecordingReporter, make_context, make_tools
from testing.bench.comparison import OURS, Absent, Bench, Metric, Row, Setting
from testing.bench.machine import CLOCK
from testing.bench.peers.environments import Program, environment, program

PEER: Final = "lm-eval"
MODEL: Final = "smollm2"
COUNT: Final = 40
SMALL: Final = 4
TOKENS_MAX: Final = 256
SUITES: Final = {"functions": "humaneval", "numbers": "gsm8k"}
THINGS: Final = ("apples", "books", "coins", "stamps", "shells")
SCORE: Final = Metric("right", "items")
AGREES: Final = Metric("same score", "items")

Scores = dict[str, float]


def run(setting: Setting) -> Iterator[Row]:
    """Score the same items both ways, and count the items whose scores are the same."""
    count = SMALL if setting.small else COUNT
    data = setting.scratch / "problems"
    data.mkdir()
    (data / "gsm8k.jsonl").write_text("".join(f"{json.dumps(problem(each))}\n" for each in range(count)))
    engine = setting.scratch / "engine"
    engine.mkdir()
    parameters = {"n_parallel": 1, "n_ctx": 4_096}
    with ExitStack() as stack:
        served = stack.enter_context(
            serve(
                XLLAMACPP, located(MODEL), parameters, name=MODEL, folder=engine, clock=CLOCK, ids=SystemIds()
            )
        )
        python = environment(PEER, setting)
        peer: Program | Absent = (
            python
            if isinstance(python, Absent)
            else stack.enter_context(program(python, "testing.bench.peers.programs.lm_eval_scores", {}))
        )
        for task, suite in SUITES.items():
            items = items_of(suite, data, count)
            name = f"{len(items)} items of {suite}"
            ours = _ours(setting.scratch, data, suite, items, served.url)
            if isinstance(peer, Absent):
                setting.say(f"{name}: {PEER}: not measured: {peer.reason}")
                yield Row(name, SCORE, {OURS: [sum(ours.values())]}, {PEER: peer.reason})
                continue
            theirs = _theirs(peer, task, items, served.url)
            yield Row(name, SCORE, {OURS: [sum(ours.values())], PEER: [sum(theirs.values())]})
            same = {each for each, score in ours.items() if theirs.get(each) == score}
            for each in sorted(ours.keys() - same):
                setting.say(f"{name}: {each}: {ours[each]} by us, {theirs.get(each)} by {PEER}")
            yield Row(name, AGREES, {OURS: [float(len(same))]})


def problem(number: int) -> dict[str, str]:
    """Return a problem in the form of GSM8K; no two are the same."""
    first, second, thing = 2 + number // 5, 1 + number % 4, THINGS[number % len(THINGS)]
    question = f"Mia has {first} {thing}. She finds {second} more. How many {thing} does Mia have now?"
    return {"question": question, "answer": f"{first} and {second} more.\n#### {first + second}"}


def items_of(suite: str, data: Path, count: int) -> list[Item]:
    """Return the first items of a suite."""
    sources = DataSources(folders=(data,), cache=data / "cache", hub="")
    return LOADER.load(LOADER.suite(suite, BenchmarkSpec(model=MODEL, suites=suite)), sources)[:count]


def _ours(scratch: Path, data: Path, suite: str, items: list[Item], url: str) -> Scores:
    folder = scratch / SystemIds().ulid()
    folder.mkdir()
    spec = BenchmarkSpec(model=MODEL, suites=suite, concurrency=1, tokens_max=TOKENS_MAX)
    told = {"model": {"endpoint": {"provider": "openai", "model": MODEL, "baseUrl": url}}}
    tools = make_tools(
        LocalSandbox(clock=CLOCK), variables={"PODFLEET_PRIVATE_HOSTS": "127.0.0.1"}, data_sets=(data,)
    )
    reporter = RecordingReporter()

    def load(_: Suite, __: DataSources) -> list[Item]:
        return items

    loader = SuiteLoader(LOADER.suite, LOADER.sources, load)
    run_with(make_context(spec, folder, reporter=reporter, tools=tools, told=told), loader)
    rows = [each.values for each in reporter.of(ResultRecorded) if each.set == "items"]
    return {str(each["item"]): float(each["score"] or 0.0) for each in rows}


def _theirs(peer: Program, task: str, items: list[Item], url: str) -> Scores:
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


BENCH: Final = Bench("agreement", "whether scores are those of lm-eval, item by item", run)
