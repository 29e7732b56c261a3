"""`make demo-benchmark`: the whole fleet on this machine, a small model that it serves, and HumanEval."""

from __future__ import annotations

import argparse
import sys
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
from scripts.demo import EXIT_FAILED, Demo, with_fleet

ITEMS: Final = 10
COLUMNS: Final = ("verdict", "seconds", "tokens", "why")
WHY_CHARS: Final = 60


def main() -> int:
    """Run the demo; return 0 when the benchmark has a score, whatever it is."""
    parser = argparse.ArgumentParser(prog="python -m scripts.demo_benchmark", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder that keeps the fleet's data")
    parser.add_argument(
        "--port", type=int, help=f"port of the control plane (default {DEFAULT_PORT}, else any)"
    )
    parser.add_argument("--items", type=int, default=ITEMS, help=f"items of the suite (default {ITEMS})")
    arguments = parser.parse_args()
    return with_fleet(arguments, lambda stack, console, asked: _run(stack, arguments, console, asked))


def _run(stack: Stack, arguments: argparse.Namespace, console: Console, asked: Interrupts) -> int:
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    spec = {"model": "smollm2", "suites": "humaneval", "sample_size": arguments.items}
    with httpx.Client(base_url=stack.url, headers=headers, trust_env=False, timeout=30.0) as client:
        answer = client.post("/api/runs", json={"kind": "benchmark", "spec": spec})
        answer.raise_for_status()
        run_id = str(answer.json()["id"])
        path = f"/runs/{run_id}/results?set=items"
        link = stack.sign_in_link(path) or f"{stack.url}{path}"
        console.print(f"watch it  {escape(link)}", soft_wrap=True, highlight=False)
        webbrowser.open(link)
        run = Demo(client, console, SystemClock(), asked).watch(run_id)
        found = client.get(f"/api/runs/{run_id}/results", params={"set": "items", "limit": 200})
        return _report(console, run, found.raise_for_status().json()["items"])


def _report(console: Console, run: dict[str, Any], rows: list[dict[str, Any]]) -> int:
    if run["status"] != "COMPLETED":
        error = run["error"] or {}
        console.print(f"[red]{run['status']}[/red] {escape(error.get('message') or '')}")
        return EXIT_FAILED
    table = Table("item", *COLUMNS)
    for row in rows:
        texts = [str(row["values"].get(name) or "")[:WHY_CHARS] for name in COLUMNS]
        table.add_row(escape(row["key"]), *map(escape, texts))
    console.print(table)
    console.print(f"\n{escape(run['settled']['message'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
