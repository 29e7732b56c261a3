"""Several slots of one pod on a real fleet: each has its own runs, and all of them leave together."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from events.runtime.clock import SystemClock
from events.runtime.exits import EXIT_LEFT
from pod_worker.slots.division import Slot
from pod_worker.slots.supervisor import Outcome, Supervisor, slots_to_run
from tests.fork_server import Program
from tests.integration.command_line import podfleet

pytestmark = pytest.mark.common_fleet
PATIENCE_S = 90.0


class Pod:
    """The slots of a pod, under a supervisor in a thread of the test."""

    def __init__(self, fleet: Any, count: int) -> None:
        self.stop, self.processes = threading.Event(), dict[int, Program]()
        self.fleet, self.outcome = fleet, Outcome(-1)
        slots = slots_to_run(count, "b00t", fleet.home / "many")
        self.supervisor = Supervisor(slots, self.start, SystemClock(), self.stop)
        self.thread = threading.Thread(target=self.run)

    def start(self, slot: Slot) -> Program:
        process: Program = self.fleet.start_quick_worker("--slot", slot.argument, name="many")
        self.processes[slot.number] = process
        return process

    def run(self) -> None:
        self.outcome = self.supervisor.run()


@contextmanager
def pod_of(fleet: Any, count: int) -> Iterator[Pod]:
    pod = Pod(fleet, count)
    pod.thread.start()
    try:
        yield pod
    finally:
        pod.stop.set()
        pod.thread.join(PATIENCE_S)


def test_slots_run_side_by_side_one_that_is_killed_comes_back_and_a_drain_is_for_all(
    fleet: Any, database: Any, until: Callable[..., Any]
) -> None:
    ids = [fleet.submit(spec={"seconds": 0.2, "events": 3}) for _ in range(5)]
    long = fleet.submit(spec={"seconds": 600}, priority=1)
    with pod_of(fleet, 3) as pod:
        for each in ids:
            fleet.wait_for(each, "COMPLETED", limit_s=PATIENCE_S)
        first = fleet.run(long)
        number = int(first["claimedBy"].removeprefix("many/b00t/"))
        killed = pod.processes[number]
        killed.send_signal(signal.SIGKILL)
        until(lambda: _attempt(fleet.run(long), 2), seconds=PATIENCE_S)
        assert fleet.run(long)["claimedBy"].startswith("many/b00t/"), "another slot of the pod may take it"
        until(lambda: pod.processes[number] is not killed and _idle(database) == 2, seconds=PATIENCE_S)
        ended = Counter(each["pod"] for each in database.attempts.find({"outcome": "completed"}))
        assert sum(ended.values()) == len(ids)
        assert ended.keys() <= {f"many/b00t/{slot}" for slot in (1, 2, 3)}
        sources = database.events.aggregate(
            [{"$group": {"_id": {"r": "$runId"}, "s": {"$addToSet": "$source"}}}]
        )
        assert all(len(each["s"]) <= 2 + (each["_id"]["r"] == long) for each in sources)

        assert fleet.client.post(f"/api/runs/{long}/cancel").status_code < 300
        fleet.wait_for(long, "CANCELED", limit_s=PATIENCE_S)
        told = podfleet(fleet.url, "pods", "drain", f"many/b00t/{number}")
        assert told.returncode == 0, told.stderr
        pod.thread.join(PATIENCE_S)
        assert pod.outcome == Outcome(EXIT_LEFT)
    assert {each["state"] for each in database.pods.find()} == {"stopped"}
    assert not list(Path(fleet.home, "many").rglob("run-*"))


def _attempt(run: Any, number: int) -> bool:
    return bool(run["attempt"] == number and run["status"] == "RUNNING")


def _idle(database: Any) -> int:
    found: int = database.pods.count_documents({"state": "idle"})
    return found
