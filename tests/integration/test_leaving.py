"""How a worker leaves: by order, by its limit of runs, in a dead network, and out of a long pause."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from pymongo.database import Database

from control_plane.store import database as store
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.queue.runs import Runs
from control_plane.upkeep.rescuer import Rescuer
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.exits import EXIT_LEFT
from pod_worker.program import FLUSH_S, LEAVE_S
from podfleet.embedded.process import Command
from podfleet.embedded.service import Service
from podfleet.embedded.supervisor import Supervisor
from tests.fork_server import Program
from tests.integration.conftest import QUICK_WORKER
from tests.integration.relay import Relay

pytestmark = pytest.mark.common_fleet
# test_program.py pins the limit to the digit; here the machine may be busy with other work
GONE_S = 3 * LEAVE_S


def seconds_to_end(process: Program, limit_s: float) -> float:
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    process.wait(limit_s)
    return clock.monotonic_s() - begun_s


def test_a_worker_leaves_after_its_number_of_runs(fleet: Any) -> None:
    ids = [fleet.submit(spec={"seconds": 0.1}) for _ in range(3)]
    worker = fleet.start_worker("--max-runs", "2")
    assert worker.wait(60) == 0
    assert sorted(fleet.run(each)["status"] for each in ids) == ["COMPLETED", "COMPLETED", "QUEUED"]


def test_a_worker_that_leaves_by_itself_delivers_its_events_first(fleet: Any, until: Any) -> None:
    relay = Relay(urlsplit(fleet.url).netloc)
    try:
        worker = fleet.start_worker("--max-runs", "1", CONTROL_PLANE_URL=f"http://{relay.endpoint}")
        run_id = fleet.submit(spec={"seconds": 1, "events": 3})
        until(lambda: fleet.run(run_id)["status"] == "RUNNING")
        relay.late_s = 1.5 * FLUSH_S
        assert worker.wait(60) == 0
        run = fleet.run(run_id)
        assert run["lastEventSeq"] == run["settled"]["last"]
    finally:
        relay.close()


def test_a_worker_leaves_when_nothing_came_for_a_while(fleet: Any) -> None:
    run_id = fleet.submit(spec={"seconds": 0.8})
    worker = fleet.start_worker("--idle-exit", "0.4")
    assert worker.wait(60) == EXIT_LEFT, "nobody is to start it again"
    assert fleet.run(run_id)["status"] == "COMPLETED", "a run is no idleness"


def test_a_worker_whose_container_is_always_started_again_sleeps_without_claiming(
    fleet: Any, until: Any
) -> None:
    worker = fleet.start_worker("--idle-exit", "0.2", PODFLEET_ON_LEAVE="sleep")
    until(lambda: "pod.left" in (fleet.home / "w1.log").read_text())
    run_id = fleet.submit(spec={"seconds": 0})
    SystemClock().wait(threading.Event(), 1.0)
    assert (worker.poll(), fleet.run(run_id)["status"]) == (None, "QUEUED")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == EXIT_LEFT


def test_a_supervisor_starts_a_service_again_unless_it_left_for_good(tmp_path: Path, until: Any) -> None:
    def service(name: str, status: int) -> Service:
        counts = f"open({str(tmp_path / name)!r}, 'a').write('x'); import sys; sys.exit({status})"
        command = Command((sys.executable, "-c", counts), {})
        return Service(
            name=name, command=command, is_ready=lambda: True, start_s=30, grace_s=5, steady_s=30,
            exit_left=EXIT_LEFT,
        )  # fmt: skip

    said: list[str] = []
    services = [service("left", EXIT_LEFT), service("restarted", 0)]
    supervisor = Supervisor([services], logs=tmp_path / "logs", clock=SystemClock(), say=said.append)
    supervisor.begin()
    try:
        until(lambda: not supervisor.is_running())
    finally:
        supervisor.stop()
    assert (tmp_path / "left").read_text() == "x"
    assert (tmp_path / "restarted").read_text() == "xxx", "a start is tried three times"
    assert "left has left for good, and is not started again" in said


def test_a_worker_refuses_a_shift_that_makes_no_sense(fleet: Any) -> None:
    worker = fleet.start_worker("--max-runs", "0", "--idle-exit", "nan")
    assert worker.wait(60) == 2
    said = (fleet.home / "w1.log").read_text()
    assert "--max-runs is 0" in said
    assert "--idle-exit is nan" in said


@pytest.mark.parametrize("spec", [{"seconds": 600}, {"seconds": 0, "end": "deaf"}], ids=["obedient", "deaf"])
def test_sigterm_is_over_in_five_seconds_and_charges_no_attempt(
    fleet: Any, spec: dict[str, Any], until: Any
) -> None:
    worker = fleet.start_worker()
    run_id = fleet.submit(spec=spec)
    until(lambda: fleet.run(run_id)["lastEventSeq"] >= 2)
    worker.send_signal(signal.SIGTERM)
    assert seconds_to_end(worker, 60) < GONE_S
    assert worker.returncode == 0
    run = fleet.run(run_id)
    assert (run["status"], run["failures"]) == (
        "QUEUED",
        {"app": 0, "infra": 0, "preempted": 1, "outside": 0},
    )
    until(lambda: fleet.run(run_id)["attempts"][0]["outcome"])  # it is written beside the run after its end
    attempt = fleet.run(run_id)["attempts"][0]
    assert (attempt["outcome"], attempt["code"]) == ("preempted", None)


def test_a_second_signal_ends_a_worker_at_once(fleet: Any, until: Any) -> None:
    worker = fleet.start_worker()
    run_id = fleet.submit(spec={"seconds": 0, "end": "deaf"})
    until(lambda: fleet.run(run_id)["lastEventSeq"] >= 2)
    child = next(each for each in psutil.Process(worker.pid).children() if each.name() == "podfleet-run")
    worker.send_signal(signal.SIGINT)
    # one that comes before the first was looked at is one with it
    until(lambda: worker.send_signal(signal.SIGINT) or worker.poll() is not None)
    assert worker.wait(60) == 128 + signal.SIGINT, "it waits for nothing"
    until(lambda: not child.is_running())


def test_sigterm_is_over_in_five_seconds_in_a_dead_network(fleet: Any, mongod_pid: int, until: Any) -> None:
    worker = fleet.start_worker()
    run_id = fleet.submit(spec={"seconds": 600})
    until(lambda: fleet.run(run_id)["lastEventSeq"] >= 2)
    os.kill(mongod_pid, signal.SIGSTOP)
    try:
        worker.send_signal(signal.SIGTERM)
        assert seconds_to_end(worker, 60) < GONE_S
    finally:
        os.kill(mongod_pid, signal.SIGCONT)
    assert worker.returncode == 0
    # The end is on its disk: the next worker there settles it before anything else.
    fleet.start_worker()
    until(lambda: fleet.run(run_id)["failures"]["preempted"] == 1)


def test_sigterm_is_over_in_five_seconds_before_the_first_answer_of_the_store(
    fleet: Any, mongod_pid: int, until: Any
) -> None:
    os.kill(mongod_pid, signal.SIGSTOP)
    try:
        worker = fleet.start_worker()
        until(lambda: psutil.Process(worker.pid).net_connections("tcp"))  # it asks, and nobody answers
        worker.send_signal(signal.SIGTERM)
        assert seconds_to_end(worker, 60) < GONE_S
    finally:
        os.kill(mongod_pid, signal.SIGCONT)
    assert worker.returncode == 0


def test_a_worker_that_was_stopped_past_its_lease_asks_first_and_writes_nothing(
    fleet: Any, database: Database[dict[str, Any]], until: Any
) -> None:
    zombie = fleet.start(QUICK_WORKER, "--lease", "3", "--beat", "0.5", name="zombie")
    run_id = fleet.submit(spec={"seconds": 600, "events": 6000})
    until(lambda: fleet.run(run_id)["lastEventSeq"] >= 2)
    zombie.send_signal(signal.SIGSTOP)
    asyncio.run(rescue(fleet.database_url, run_id))
    second = fleet.start_worker(name="second")
    until(lambda: fleet.run(run_id)["attempt"] == 2 and fleet.run(run_id)["status"] == "RUNNING")
    zombie.send_signal(signal.SIGCONT)
    until(lambda: "run.abandoned" in (fleet.home / "zombie.log").read_text())
    run = fleet.run(run_id)
    assert (run["attempt"], run["status"]) == (2, "RUNNING")
    assert run["claimedBy"].startswith("second/")
    assert run["failures"] == {"app": 0, "infra": 1, "preempted": 0, "outside": 0}
    decisions = database.events.find({"runId": run_id, "type": "ai.run.status_changed"}).sort("revision")
    causes = [each["data"]["cause"] for each in decisions]
    assert causes[:4] == ["submit", "claim", "rescue", "claim"]
    second.terminate()
    zombie.terminate()


async def rescue(database_url: str, run_id: str) -> None:
    """Look after the leases until the run is taken back, by us or by the fleet's own control plane."""
    client = store.connect(database_url)
    try:
        db = store.database(client, database_url)
        runs = Runs(db)
        rescuer = Rescuer(runs, LeaseWatches(db), SystemIds(), ttl_s=3.0, gap_max_s=60.0)
        for _ in range(600):
            await rescuer.run_once()
            found = await runs.find(run_id)
            if found is not None and found.run.lease is None:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("nobody was rescued")
    finally:
        await client.close()
