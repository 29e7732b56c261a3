"""What it costs a pipeline to say something, and what a gigabyte of printed lines does to memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from events.delivery.outbox import Outbox
from events.delivery.sender import Declined, Sender, Taken, Telemetry
from events.queue.claims import Claim, Orders
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds, instant
from events.runtime.loops import start_thread
from pod_worker.attempt.attempt import Attempt, Ports
from pod_worker.attempt.heartbeat import Heartbeat, Pulse
from pod_worker.attempt.lease import grant
from pod_worker.child.exit_status import NeverStarted
from pod_worker.child.process import Child, ChildOptions
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.machine import ROOT

CLOCK: Final = SystemClock()
IDS: Final = SystemIds()
LEASE_S: Final = 3600.0
READY_S: Final = 60.0
SMALL_BYTES: Final = 1 << 26
GROWS_MIB: Final = 16.0
LOOK_S: Final = 0.2

EVENT: Final = (
    Metric("mean", "µs", more_is_better=False, goals=(Goal(10.0),)),
    Metric("median", "µs", more_is_better=False),
    Metric("p99", "µs", more_is_better=False),
)
TRAINING: Final = (
    Metric("slowed", "%", more_is_better=False, goals=(Goal(1.0),)),
    Metric("steps", "/s"),
)
PRINTING: Final = (
    Metric("child grows", "MiB", more_is_better=False, goals=(Goal(GROWS_MIB),)),
    Metric("parent grows", "MiB", more_is_better=False, goals=(Goal(GROWS_MIB),)),
    Metric("lines", "/s"),
    Metric("lost", "lines", more_is_better=False, goals=(Goal(0.0),)),
)


def run(setting: Setting) -> Iterator[Row]:
    """Let a pipeline tell single numbers, tell them while it trains, and print a gigabyte."""
    for what, drill, metrics in (
        ("an event", "emitting", EVENT),
        ("training loop with 100 metrics/s", "training", TRAINING),
    ):
        yield from contest(what, metrics, {OURS: partial(_of_program, setting, drill)}, setting)
    once = Setting(1, setting.scratch, setting.say, setting.small)
    yield from contest(
        "1 GiB of printed lines", PRINTING, {OURS: partial(_of_program, once, "printing")}, once
    )


def _of_program(setting: Setting, drill: str) -> Figures:
    """Measure in a fresh process, whose memory is the parent's alone."""
    home = setting.scratch / IDS.ulid()
    home.mkdir()
    command = [sys.executable, "-m", "testing.bench.workloads.emit", drill, str(home)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    if setting.small:
        environ["PYTHON_BENCH_BYTES"] = str(SMALL_BYTES)
    answer = subprocess.run(command, env=environ, capture_output=True, check=True)
    figures: Figures = json.loads(answer.stdout)
    return figures


@dataclass
class Fleet:
    """What a pod talks to, without a network: a lease that is never lost, ingest that takes everything."""

    lines: int = 0

    def renew(self, claim: Claim) -> Orders:
        return Orders()

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        assert how.outcome == "completed", how

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        self.lines += sum(b'"ai.run.log"' in line for line in lines)
        return Taken()


@dataclass
class NoUploads:
    """No file is made."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@dataclass
class Gauge:
    """The most memory that this process had."""

    most_mib: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not CLOCK.wait(self.stop, LOOK_S):
            self.most_mib = max(self.most_mib, _mib())


def serve(drill: str, home: Path) -> Figures:
    """Be the pod: run one attempt of a drill with everything but the network."""
    fleet, gauge, figures_path = Fleet(), Gauge(), home / "figures.json"
    claim = Claim("runs", IDS.ulid(), 1, "token", "probe", {"seconds": 0.0, "time_limit_s": LEASE_S}, None)
    options = ChildOptions(
        environ=os.environ,
        kinds=("probe",),
        command=(sys.executable, "-m", "testing.bench.programs.drills", drill, str(figures_path)),
    )
    with Outbox(home / "outbox.db", clock=CLOCK, ids=IDS) as outbox, Child.spawn(options, CLOCK) as child:
        ready = child.wait_ready(READY_S)
        assert not isinstance(ready, NeverStarted), ready
        quiet = threading.Event()
        sender = Sender(outbox, Telemetry(clock=CLOCK, ids=IDS), fleet, CLOCK, IDS)
        start_thread("sender", lambda: sender.run(quiet, lambda _: None))
        outbox.open_attempt(claim.attempt_id, token=claim.token, source="//bench", collection="runs")
        ports = Ports(
            queue=fleet,
            outbox=outbox,
            uploads=cast(Any, NoUploads()),
            checkpoints=cast(Any, None),
            secrets=cast(Any, None),
            clock=CLOCK,
            ids=IDS,
            threads=start_thread,
            work=home / "work",
            stop=threading.Event(),
        )
        lease = grant(requested_at=instant(CLOCK), ttl_s=LEASE_S)
        before_mib = _mib()
        start_thread("gauge", gauge.watch)
        Attempt(ports, claim, child, Heartbeat(claim, fleet, CLOCK, Pulse(lease)), lambda _: None).run()
        gauge.stop.set()
        sender.flush(CLOCK.monotonic_s() + READY_S)
        quiet.set()
    figures: dict[str, float] = json.loads(figures_path.read_text())
    if "child grows" in figures:
        figures["parent grows"] = gauge.most_mib - before_mib
        figures["lost"] = figures.pop("printed") - fleet.lines
    return figures


def _mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


BENCH: Final = Bench("emit", "what it costs a pipeline to say something; a gigabyte of printed lines", run)

if __name__ == "__main__":
    print(json.dumps(serve(sys.argv[1], Path(sys.argv[2]))))
