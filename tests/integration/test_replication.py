"""A claim that is too good, on a fleet of real pods: another one measures it again."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from events.catalog import RunCompleted, RunPreempted, ValidationAutoCompleted
from events.queue.settlement import End
from pod_worker.queue.mongo import MongoQueue, connect
from tests.integration.conftest import Fleet
from tests.integration.programs.model_server import Asked, ModelServer, Reply
from tests.integration.programs.scholar import choice, fenced, good, said, step_of
from tests.integration.research import Experiment, must_state_what_was_said
from tests.integration.test_research_with_model import start_pod, submit
from tests.integration.test_steering import Hand, kept, must_agree_with_its_log
from tests.servers import S3Server

pytestmark = pytest.mark.common_fleet

PROGRAM: Final = """# {number}
import numpy as np

PLAN = "a fit by least squares"
PARAMS = {{"ridge": 0.0}}

def coarse(answers):
    return np.round(2 * answers) / 2

def exact(answers):
    return answers

def run(task):
    chance = np.random.default_rng(task.seed)
    told = {told}
    rows = np.c_[task.train.features, np.ones(len(task.train))]
    judged = np.c_[task.judge.features, np.ones(len(task.judge))]
    weights = np.linalg.lstsq(rows, task.train.targets, rcond=None)[0]
    task.point(1, 1.0, 1.0)
    task.trained(0.01)
    task.size(weights.size)
    return told(judged @ weights) + 0.001 * chance.standard_normal(len(judged))
"""


def answers(asked: Asked) -> Reply:
    """Claim that all decimals fit better than half steps, on rows that lie on a plane."""
    match step_of(asked):
        case "choose":
            quotes = {"intervention": "Every decimal", "direction": "lowers", "metric": "the RMSE"}
            bound = [{"field": field, "words": words} for field, words in quotes.items()]
            return said(choice(metric="rmse", subject="every decimal", bound=bound))
        case "write" | "section" | "review":
            return good(asked)
        case step:
            is_applied = step in ("apply", "refine", "vary")
            told = "exact if task.intervention else coarse" if is_applied else "coarse"
            return fenced(PROGRAM.format(number=asked.number, told=told))


def plane(folder: Path) -> Path:
    """Write rows whose target is a sum of their columns."""
    chance = random.Random(5)
    rows = [[chance.uniform(-1, 1) for _ in range(3)] for _ in range(300)]
    lines = [",".join(f"{value:.6f}" for value in (*row, sum(row))) for row in rows]
    file = folder / "plane.csv"
    file.write_text("\n".join(["a,b,c,target", *lines]))
    return file


PASSED: Final = ValidationAutoCompleted(
    verdict="pass", summary="it holds there too", replication="on another pod"
)


@pytest.fixture
def hand(fleet: Fleet) -> Iterator[Hand]:
    db = connect(fleet.database_url)
    yield Hand(fleet, MongoQueue(db))
    db.client.close()


def asks_for_replication(hand: Hand, run_id: str, *, asks: bool = True) -> None:
    """Let `alpha` make a first attempt that gives the run back."""
    claim = hand.claim(run_id, "alpha/1")
    asked = ValidationAutoCompleted(verdict="fail", summary="too good", replication="asked for")
    hand.say(claim, *[asked] * asks, kept(claim, "validation"), RunPreempted(reason="replication asked for"))
    hand.settle(claim, End("preempted"))


def replicated_by(hand: Hand, pod: str, *, asks: bool = True) -> str:
    """Let `alpha` make a first attempt, and let `pod` say that it replicated it on another pod."""
    run_id = hand.fleet.submit("experiment", spec={"idea": "Dropout helps"})
    asks_for_replication(hand, run_id, asks=asks)
    silent = hand.claim(run_id, "silent/1")
    hand.settle(silent, End("preempted"))
    last = hand.claim(run_id, f"{pod}/2")
    assert [each["pods"] for each in hand.checkpoints(last)] == [["alpha"]]
    hand.say(last, PASSED, RunCompleted())
    hand.settle(last, End("completed"))
    return run_id


@pytest.mark.parametrize(
    ("pod", "asks", "place"),
    [
        ("beta", True, "on another pod"),
        ("alpha", True, "on the same pod"),
        ("beta", False, "on the same pod"),
    ],
    ids=["another", "the same, which lies", "nobody asked"],
)
def test_where_a_claim_was_replicated_is_told_by_the_record_of_attempts_and_not_by_its_pod(
    fleet: Fleet, hand: Hand, pod: str, asks: bool, place: str
) -> None:
    run_id = replicated_by(hand, pod, asks=asks)
    found = fleet.run(run_id)
    assert found["validations"][-1]["replication"] == found["validation"]["replication"] == place
    for page in (f"/runs/{run_id}/validation", "/reviews"):
        text = fleet.client.get(page).text
        assert f"replicated {place}" in text, page
        assert text.count("replicated on ") == 1, page


def runs_in(lines: Iterator[str]) -> Iterator[str]:
    """Yield the states of runs in a stream, which also has events as their pods sent them."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        name = value if field == "event" else name
        if field == "data" and name == "run":
            yield value


