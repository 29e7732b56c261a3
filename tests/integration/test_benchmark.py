"""Benchmarks on a fleet: real programs, a scripted endpoint over HTTP, and children that are killed in the middle."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fork_server import Program
from tests.integration.conftest import Fleet
from tests.integration.programs.model_server import Asked, ModelServer, Reply
from tests.integration.test_fleet import child_of
from tests.integration.test_steering import must_agree_with_its_log

pytestmark = pytest.mark.common_fleet
Until = Callable[..., None]

MODEL: Final = "scripted-1"
COUNT: Final = 40
PRICES: Final = f'[usd_per_million_tokens]\n"{MODEL}" = {{ input = 100.0, output = 1000.0 }}\n'


def start_pod(fleet: Fleet, server: ModelServer, *options: str, name: str = "pod") -> Program:
    """Start a worker whose pod has the model, its prices, and the file of a suite."""
    folder = fleet.home / "suites"
    folder.mkdir(exist_ok=True)
    lines = [
        {"question": f"What is {number}?", "answer": f"It is.\n#### {number}"} for number in range(COUNT)
    ]
    (folder / "gsm8k.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    (fleet.home / "prices.toml").write_text(PRICES)
    return fleet.start_quick_worker(
        *options,
        name=name,
        OPENAI_BASE_URL=server.openai_url,
        OPENAI_API_KEY="sk-of-a-test",
        OPENAI_MODEL=MODEL,
        PODFLEET_PRICES=str(fleet.home / "prices.toml"),
        PODFLEET_DATASETS=str(folder),
    )


def submit(fleet: Fleet, **spec: Any) -> str:
    return fleet.submit("benchmark", spec={"model": MODEL, "suites": "gsm8k", **spec}, max_attempts=3)


def number_in(asked: Asked) -> int:
    return int("".join(each for each in asked.text if each.isdecimal())[:6])


def rows_of(fleet: Fleet, run_id: str, name: str = "items") -> dict[str, Any]:
    answer = fleet.client.get(f"/api/runs/{run_id}/results", params={"set": name, "limit": 200})
    assert answer.status_code == 200, answer.text
    return {each["key"]: each for each in answer.json()["items"]}


def test_a_benchmark_of_a_scripted_model_ends_with_its_scores_and_its_items(fleet: Fleet) -> None:
    def script(asked: Asked) -> Reply:
        number = number_in(asked)
        return Reply(text=str(number if number % 4 else number + 1))

    with ModelServer(script) as server:
        start_pod(fleet, server)
        run_id = submit(fleet, suites="gsm8k,gpqa")
        try:
            run = fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=60)
        finally:
            print((fleet.home / "pod.log").read_text()[-6000:])
            print(json.dumps(fleet.run(run_id))[:3000])
            print(server.asked[:2], len(server.asked))
    assert run["status"] == "COMPLETED", run
    print(run["summary"], run)
    must_agree_with_its_log(fleet)
