"""`make demo-race`: four pods on this machine, and a race in which each has a small model tell a story."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from events.answers.plans.races import Race, RaceNumber
from events.runtime.clock import SystemClock
from podfleet.client.synchronous import Client
from podfleet.embedded.interrupts import Interrupts
from podfleet.embedded.stack import DEFAULT_DATA, DEFAULT_PORT, Stack
from scripts.demo import EXIT_FAILED, Interrupted, with_fleet

THROTTLED: Final = "throttled"
LOOK_S: Final = 0.5
REPORT_LIMIT_S: Final = 30.0
LEAVE_LIMIT_S: Final = 30.0
OVER: Final = ("COMPLETED", "FAILED", "CANCELED")
SPEC: Final[dict[str, Any]] = {
    "model": "smollm2",
    "prompt": "Tell a short story of a lighthouse keeper.",
    "max_tokens": 32,
    "repeats": 3,
}
# The fleet has the pods local-1 to local-3; one more has a single core.
LANES: Final[list[dict[str, Any]]] = [
    {"pod": "local-1"},
    {"pod": "local-2", "parameters": {"parameters": {"n_threads": 1}}},
    {"pod": "local-3", "parameters": {"parameters": {"cache_type_k": "q8_0"}}},
    {"pod": THROTTLED},
]


def main() -> int:
    """Run the demo; return 0 when every lane came in."""
    parser = argparse.ArgumentParser(prog="python -m scripts.demo_race", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder that keeps the fleet's data")
    parser.add_argument(
        "--port", type=int, help=f"port of the control plane (default {DEFAULT_PORT}, else any)"
    )
    arguments = parser.parse_args()

    def run(stack: Stack, console: Console, asked: Interrupts) -> int:
        with _throttled(arguments.data):
            return _run(stack, console, asked)

    return with_fleet(arguments, run, workers=len(LANES) - 1)


@contextmanager
def _throttled(data: Path) -> Iterator[None]:
    """Run one more worker, on a single core, as long as the block lasts."""
    program = (sys.executable, "-m", "pod_worker", "--mode", "hybrid", "--data", str(data / THROTTLED))
    words = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *program)
    given = {**os.environ, "PODFLEET_DATA": str(data.absolute()), "PODFLEET_POD_ID": THROTTLED}
    with (data / "logs" / f"{THROTTLED}.log").open("ab") as log:
        worker = subprocess.Popen(words, env=given, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        worker.terminate()
        try:
            worker.wait(LEAVE_LIMIT_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _run(stack: Stack, console: Console, asked: Interrupts) -> int:
    clock = SystemClock()
    with Client(stack.url, stack.api_key) as client:
        wait = _Wait(clock, asked)
        wanted = {str(each["pod"]) for each in LANES}
        end_s = clock.monotonic_s() + REPORT_LIMIT_S
        while wanted - _reporting(client) and clock.monotonic_s() < end_s:
            wait()
        race = client.add_race("prompt", SPEC, lanes=LANES)
        path = f"/races/{race.id}"
        link = stack.sign_in_link(path) or f"{stack.url}{path}"
        console.print(f"watch it  {escape(link)}", soft_wrap=True, highlight=False)
        webbrowser.open(link)
        is_told = False
        while race.status not in OVER:
            wait()
            race = client.race(race.id)
            if race.start_at is not None and not is_told:
                is_told = True
                console.print(f"all lanes start at {race.start_at}")
    return report(console, race)


class _Wait:
    """Lets a moment pass; a Ctrl-C ends the demo."""

    def __init__(self, clock: SystemClock, asked: Interrupts) -> None:
        self._clock, self._asked, self._never = clock, asked, threading.Event()

    def __call__(self) -> None:
        if self._asked.count:
            raise Interrupted
        self._clock.wait(self._never, LOOK_S)


def _reporting(client: Client) -> set[str]:
    return {each.pod for each in client.pods() if each.state not in ("stopped", "gone")}


def report(console: Console, race: Race) -> int:
    """Print what each lane measured, and who won; return 0 where every lane came in."""
    table = Table("", "pod", "settings", "TTFT", "tokens/s", "±95 %", "finished", "lane", box=SIMPLE_HEAD)
    lanes = sorted(race.lanes, key=lambda lane: (lane.place is None, lane.place or 0, lane.slot))
    for lane in lanes:
        speed, first = lane.figures.get("tokens_per_s"), lane.figures.get("ttft_s")
        settings = (lane.parameters.get("parameters") or {}).items()
        table.add_row(
            "–" if lane.place is None else str(lane.place),
            escape(lane.pod),
            ", ".join(f"{name}={value}" for name, value in settings) or "defaults",
            _number(None if first is None else first.mean, "{:.2f} s"),
            _number(None if speed is None else speed.mean, "{:.1f}"),
            _number(_half(speed), "{:.1f}"),
            _number(lane.finish_s, "{:.1f} s"),
            escape(lane.failure or lane.state),
        )
    console.print(table)
    console.print(escape(race.verdict.says), soft_wrap=True)
    if race.skew_s is not None:
        console.print(f"the lanes started within {1000 * race.skew_s:.1f} ms of each other")
    return 0 if all(lane.status == "COMPLETED" for lane in lanes) else EXIT_FAILED


def _half(figure: RaceNumber | None) -> float | None:
    """Return half of the width of a mean's interval."""
    return (
        None
        if figure is None or figure.high is None or figure.low is None
        else (figure.high - figure.low) / 2
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


if __name__ == "__main__":
    sys.exit(main())
