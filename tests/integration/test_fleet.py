"""A real worker with real children against a real control plane: ends, deaths, orders."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from pod_worker.isolation.privileges import KEPT
from tests.integration.conftest import QUICK_WORKER

pytestmark = pytest.mark.common_fleet


def child_of(worker: Any) -> psutil.Process:
    """Return the pipeline's process of a worker."""
    children = psutil.Process(worker.pid).children(recursive=True)
    return next(each for each in children if each.name() == "podfleet-run")


def be_short(database: Any, run_id: str) -> None:
    """Let the next attempt of a probe end soon; the one before was to last until it was ended."""
    database.run_specs.update_one({"_id": run_id}, {"$set": {"spec.seconds": 0.5}})


def capabilities(process: psutil.Process) -> set[int]:
    """Return the sets of capabilities that a process has, may use, or could get by an exec."""
    named = dict(line.split(":\t") for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return {int(named[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")}


def test_every_end_of_a_child_has_its_own_code(fleet: Any, until: Any) -> None:
    fleet.start_worker()
    expected = {
        "completed": ("COMPLETED", None),
        "exception": ("FAILED", "ValueError"),
        "segfault": ("FAILED", "SEGFAULT"),
        "out_of_memory": ("FAILED", "OUT_OF_MEMORY"),
        "exit": ("FAILED", "EXITED"),
        "hang": ("FAILED", "TIMEOUT"),
    }
    ids = {
        end: fleet.submit(
            max_attempts=1, spec={"seconds": 0.1, "end": end, "time_limit_s": 2 if end == "hang" else 600}
        )
        for end in expected
    }
    killed = fleet.submit(max_attempts=1, spec={"seconds": 0.1, "end": "kill"})
    for end, run_id in ids.items():
        run = fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=150)
        assert (run["status"], run["error"] and run["error"]["code"]) == expected[end], end
        finals = fleet.client.get(f"/api/runs/{run_id}/events", params={"type": "ai.run.failed"}).json()
        assert (run["attempt"], len(finals["items"])) == (1, run["status"] == "FAILED")
    until(lambda: fleet.run(killed)["error"])
    run = fleet.run(killed)  # one end from outside is not the run's
    assert (run["error"]["code"], run["finishedAt"], run["failures"]["app"]) == ("KILLED", None, 0)


def test_a_retryable_failure_is_tried_again_until_its_budget_is_spent(fleet: Any) -> None:
    fleet.start_worker()
    run_id = fleet.submit(max_attempts=2, spec={"seconds": 0, "end": "retryable"})
    run = fleet.wait_for(run_id, "FAILED", limit_s=90)
    assert (run["attempt"], run["failures"]["app"]) == (2, 2)
    assert [each["outcome"] for each in run["attempts"]] == ["failed", "failed"]


def test_a_file_comes_back_byte_for_byte(fleet: Any) -> None:
    fleet.start_worker()
    run_id = fleet.submit(spec={"seconds": 0.1, "artifact_bytes": 3_000_000})
    run = fleet.wait_for(run_id, "COMPLETED")
    (artifact,) = run["artifacts"]
    content = fleet.client.get(f"/api/artifacts/{artifact['id']}", follow_redirects=True).content
    assert len(content) == artifact["size"] == 3_000_000


def test_sigterm_gives_the_run_back_and_another_worker_finishes_it(fleet: Any, database: Any) -> None:
    first = fleet.start_worker(name="first")
    run_id = fleet.submit(spec={"seconds": 600})
    fleet.wait_for(run_id, "RUNNING")
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    run = fleet.run(run_id)
    assert (run["status"], run["failures"]) == (
        "QUEUED",
        {"app": 0, "infra": 0, "preempted": 1, "outside": 0},
    )
    be_short(database, run_id)
    fleet.start_worker(name="second")
    run = fleet.wait_for(run_id, "COMPLETED")
    assert [each["outcome"] for each in run["attempts"]] == ["preempted", "completed"]


def test_a_cancel_reaches_a_talking_child_before_the_next_renewal(fleet: Any, until: Any) -> None:
    # It renews no lease meanwhile: what reaches it are ingest's answers.
    worker = fleet.start(QUICK_WORKER, "--lease", "3600", "--beat", "3600", name="w1", WORKER_MODE="hybrid")
    run_id = fleet.submit(spec={"seconds": 600, "events": 6000})
    fleet.wait_for(run_id, "RUNNING")
    child = child_of(worker)
    if os.getuid() == 0:
        assert capabilities(child) <= {0, KEPT}
    assert fleet.client.post(f"/api/runs/{run_id}/cancel").json()["status"] == "CANCELING"
    until(lambda: not child.is_running())
    run = fleet.wait_for(run_id, "CANCELED")
    assert run["attempts"][0]["outcome"] == "canceled"


def ledger(fleet: Any) -> dict[str, Any]:
    """Return the total of what the fleet spent its time on."""
    answer = fleet.client.get("/api/ledger", params={"by": "run"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["total"])


def test_a_killed_worker_leaves_no_child_and_gives_the_run_back_when_it_is_started_again(
    fleet: Any, database: Any, until: Any
) -> None:
    worker = fleet.start_worker()
    run_id = fleet.submit(spec={"seconds": 60, "events": 600})
    fleet.wait_for(run_id, "RUNNING")
    child = child_of(worker)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    until(lambda: not child.is_running())
    be_short(database, run_id)
    fleet.start_worker()  # on the same disk, long before the lease is over
    run = fleet.wait_for(run_id, "COMPLETED")
    assert run["failures"] == {"app": 0, "infra": 1, "preempted": 0, "outside": 0}
    lost, done = run["attempts"]
    assert (lost["outcome"], lost["code"], done["outcome"]) == ("lost", "POD_LOST", "completed")
    assert "started again" in lost["message"]
    of_first = {"runId": run_id, "attempt": 1, "sequence": {"$gt": 1}}
    until(lambda: database.events.count_documents(of_first) > 0)  # what it had stored is delivered too
    until(lambda: all(ledger(fleet)["classes"][of]["seconds"] > 0 for of in ("useful", "lost_pod")))
    found = ledger(fleet)
    parts = [round(1_000 * each["seconds"]) for each in found["classes"].values()]
    assert sum(parts) == round(1_000 * found["all"]["seconds"])
    page = fleet.client.get("/ledger?by=run")
    assert (page.status_code, f'href="/runs/{run_id}"' in page.text) == (200, True)
    file = fleet.client.get("/api/ledger/export", params={"by": "run"})
    assert file.text.startswith("key,title,all_seconds")
    assert f"\r\n{run_id},probe," in file.text
    wrong = fleet.client.get("/api/ledger", params={"from": "2199-01-01T00:00:00Z"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "ledger_window"), wrong.text


def test_a_person_takes_a_run_from_a_pod_that_is_gone(fleet: Any, database: Any, until: Any) -> None:
    worker = fleet.start_worker(name="gone")
    run_id = fleet.submit(spec={"seconds": 600})
    fleet.wait_for(run_id, "RUNNING")
    child = child_of(worker)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    until(lambda: not child.is_running())
    be_short(database, run_id)
    taken = fleet.client.post(f"/api/runs/{run_id}/rescue")
    assert (taken.status_code, taken.json()["status"]) == (200, "QUEUED"), taken.text
    assert "took it from its pod gone" in taken.json()["error"]["message"]
    again = fleet.client.post(f"/api/runs/{run_id}/rescue")
    assert (again.status_code, again.json()["code"]) == (409, "illegal_transition")
    fleet.start_worker(name="other")
    run = fleet.wait_for(run_id, "COMPLETED")
    assert [each["code"] for each in run["attempts"]] == ["POD_LOST", None]


def test_a_run_that_a_person_took_from_a_living_pod_is_continued_once(fleet: Any, database: Any) -> None:
    fleet.start_quick_worker(name="living")
    run_id = fleet.submit(spec={"seconds": 600})
    fleet.wait_for(run_id, "RUNNING")
    be_short(database, run_id)
    assert fleet.client.post(f"/api/runs/{run_id}/rescue").status_code == 200
    run = fleet.wait_for(run_id, "COMPLETED")
    assert [each["outcome"] for each in run["attempts"]] == ["lost", "completed"]
