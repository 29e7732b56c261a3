"""`make demo`: the whole fleet on this machine, one real experiment, and what it made, in your hands."""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from events.answers.conclusions import conclusion
from events.kinds.experiment import ABLATED, best_of
from events.lifecycle import FINAL
from events.runtime.clock import Clock, SystemClock, SystemIds
from events.runtime.errors import PodfleetError
from podfleet.embedded.config import environment
from podfleet.embedded.interrupts import Interrupts, interrupts
from podfleet.embedded.ports import is_free
from podfleet.embedded.stack import DEFAULT_DATA, DEFAULT_PORT, Options, Stack, World

ROOT: Final = Path(__file__).resolve().parent.parent
HYPOTHESES: Final = ROOT / "stages/kinds/experiment/hypotheses"
LOOK_S: Final = 0.5
PAGE: Final = 200
PAPER: Final = "paper/paper.pdf"
FIGURE: Final = re.compile(r"plots/[^/]+\.png")  # those of single nodes lie deeper
EXIT_FAILED: Final = 1
EXIT_WRONG_USE: Final = 2
EXIT_INTERRUPTED: Final = 130
# The run has ended, or only a person can move it on.
OVER: Final = frozenset({*(status.value for status in FINAL), "AWAITING_HUMAN"})


class Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


@dataclass(slots=True)
class Progress:
    """What the terminal shows, folded from the run's events."""

    stage: str = "waiting for a worker"
    activity: str = ""
    node: str = "–"
    best: str = "–"
    done: float = 0.0

    def take(self, event: Mapping[str, Any]) -> None:
        """Fold one event."""
        data = event["data"]
        match event["type"]:
            case "ai.run.stage_started":
                self.stage, self.activity, self.done = data["stage"], "", 0.0
                self.node = "–"
            case "ai.run.stage_progress":
                self.done, self.activity = data["progress"], data.get("activity") or ""
            case "ai.node.executing":
                self.node = data["node"]
            case "ai.node.selected_best" if data.get("metric") is not None and data["stage"] != ABLATED:
                self.best = (
                    f"{data['metric']:.4f} ({data['node']}, {best_of(data['stage'], data.get('arm'))})"
                )
            case "ai.node.completed" if data.get("metric") is not None:
                self.node = f"{data['node']}: {data['metric']:.4f}"