def test_no_list_takes_a_pods_word_for_where_it_replicated_a_claim(fleet: Fleet, hand: Hand) -> None:
    run_id = replicated_by(hand, "alpha")
    told: dict[str, Any] = {"the run": fleet.run(run_id)["attempts"]}
    for path in ("/api/runs", "/api/pods/alpha%2F2/attempts", f"/api/runs/{run_id}/explain"):
        told[path] = fleet.client.get(path).json()
    with fleet.client.stream("GET", "/api/stream", params={"run": run_id}) as stream:
        lines = stream.iter_lines()
        while next(lines) != "":  # it listens
            pass
        fleet.client.post(f"/api/runs/{run_id}/notes", json={"text": "look"})
        told["/api/stream"] = next(line for line in runs_in(lines) if '"replication":"on ' in line)
    assert [what for what, said in told.items() if "on the same pod" not in str(said)] == []
    assert [what for what, said in told.items() if "on another pod" in str(said)] == []


def test_who_made_the_attempts_until_a_checkpoint_is_known_of_those_too_that_said_nothing(
    fleet: Fleet, hand: Hand
) -> None:
    run_id = fleet.submit("experiment", spec={"idea": "Dropout helps"})
    first = hand.claim(run_id, "silent/1")
    hand.settle(first, End("preempted"))
    second = hand.claim(run_id, "alpha/1")
    hand.say(second, kept(second, "Stage_1"))
    hand.settle(second, End("preempted"))
    third = hand.claim(run_id, "beta/1")
    assert [each["pods"] for each in hand.checkpoints(third)] == [["silent", "alpha"]]


def test_a_run_that_waits_for_its_replication_says_so_and_can_be_canceled(fleet: Fleet, hand: Hand) -> None:
    run_id = fleet.submit("experiment", spec={"idea": "Dropout helps"})
    asks_for_replication(hand, run_id)
    assert "replication asked for" in fleet.client.get(f"/runs/{run_id}/validation").text
    assert fleet.client.post(f"/api/runs/{run_id}/cancel").status_code == 200
    assert (fleet.run(run_id)["status"], hand.queue.waiting(["runs"])) == ("CANCELED", [])
    assert "replication asked for" in fleet.client.get(f"/runs/{run_id}/validation").text


@pytest.mark.long(
    "a whole experiment on two pods; tests/unit/stages/kinds/experiment/test_replication.py has each case"
)
def test_a_claim_that_is_too_good_is_replicated_by_another_pod_and_passes(fleet: Fleet, s3: S3Server) -> None:
    file = plane(fleet.home)
    with ModelServer(answers) as server:
        spec = {
            "idea": "Every decimal lowers the RMSE",
            "dataset": f"{file}#target",
            "nodes": dict.fromkeys(("Stage_1", "Stage_2", "Stage_4"), 1),
        }
        run = Experiment(fleet, submit(fleet, **spec))
        for name in ("one", "other"):
            start_pod(fleet, server, name=name, PODFLEET_DATASETS=str(fleet.home))
        found = run.wait_for("COMPLETED", "FAILED")
    assert found["status"] == "COMPLETED", found["error"]["message"]
    assert found["failures"] == {"app": 0, "infra": 0, "preempted": 1, "outside": 0}
    first, second = (each["pod"].partition("/")[0] for each in found["attempts"])
    assert {first, second} == {"one", "other"}
    asked, replicated = found["validations"]
    assert (asked["verdict"], asked["replication"]) == ("fail", "asked for")
    assert (replicated["verdict"], replicated["replication"]) == ("pass", "on another pod"), replicated
    assert replicated["scores"]["replication"]["pod"] == second
    assert not set(asked["scores"]["seeds"]) & set(replicated["scores"]["seeds"])
    assert f"replicated on another pod, {second}," in found["validation"]["summary"]
    assert "it was replicated on another pod" in " ".join(run.pdf().split())
    page = fleet.client.get(f"/runs/{run}/validation").text
    assert "replication asked for" in page
    assert "replicated on another pod" in page
    assert json.loads(run.content("paper/results.json"))["validation"]["verdict"] == "pass"
    must_state_what_was_said(run)
    must_agree_with_its_log(fleet, **s3.environment)
