"""A claim that is too good, on a fleet of real pods: another one measures it again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Final

import pytest

from tests.integration.conftest import Fleet
from tests.integration.programs.model_server import Asked, ModelServer, Reply
from tests.integration.programs.scholar import choice, fenced, good, said, step_of
from tests.integration.research import Experiment, must_state_what_was_said
from tests.integration.test_research_with_model import start_pod, submit
from tests.integration.test_steering import must_agree_with_its_log
from tests.servers import S3Server

pytestmark = [pytest.mark.common_fleet, pytest.mark.timeout(400)]

PROGRAM: Final = """# {number}
import numpy as np

PLAN = "a fit by least squares"
PARAMS = {{"columns": {columns}}}
COLUMNS = PARAMS["columns"]

def run(task):
    chance = np.random.default_rng(task.seed)
    rows = np.c_[task.train.features[:, :COLUMNS], np.ones(len(task.train))]
    judged = np.c_[task.judge.features[:, :COLUMNS], np.ones(len(task.judge))]
    weights = np.linalg.lstsq(rows, task.train.targets, rcond=None)[0]
    task.point(1, 1.0, 1.0)
    task.trained(0.01)
    task.size(weights.size)
    return judged @ weights + 0.001 * chance.standard_normal(len(judged))
"""


def answers(asked: Asked) -> Reply:
    """Claim that all columns fit better than one of them, on rows that lie on a plane."""
    match step_of(asked):
        case "choose":
            return said(choice(metric="rmse", subject="every column"))
        case "write" | "section" | "review":
            return good(asked)
        case step:
            columns = 3 if step in ("apply", "refine", "vary") else 1
            return fenced(PROGRAM.format(number=asked.number, columns=columns))


def plane(folder: Path) -> Path:
    """Write rows whose target is a sum of their columns."""
    chance = random.Random(5)
    rows = [[chance.uniform(-1, 1) for _ in range(3)] for _ in range(300)]
    lines = [",".join(f"{value:.6f}" for value in (*row, sum(row))) for row in rows]
    file = folder / "plane.csv"
    file.write_text("\n".join(["a,b,c,target", *lines]))
    return file


@pytest.mark.long(
    "a whole experiment on two pods; tests/unit/stages/experiment/test_replication.py has each case"
)
def test_a_claim_that_is_too_good_is_replicated_by_another_pod_and_passes(fleet: Fleet, s3: S3Server) -> None:
    file = plane(fleet.home)
    with ModelServer(answers) as server:
        spec = {
            "dataset": f"{file}#target",
            "nodes": dict.fromkeys(("Stage_1", "Stage_2", "Stage_3", "Stage_4"), 1),
        }
        run = Experiment(fleet, submit(fleet, **spec))
        for name in ("one", "other"):
            start_pod(fleet, server, name=name, PODFLEET_DATASETS=str(fleet.home))
        found = run.wait_for("COMPLETED", "FAILED")
    assert found["status"] == "COMPLETED", found["error"]["message"]
    assert found["failures"] == {"app": 0, "infra": 0, "preempted": 1}
    first, second = (each["pod"].partition("/")[0] for each in found["attempts"])
    assert {first, second} == {"one", "other"}
    asked, replicated = found["validations"]
    assert (asked["verdict"], asked["replication"]) == ("fail", "asked for")
    assert (replicated["verdict"], replicated["replication"]) == ("pass", "on another pod"), replicated
    assert replicated["scores"]["replication"]["pod"] == second
    assert not set(asked["scores"]["seeds"]) & set(replicated["scores"]["seeds"])
    assert f"replicated on another pod, {second}," in found["validation"]["summary"]
    assert "it was replicated on another pod" in " ".join(run.pdf().split())
    page = fleet.client.get(f"/runs/{run}").text
    assert "replication asked for" in page
    assert "replicated on another pod" in page
    assert json.loads(run.content("paper/results.json"))["validation"]["verdict"] == "pass"
    must_state_what_was_said(run)
    must_agree_with_its_log(fleet, **s3.environment)
