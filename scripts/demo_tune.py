"""`make demo-tune`: the whole fleet on this machine, and a study of how a small model is served best."""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Any, Final

import httpx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from events.runtime.clock import SystemClock
from podfleet.embedded.interrupts import Interrupts
from podfleet.embedded.stack import DEFAULT_DATA, DEFAULT_PORT, Stack
from scripts.demo import EXIT_FAILED, Interrupted, with_fleet

EXPERIMENTS: Final = 6
LOOK_S: Final = 1.0
OVER: Final = ("COMPLETED", "FAILED", "CANCELLED")
TASK: Final[dict[str, Any]] = {
    "description": "Which launch parameters serve the small model best on this machine?",
    "model": {"id": "smollm2"},
    "parameters": {"n_parallel": [1, 2, 4], "n_batch": [128, 2048], "cache_type_k": ["f16", "q8_0"]},
    "optimization": {"strategy": "bayesian", "max_iterations": EXPERIMENTS},
    "benchmark": {"traffic_scenarios": "D(40,10)", "num_concurrency": [4], "requests": 8},
}


def main() -> int:
    """Run the demo; return 0 when a best configuration was found."""
    parser = argparse.ArgumentParser(prog="python -m scripts.demo_tune", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder that keeps the fleet's data")
    parser.add_argument(
        "--port", type=int, help=f"port of the control plane (default {DEFAULT_PORT}, else any)"
    )
    arguments = parser.parse_args()
    return with_fleet(arguments, lambda stack, console, asked: _run(stack, console, asked))


def _run(stack: Stack, console: Console, asked: Interrupts) -> int:
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    clock = SystemClock()
    with httpx.Client(base_url=stack.url, headers=headers, trust_env=False, timeout=30.0) as client:
        body = {**TASK, "name": f"Demo of {clock.now():%Y-%m-%d %H:%M:%S}"}
        task = client.post("/api/tasks", json=body).raise_for_status().json()
        path = f"/tasks/{task['id']}"
        client.post(f"/api{path}/start").raise_for_status()
        link = stack.sign_in_link(path) or f"{stack.url}{path}"
        console.print(f"watch it  {escape(link)}", soft_wrap=True, highlight=False)
        webbrowser.open(link)
        never, told = threading.Event(), 0
        while True:
            if asked.count:
                raise Interrupted
            task = client.get(f"/api{path}").raise_for_status().json()
            if task["successfulExperiments"] != told:
                told = task["successfulExperiments"]
                console.print(f"{told} of {task['plannedExperiments']} experiments are measured")
            if task["status"] in OVER:
                break
            clock.wait(never, LOOK_S)
        found = client.get(f"/api{path}/experiments", params={"limit": 200}).raise_for_status().json()
    return _report(console, task, found["items"])


def _report(console: Console, task: dict[str, Any], experiments: list[dict[str, Any]]) -> int:
    names = [*TASK["parameters"]]
    table = Table("", "experiment", *names, "tokens/s", "first token p99", "outcome")
    for each in experiments:
        summary = each["summary"]
        table.add_row(
            "★" if each["isBest"] else "",
            str(each["number"]),
            *(str(each["parameters"].get(name, "")) for name in names),
            _number(each["score"], "{:,.1f}"),
            _number(summary.get("ttft_p99_s"), "{:.2f} s"),
            escape(each["outcome"] or each["status"]),
        )
    console.print(table)
    if task["best"] is None:
        failure = task["failure"] or {}
        console.print(f"[red]{task['status']}[/red] {escape(failure.get('message') or '')}")
        return EXIT_FAILED
    console.print("\nthe best is served by")
    console.print(escape(task["bestCommand"]), soft_wrap=True, highlight=False)
    return 0


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


if __name__ == "__main__":
    sys.exit(main())
