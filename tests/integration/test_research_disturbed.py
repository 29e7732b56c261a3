"""A run whose pods are killed or taken away ends as if nothing had been, and does nothing twice."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest
from minio import Minio

from tests.integration.conftest import QUICK_WORKER
from tests.integration.research import (
    IDEA,
    NODES,
    SPEC,
    STAGES,
    TRIED,
    Experiment,
    measured,
    must_be_computed_from_single_measurements,
    must_have_done_nothing_twice,
    must_state_what_was_said,
    names_of,
)
from tests.integration.test_fleet import child_of
from tests.integration.test_leaving import rescue
from tests.integration.test_steering import must_agree_with_its_log

pytestmark = [
    pytest.mark.long(
        "a death in every stage of whole experiments; test_research_with_model.py has one in a search"
    ),
    pytest.mark.timeout(3600),
]
Until = Callable[..., None]

PAPER = ("paper/paper.pdf", "paper/paper.tex", "paper/numbers.json", "paper/results.json")


def is_inside(run: Experiment, stage: str, pod: str) -> bool:
    """Return whether the pod's attempt is in the middle of a stage, as its events or its own disk show."""
    if stage in TRIED:
        return any(each["data"]["stage"] == stage for each in run.events("ai.node.completed"))
    if stage in ("validation", "plots"):
        progress = [each["data"] for each in run.events("ai.run.stage_progress")]
        return any(each["stage"] == stage and each["progress"] > 0 for each in progress)
    disk = run.fleet.home / pod / "work"
    if stage == "paper":
        return any(disk.glob("*/experiment/paper/paper.tex"))
    return any(is_of(manifest, stage) for manifest in disk.glob("*/manifests/*.json"))


def is_of(manifest: Any, stage: str) -> bool:
    """Return whether a file is a checkpoint of the stage that its attempt has written, and not sent yet."""
    with suppress(ValueError):  # it is being written at this moment
        return bool(json.loads(manifest.read_bytes())["name"] == stage)
    return False


def kill(worker: Any, until: Until) -> None:
    """Kill a worker and its pipeline at once; whatever ran for them has to go too."""
    child = child_of(worker)
    family = psutil.Process(worker.pid).children(recursive=True)
    worker.kill()
    with suppress(psutil.NoSuchProcess):
        child.kill()
    worker.wait()
    until(lambda: not any(each.is_running() for each in family))


def take_away(worker: Any) -> None:
    """Tell a worker to leave, as whoever owns the machine does: it gives the run back."""
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0


@pytest.mark.xdist_group("research")
@pytest.mark.parametrize(
    ("stages", "taken_away"),
    [
        (("Stage_1", "Stage_2", "Stage_3", "validation", "paper"), "Stage_2"),
        (("Stage_2", "Stage_4", "validation", "plots", "review"), "validation"),
    ],
    ids=["odd", "even"],
)
def test_a_run_disturbed_in_every_stage_ends_as_if_nothing_had_been(
    fleet: Any, s3: Any, undisturbed: Experiment, until: Until, stages: tuple[str, ...], taken_away: str
) -> None:
    run = Experiment(fleet, fleet.submit("experiment", spec={**SPEC, "idea": IDEA}))
    for stage in stages:
        pod = f"lost-in-{stage}"
        worker = fleet.start(QUICK_WORKER, "--lease", "6", name=pod)
        until(lambda stage=stage, pod=pod: is_inside(run, stage, pod), 600, every_s=0.02)
        if stage == taken_away:
            take_away(worker)
        else:
            kill(worker, until)
            asyncio.run(rescue(fleet.database_url, str(run)))
        assert stage not in run.of("ai.run.stage_completed", "stage"), "it came in time"
    fleet.start_worker(mode="experiment", name="last")
    found = run.wait_for("COMPLETED")

    assert found["failures"] == {"app": 0, "infra": len(stages) - 1, "preempted": 1, "outside": 0}
    pods = [each["pod"].partition("/")[0] for each in found["attempts"]]
    assert pods == [*(f"lost-in-{stage}" for stage in stages), "last"]
    must_have_done_nothing_twice(run)
    tried = run.of("ai.node.completed", "node") + run.of("ai.node.restored", "node")
    assert set(tried) == set(names_of(TRIED))
    assert set(run.of("ai.run.stage_started", "stage")) <= set(STAGES)
    told = run.of("ai.run.log", "message")
    assert any("resuming after it, from the checkpoint of attempt" in each for each in told)
    after = stages.index("validation") + 2
    shares = [
        each["data"]["progress"]
        for each in run.events("ai.run.stage_progress")
        if (each["attempt"], each["data"]["stage"]) == (after, "validation")
    ]
    assert shares[0] > 0, "it goes on behind the fresh seeds that were measured"

    assert measured(run) == measured(undisturbed)
    must_state_what_was_said(run)
    must_be_computed_from_single_measurements(run)
    latest = run.latest()
    assert len({latest[name]["attempt"] for name in PAPER}) == 1, "the shown paper is of one piece"
    assert set(run.of("ai.paper.generated", "name")) == {"paper/paper.pdf"}
    if "paper" not in stages:
        assert [each["name"] for each in run.artifacts()].count("paper/paper.pdf") == 1
    # A stage that was taken away is PREEMPTED, unless its nodes were done and only its end was missing.
    statuses = {each["status"] for each in found["stages"]}
    assert {"COMPLETED", "INTERRUPTED"} <= statuses <= {"COMPLETED", "INTERRUPTED", "PREEMPTED"}
    assert fleet.client.get(f"/runs/{run}").status_code == 200
    must_agree_with_its_log(fleet, **s3.environment)


def test_the_control_plane_rescues_a_killed_run_and_a_broken_checkpoint_is_told(
    fleet: Any, s3: Any, until: Until
) -> None:
    first = fleet.start_worker(name="first")
    nodes = {**NODES, "Stage_1": 1}
    run = Experiment(fleet, fleet.submit("experiment", spec={**SPEC, "idea": IDEA, "nodes": nodes}))
    until(lambda: "Stage_2/1" in run.of("ai.node.completed", "node"), 600)
    kill(first, until)
    # The objects of one stage rot while nobody looks.
    storage = Minio(
        s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, secure=False, region=s3.region
    )
    storage.fput_object(s3.bucket, run.latest()["checkpoints/Stage_1/manifest.json"]["key"], __file__)
    second = fleet.start_worker(name="second")
    until(lambda: "Stage_2/1" in run.of("ai.node.restored", "node"), 600)
    second.kill()  # nobody waits for the rest
    assert run.run["failures"] == {"app": 0, "infra": 1, "preempted": 0, "outside": 0}
    told = run.of("ai.run.log", "message")
    assert any("the checkpoint Stage_1 of attempt 1 is not used" in each for each in told)
    executed = {each["data"]["node"] for each in run.events("ai.node.executing") if each["attempt"] == 2}
    assert "Stage_1/1" in executed, "what rotted is done again"
    assert "Stage_2/1" not in executed