@dataclass(slots=True)
class Demo:
    """One run watched from submit to its end."""

    client: httpx.Client
    console: Console
    clock: Clock
    asked: Interrupts
    progress: Progress = field(default_factory=Progress)
    _after: str | None = None
    _told: str = ""

    def submit(self, hypothesis: Path) -> str:
        """Post a hypothesis, which queues its run; return the run's id."""
        idea = json.loads(hypothesis.read_text())
        body = {"title": idea["Title"], "idea": idea, "spec": {"preset": "quick", "review": "none"}}
        answer = self._ok(self.client.post("/api/hypotheses", json=body))
        return str(answer["run_id"])

    def watch(self, run_id: str) -> dict[str, Any]:
        """Show the run until it is over; return it."""
        begun_s = self.clock.monotonic_s()
        never = threading.Event()
        with Live(console=self.console, refresh_per_second=4, transient=True) as live:
            while True:
                self._check_interrupt()
                run = self._ok(self.client.get(f"/api/runs/{run_id}"))
                self._read_events(run_id)
                self._tell(begun_s)
                live.update(self._table(run, begun_s))
                if run["status"] in OVER and not run["logOpen"]:
                    return run
                self.clock.wait(never, LOOK_S)

    def download(self, run_id: str, folder: Path) -> list[Path]:
        """Fetch the paper and the figures over the whole run from object storage; return where they lie."""
        paths = []
        for artifact in self._artifacts(run_id):
            if artifact["name"] != PAPER and not FIGURE.fullmatch(artifact["name"]):
                continue
            self._check_interrupt()
            path = folder / artifact["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            answer = self.client.get(f"/api/artifacts/{artifact['id']}", follow_redirects=True)
            answer.raise_for_status()
            path.write_bytes(answer.content)
            paths.append(path)
        return sorted(paths)

    def _artifacts(self, run_id: str) -> Iterator[dict[str, Any]]:
        """Yield every artifact of a run, page by page."""
        parameters = {"limit": str(PAGE)}
        while True:
            page = self._ok(self.client.get(f"/api/runs/{run_id}/artifacts", params=parameters))
            yield from page["items"]
            if page["next"] is None:
                return
            parameters["after"] = page["next"]

    def _read_events(self, run_id: str) -> None:
        """Fold what was said since the last look."""
        while True:
            parameters = {
                "limit": str(PAGE),
                "order": "oldest",
                **({"after": self._after} if self._after else {}),
            }
            page = self._ok(self.client.get(f"/api/runs/{run_id}/events", params=parameters))
            for event in page["items"]:
                self.progress.take(event)
            self._after = page["tail"]
            if len(page["items"]) < PAGE:
                return

    def _tell(self, begun_s: float) -> None:
        """Write one line whenever a node or a stage moved on: it stays on the terminal, or in a log."""
        now = self.progress
        line = f"{now.stage:10} {now.node:28} best {now.best}" if now.node != "–" else f"{now.stage:10}"
        if line != self._told:
            self.console.print(f"  {self._elapsed(begun_s)}  {escape(line)}", highlight=False)
            self._told = line

    def _table(self, run: Mapping[str, Any], begun_s: float) -> Table:
        now = self.progress
        table = Table.grid(padding=(0, 2))
        rows = {
            "status": run["status"],
            "stage": f"{now.stage}  {now.done:.0%}",
            "doing": now.activity,
            "last node": now.node,
            "best": now.best,
            "elapsed": self._elapsed(begun_s),
        }
        for name, value in rows.items():
            table.add_row(f"[dim]{name}[/dim]", escape(str(value)))
        return table

    def _elapsed(self, begun_s: float) -> str:
        seconds = int(self.clock.monotonic_s() - begun_s)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def _check_interrupt(self) -> None:
        if self.asked.count:
            raise Interrupted

    def _ok(self, response: httpx.Response) -> dict[str, Any]:
        if response.is_error:
            raise PodfleetError("DEMO", f"the control plane answers {response.status_code}: {response.text}")
        answer: dict[str, Any] = response.json()
        return answer


def main() -> int:
    """Run the demo; return 0 when the experiment reached its end, whatever its verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder that keeps the fleet's data")
    parser.add_argument(
        "--port", type=int, help=f"port of the control plane (default {DEFAULT_PORT}, else any)"
    )
    parser.add_argument("--hypothesis", type=Path, default=sorted(HYPOTHESES.glob("*.json"))[0])
    arguments = parser.parse_args()
    return with_fleet(arguments, lambda stack, console, asked: _run(stack, arguments, console, asked))


def with_fleet(
    arguments: argparse.Namespace, run: Callable[[Stack, Console, Interrupts], int], *, workers: int = 1
) -> int:
    """Start a fleet on this machine, do what `run` does with it, end it; return the exit status."""
    console = Console()
    port = arguments.port if arguments.port is not None else (DEFAULT_PORT if is_free(DEFAULT_PORT) else 0)
    options = Options(data=arguments.data, port=port, workers=workers)
    clock = SystemClock()
    world = World(environment=environment(Path.cwd()), clock=clock, ids=SystemIds(), say=_say(console))
    with interrupts() as asked:
        stack = Stack(options, world)
        try:
            stack.begin()
            while not stack.is_settled(LOOK_S):
                if asked.count:
                    raise Interrupted
            stack.check()
            return run(stack, console, asked)
        except Interrupted:
            console.print("interrupted: stopping everything")
            return EXIT_INTERRUPTED
        except (PodfleetError, httpx.HTTPError) as error:
            console.print(f"[red]the demo failed:[/red] {escape(str(error))}")
            return EXIT_FAILED
        finally:
            stack.ask_to_stop()
            while stack.is_running():
                if asked.count > 1:
                    stack.hurry()
                clock.wait(threading.Event(), LOOK_S)
            stack.stop()


def _run(stack: Stack, arguments: argparse.Namespace, console: Console, asked: Interrupts) -> int:
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    with httpx.Client(base_url=stack.url, headers=headers, trust_env=False, timeout=30.0) as client:
        demo = Demo(client, console, SystemClock(), asked)
        run_id = demo.submit(arguments.hypothesis)
        console.print(f"submitted {escape(arguments.hypothesis.stem)}")
        link = stack.sign_in_link(f"/runs/{run_id}") or f"{stack.url}/runs/{run_id}"
        console.print(f"watch it  {escape(link)}", soft_wrap=True, highlight=False)
        run = demo.watch(run_id)
        return _report(demo, run, stack.url, arguments.data)


def _report(demo: Demo, run: Mapping[str, Any], url: str, data: Path) -> int:
    console, run_id = demo.console, run["id"]
    if run["status"] in ("FAILED", "CANCELED"):
        error = run["error"] or {}
        console.print(
            f"[red]{run['status']}[/red] {error.get('code', '')}: {escape(error.get('message') or '')}"
        )
        return EXIT_FAILED
    verdict = run["validation"] or {}
    word = conclusion(verdict) if verdict else "unknown"
    console.print(
        f"\nverdict   the hypothesis is [bold]{word}[/bold]: {escape(verdict.get('summary') or '')}"
    )
    console.print(f"web       {url}/runs/{run_id}")
    for path in demo.download(run_id, data / "downloads" / run_id):
        console.print(f"{'paper' if path.suffix == '.pdf' else 'plot':9} {path}", soft_wrap=True)
    console.print(f"\nLook around with: .venv/bin/podfleet up --data {data}")
    return 0


def _say(console: Console) -> Any:
    return lambda line: console.print(f"[dim]{escape(line)}[/dim]")


if __name__ == "__main__":
    sys.exit(main())
