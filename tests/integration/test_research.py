"""The whole research pipeline over the fleet, without a key: from a hypothesis to a person's verdict."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sklearn.datasets import load_iris

from tests.integration.research import (
    SPEC,
    STAGES,
    TRIED,
    Experiment,
    must_be_computed_from_single_measurements,
    must_state_what_was_said,
    names_of,
)
from tests.integration.test_fleet import child_of
from tests.integration.test_steering import is_stopped, must_agree_with_its_log

pytestmark = [
    pytest.mark.long("the shipped programs train with PyTorch; test_canaries.py has small ones"),
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("research"),
]
Until = Callable[..., None]


@pytest.fixture(scope="module")
def judged(undisturbed: Experiment) -> Experiment:
    """The undisturbed experiment, after a person has said the last word."""
    verdict = {"verdict": "pass", "notes": "The refutation is sound."}
    answer = undisturbed.fleet.client.post(f"/api/runs/{undisturbed}/review", json=verdict)
    assert (answer.status_code, answer.json()["status"]) == (200, "HUMAN_VALIDATED")
    return undisturbed


def submitted(fleet: Any, idea: str, **spec: Any) -> Experiment:
    return Experiment(fleet, fleet.submit("experiment", spec={**SPEC, "idea": idea, **spec}))


# --- from a hypothesis to a verdict ----------------------------------------------------------


def test_a_hypothesis_becomes_a_run_that_waits_for_a_person(undisturbed: Experiment) -> None:
    wanted = ["QUEUED", "RUNNING", "AUTO_VALIDATING", "AWAITING_HUMAN"]
    assert [each for each in undisturbed.seen if each in wanted][:4] == wanted
    run = undisturbed.run
    assert run["hypothesisId"]
    hypothesis = undisturbed.fleet.client.get(f"/api/hypotheses/{run['hypothesisId']}").json()
    assert [each["id"] for each in hypothesis["runs"] if each["parentRunId"] is None] == [str(undisturbed)]
    assert undisturbed.of("ai.run.stage_started", "stage") == STAGES
    assert undisturbed.of("ai.run.stage_completed", "stage") == STAGES
    assert {each["status"] for each in run["stages"]} == {"COMPLETED"}
    assert (run["attempt"], run["error"], run["failures"]["app"]) == (1, None, 0)
    assert any("programs run isolated by" in each for each in undisturbed.of("ai.run.log", "message"))


def test_every_node_is_shown_whole(undisturbed: Experiment) -> None:
    nodes = undisturbed.nodes()
    assert [each["id"] for each in nodes] == names_of(TRIED)
    written = {
        each["data"]["node"]: each["data"]["code"] for each in undisturbed.events("ai.node.code_generated")
    }
    for node in nodes:
        assert node["code"] == written[node["id"]]
        assert "def run(task" in node["code"]
        assert node["plan"]
        assert node["status"] == "good"
        assert 0.0 <= node["metric"] == node["scores"]["accuracy"] <= 1.0
        assert node["seconds"] > 0
        assert "loss" in node["logTail"]
    best = [each for each in nodes if each["best"]]
    # Where no node of a stage is better, the node that was handed over to it stays the best.
    stays = ["handed over stays" in each["reason"] for each in best]
    assert len(best) + sum(stays) == len(TRIED)
    for node in best:
        assert re.search("mean|handed over stays", node["reason"])
        assert len(node["seeds"]) == 3
    kept = undisturbed.json("tree.json")
    assert [each["stage"] for each in kept] == list(TRIED)
    assert {each["id"]: each["code"] for stage in kept for each in stage["nodes"]} == written


def test_every_artifact_of_a_run_can_be_had(undisturbed: Experiment) -> None:
    names = set(undisturbed.latest())
    assert {"paper/paper.tex", "paper/paper.pdf", "paper/numbers.json", "paper/results.json"} <= names
    figures = {each.removesuffix(".png") for each in names if re.match(r"plots/.*\.png$", each)}
    kinds = {"comparison", "finalists", "learning_curves", "nodes", "search_tree", "ablation"}
    assert {f"plots/{each}" for each in kinds} <= figures
    assert {f"plots/stages/{stage}" for stage in TRIED} <= figures
    for figure in figures:
        assert {f"{figure}.{kind}" for kind in ("csv", "svg", "pdf", "png")} <= names
    assert undisturbed.content("paper/paper.pdf").startswith(b"%PDF-")
    assert undisturbed.content("plots/comparison.png").startswith(b"\x89PNG")
    drawn = list(csv.DictReader(io.StringIO(undisturbed.content("plots/nodes.csv").decode())))
    metrics = {each["id"]: each["metric"] for each in undisturbed.nodes()}
    assert {each["node"]: float(each["metric"]) for each in drawn} == pytest.approx(metrics)
    results = undisturbed.json("paper/results.json")
    assert [each["name"] for each in results["stages"]] == list(TRIED)
    assert results["setting"]["run_id"] == str(undisturbed)


def test_a_person_has_the_last_word_on_a_run_once(judged: Experiment) -> None:
    again = judged.fleet.client.post(f"/api/runs/{judged}/review", json={"verdict": "fail"})
    assert again.status_code == 409
    assert "HUMAN_VALIDATED" in again.json()["detail"]
    run = judged.run
    assert run["status"] == "HUMAN_VALIDATED"
    auto, human = sorted(run["validations"], key=lambda each: each["by"])
    assert (auto["by"], auto["verdict"], auto["scores"]["decided_by"]) == ("auto", "fail", "measurement")
    assert auto["scores"]["numbers_untraced"] == []
    assert auto["scores"]["numbers_traced"] > 100
    assert (human["by"], human["verdict"], human["reviewer"]) == ("human", "pass", "loopback")
    assert human["summary"] == "The refutation is sound."


# --- the numbers of the paper ----------------------------------------------------------------


def test_every_number_of_the_paper_is_what_events_said(undisturbed: Experiment) -> None:
    must_state_what_was_said(undisturbed)
    must_be_computed_from_single_measurements(undisturbed)


def test_an_intervention_without_effect_is_inconclusive_and_the_paper_says_so(
    undisturbed: Experiment,
) -> None:
    (auto,) = [each for each in undisturbed.run["validations"] if each["by"] == "auto"]
    assert auto["scores"]["ci_low"] < 0 < auto["scores"]["ci_high"]
    assert (auto["verdict"], auto["conclusion"]) == ("fail", "inconclusive")
    assert auto["scores"]["measured"] == "inconclusive"
    words = " ".join(undisturbed.pdf().split())
    assert "Inconclusive." in words
    assert "includes zero" in words
    assert "The claim is inconclusive" in words
    assert "Supported." not in words


# --- parts again -----------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["paper", "validation"])
def test_a_part_of_a_finished_run_is_made_again_without_its_experiments(
    judged: Experiment, stage: str
) -> None:
    answer = judged.fleet.client.post(f"/api/runs/{judged}/retry", json={"from_stage": stage})
    assert answer.status_code == 201, answer.text
    again = Experiment(judged.fleet, answer.json()["id"])
    run = again.wait_for("AWAITING_HUMAN")
    assert (run["parentRunId"], run["fromStage"]) == (str(judged), stage)
    assert again.events("ai.node.executing", "ai.node.completed") == []
    assert again.of("ai.run.stage_started", "stage") == STAGES[STAGES.index(stage) :]
    assert len(again.events("ai.paper.generated")) == 1
    assert again.latest()["paper/paper.pdf"]["attempt"] == 1
    assert f"Run {again}" in again.pdf()
    must_state_what_was_said(again)
    must_be_computed_from_single_measurements(again)
    assert verdict_of(again) == verdict_of(judged), "equal seeds measure the same"
    assert [each["metric"] for each in again.nodes()] == [each["metric"] for each in judged.nodes()]


def verdict_of(experiment: Experiment) -> Any:
    (auto,) = [each for each in experiment.run["validations"] if each["by"] == "auto"]
    return auto["verdict"], auto["scores"]["baseline"], auto["scores"]["intervention"]


# --- what cannot begin, ends before anything is spent ----------------------------------------


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ("flwers", ["'flwers' is unknown", "iris", "files that end in .csv"]),
        ("/etc/passwd.csv", ["outside of the folders", "PODFLEET_DATASETS"]),
    ],
)
def test_a_run_without_its_data_fails_before_it_begins(
    shared_fleet: Any, undisturbed: Experiment, dataset: str, words: list[str]
) -> None:
    failed = submitted(shared_fleet, "Dropout improves accuracy", dataset=dataset)
    error = shared_fleet.wait_for(str(failed), "FAILED", limit_s=120)["error"]
    assert (error["code"], error["retryable"]) == ("CONFIG", False)
    for each in words:
        assert each in error["message"]
    assert failed.events("ai.run.stage_started", "ai.node.created", "ai.run.usage") == []
    refused = shared_fleet.client.post(f"/api/runs/{failed}/retry", json={"from_stage": "paper"})
    assert (refused.status_code, refused.json()["code"]) == (409, "no_checkpoint")
    assert "retry the whole run" in refused.json()["detail"]


# --- files, seeds, people --------------------------------------------------------------------


@pytest.fixture(scope="module")
def flowers(shared_fleet: Any) -> str:
    """A table of people's making: gaps, a column of words, a column of constants, and names as classes."""
    loaded = load_iris()
    rows = [["length", "width", "petal", "colour", "herbarium", "kind"]]
    for place, (values, label) in enumerate(zip(loaded.data, loaded.target, strict=True)):
        length, width, petal, _ = (
            "" if (place + column) % 11 == 0 else f"{v}" for column, v in enumerate(values)
        )
        colour = ["blue", "violet", "", "white"][place % 4]
        rows.append([length, width, petal, colour, "Kew", str(loaded.target_names[label])])
    with (shared_fleet.data_sets / "flowers.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return "flowers.csv#kind"


@dataclass(frozen=True)
class Steered:
    """A finished experiment that a person paused, and what it said until it went on."""

    experiment: Experiment
    before: list[Any]
    paused: list[Any]


@pytest.fixture(scope="module")
def steered(shared_fleet: Any, undisturbed: Experiment, flowers: str, until: Until) -> Steered:
    """An experiment on a table of one's own, with a hint before it began and a pause in its first stage."""
    nodes = {"Stage_1": 1, "Stage_2": 2, "Stage_4": 1}
    idea = "A wider network increases the number of parameters"
    own = submitted(shared_fleet, idea, dataset=flowers, nodes=nodes)
    client, path = shared_fleet.client, f"/api/runs/{own}"
    assert client.post(f"{path}/notes", json={"text": "please try depth 4"}).status_code == 200
    until(lambda: own.events("ai.node.executing"), 300)
    assert client.post(f"{path}/pause").json()["paused"] is True
    child = child_of(shared_fleet.workers[0])
    until(lambda: is_stopped(child))
    for _ in range(2):  # what was said before it stood still may be on its way
        beat = own.run["lastHeartbeat"]
        until(lambda beat=beat: own.run["lastHeartbeat"] != beat, 60)
    before, beat = own.events(), own.run["lastHeartbeat"]
    until(lambda: own.run["lastHeartbeat"] != beat, 60)
    paused = own.events()
    assert client.post(f"{path}/resume").json()["paused"] is False
    own.wait_for("COMPLETED")
    return Steered(own, before, paused)


def test_a_claim_about_a_file_of_ones_own_is_tested_on_it(steered: Steered) -> None:
    own = steered.experiment
    (auto,) = own.run["validations"]
    assert (auto["verdict"], auto["scores"]["metric"]) == ("pass", "parameters")
    assert all(each > 0 for each in auto["scores"]["differences"])
    words = " ".join(own.pdf().split())
    assert "Supported." in words
    assert "flowers" in words
    log = " ".join(own.of("ai.run.log", "message"))
    for each in ("'herbarium'", "Missing values"):
        assert each in log
    must_state_what_was_said(own)
    must_be_computed_from_single_measurements(own)


def test_a_paused_search_says_nothing_but_that_its_pod_lives(shared_fleet: Any, steered: Steered) -> None:
    said = [each for each in steered.paused if each["sequence"] is not None]
    assert said == [each for each in steered.before if each["sequence"] is not None]
    run = steered.experiment.run
    assert (run["attempt"], run["error"]) == (1, None)
    must_agree_with_its_log(shared_fleet)


def test_a_hint_is_heard_by_the_search(steered: Steered) -> None:
    own = steered.experiment
    assert [each["text"] for each in own.run["notes"]] == ["please try depth 4"]
    tuned = [each for each in own.nodes() if each["stage"] == "Stage_2"]
    (advised,) = [each for each in tuned if each["params"]["depth"] == 4]
    assert advised["plan"] == "tune the baseline: depth 4"
    taken = {
        "outcome": "taken",
        "about": "depth 4",
        "says": f"{advised['id']} tries it",
        "node": advised["id"],
    }
    assert own.run["notes"][0]["answers"] == [taken]
    assert (
        f"<li>depth 4: taken, {advised['id']} tries it</li>"
        in own.fleet.client.get(f"/runs/{own.run_id}").text
    )
