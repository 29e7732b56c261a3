"""An experiment whose pod goes away is finished by another pod, which does nothing twice."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from minio import Minio

from tests.integration.research import IDEA, SPEC, Experiment, measured, must_have_done_nothing_twice

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.xdist_group("research, disturbed")]
Until = Callable[..., None]


def submitted(fleet: Any) -> Experiment:
    return Experiment(fleet, fleet.submit("experiment", spec={**SPEC, "idea": IDEA}))


def test_a_pod_that_is_taken_away_again_and_again_costs_no_finished_work(
    fleet: Any, undisturbed: Experiment, until: Until
) -> None:
    run = submitted(fleet)

    def stages() -> list[str]:
        return run.of("ai.run.stage_completed", "stage")

    moments: list[Callable[[], object]] = [
        lambda: "Stage_2/1" in run.of("ai.node.completed", "node"),
        lambda: "Stage_3" in stages(),
        lambda: any(each.startswith("test_") for each in run.of("ai.run.stage_metric", "name")),
        lambda: "plots" in stages(),
    ]
    for number, moment in enumerate(moments, 1):
        worker = fleet.start_worker(name=f"pod-{number}")
        until(moment, 600)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(10) == 0
    fleet.start_worker(name="last")
    found = run.wait_for("COMPLETED")
    assert found["failures"]["app"] == found["failures"]["infra"] == 0
    assert found["attempt"] >= 3, "at least some of the signals came in time"
    must_have_done_nothing_twice(run)
    told = run.of("ai.run.log", "message")
    assert any("resuming after it, from the checkpoint of attempt 1" in each for each in told)
    assert measured(run) == measured(undisturbed)
    assert [each["name"] for each in run.artifacts()].count("paper/paper.pdf") == 1
    assert fleet.client.get(f"/runs/{run}").status_code == 200


def test_a_killed_pod_costs_no_finished_work_and_a_broken_checkpoint_is_told(
    fleet: Any, s3: Any, until: Until
) -> None:
    first = fleet.start_worker(name="first")
    run = submitted(fleet)
    until(lambda: "Stage_2/2" in run.of("ai.node.completed", "node"), 600)
    first.kill()
    first.wait()
    # The objects of one stage rot while nobody looks.
    storage = Minio(
        s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, secure=False, region=s3.region
    )
    storage.fput_object(s3.bucket, run.latest()["checkpoints/Stage_1/manifest.json"]["key"], __file__)
    fleet.start_worker(name="second")
    found = run.wait_for("COMPLETED")
    assert found["failures"] == {"app": 0, "infra": 1, "preempted": 0}
    told = run.of("ai.run.log", "message")
    assert any("the checkpoint Stage_1 of attempt 1 is not used" in each for each in told)
    restored = set(run.of("ai.node.restored", "node"))
    executed = {each["data"]["node"] for each in run.events("ai.node.executing") if each["attempt"] == 2}
    known = {each["data"]["node"] for each in run.events("ai.node.completed") if each["attempt"] == 1}
    assert {each for each in known if each.startswith("Stage_2")} <= restored
    assert not executed & restored
    assert "Stage_1/1" in executed, "what rotted is done again"
