"""Ideas without a model: the request's own claim first, then others that can be measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import catalog as c
from events.kinds import read_spec
from events.kinds.experiment import ExperimentSpec
from events.kinds.idea import Idea
from events.kinds.ideation import IdeationFailed, IdeationGenerated, IdeationStarted
from events.kinds.space.understanding import Understood, understand
from stages.kinds.ideation import pipeline
from stages.pipeline import run_pipeline
from stages.ports.checkpoints import Restored
from stages.ports.literature import LookUpFailed, Work
from stages.testing import MemoryCheckpoints, MemoryNotes, RecordingReporter, make_context, make_tools

OWN = "Dropout improves calibration on wine"


def ideation(
    folder: Path,
    idea: str = OWN,
    *,
    checkpoints: MemoryCheckpoints | None = None,
    notes: MemoryNotes | None = None,
    tools: Any = None,
    **spec: Any,
) -> RecordingReporter:
    reporter = RecordingReporter()
    raw = {"title": "A request", "idea": idea, **spec}
    context = make_context(
        read_spec("ideation", raw),
        folder,
        reporter=reporter,
        checkpoints=checkpoints,
        notes=notes,
        tools=tools,
    )
    run_pipeline(pipeline.run, context)
    return reporter


def generated(reporter: RecordingReporter) -> IdeationGenerated:
    (found,) = reporter.of(IdeationGenerated)
    return found


def read(reporter: RecordingReporter) -> list[Understood]:
    return [understand(msgspec.convert(each, Idea)) for each in generated(reporter).ideas]


def logged(reporter: RecordingReporter, level: str) -> list[str]:
    return [fact.message for fact in reporter.of(c.RunLog) if fact.level == level]


def test_the_own_claim_comes_first_and_the_others_differ_from_it_and_from_each_other(tmp_path: Path) -> None:
    reporter = ideation(tmp_path, max_num_generations=20)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    claims = [(each.claim, each.intervention.title) for each in read(reporter)]
    assert claims[0] == (understand(Idea(short_hypothesis=OWN)).claim, "dropout")
    assert (
        len({repr(each) for each in claims})
        == len({idea["Name"] for idea in generated(reporter).ideas})
        == 20
    )
    claimed = [claim for claim, _ in claims]
    assert {claim.metric.name for claim in claimed} >= {"ece", "accuracy", "nll"}
    assert {claim.data.name for claim in claimed} >= {"wine", "digits"}
    assert 23 in {claim.train_examples for claim in claimed}
    titles = {title for _, title in claims}
    assert {"dropout removed", "batch normalisation"} <= titles
    assert any(title.startswith("dropout (") for title in titles)


def test_what_competes_is_proposed_in_the_others_place(tmp_path: Path) -> None:
    titles = [
        each.intervention.title
        for each in read(ideation(tmp_path, "Adam improves accuracy on digits", max_num_generations=8))
    ]
    assert "Adam instead of AdamW" in titles


def test_events_progress_file_and_summary_tell_the_same(tmp_path: Path) -> None:
    reporter = ideation(tmp_path, max_num_generations=3)
    kinds = [type(fact) for fact in reporter.facts if not isinstance(fact, c.RunLog | c.StageProgress)]
    assert kinds == [
        c.RunStarted, IdeationStarted, c.StageStarted, IdeationGenerated, c.StageCompleted,
        c.RunCompleted,
    ]  # fmt: skip
    (kept,) = reporter.files
    assert (kept.name, kept.stage) == ("ideas.json", "ideation")
    assert json.loads(kept.path.read_text()) == generated(reporter).ideas
    assert reporter.facts[-1] == c.RunCompleted(
        summary="3 ideas; the first: Dropout: lower expected calibration error on wine"
    )
    progress = reporter.of(c.StageProgress)
    assert [each.progress for each in progress] == sorted(each.progress for each in progress)
    assert progress[0].activity == "reflecting on idea 1 of 3, round 1 of 3"
    assert progress[-1].progress == 1.0


def test_the_same_request_gives_the_same_ideas(tmp_path: Path) -> None:
    one, two = (generated(ideation(tmp_path, max_num_generations=20)) for _ in range(2))
    assert one == two


def test_a_text_that_cannot_be_read_is_told_and_its_nearest_claims_are_proposed(tmp_path: Path) -> None:
    reporter = ideation(tmp_path, "Bananas improve the calibraton of labl smoothing for vine", title="Fruit")
    (said,) = logged(reporter, "warning")
    assert "not read as a claim" in said
    assert "Not understood" in said
    first = read(reporter)[0]
    assert (first.intervention.name, first.claim.metric.name, first.claim.data.name) == (
        "label_smoothing", "ece", "wine",
    )  # fmt: skip
    assert len(generated(reporter).ideas) == 5


@pytest.mark.parametrize(
    "idea", ["字" * 3000, "?", "\N{RIGHT-TO-LEFT OVERRIDE}x", "Dropout helps on CIFAR-10", "f1 " * 2000]
)
def test_any_text_gets_ideas_that_can_be_measured(tmp_path: Path, idea: str) -> None:
    assert len(read(ideation(tmp_path, idea, title=idea[:200], additional_context=idea))) == 5


def test_the_context_fills_what_the_idea_leaves_open(tmp_path: Path) -> None:
    first = read(
        ideation(tmp_path, "Dropout helps", additional_context="We look at the Brier score on iris.")
    )[0]
    assert (first.claim.metric.name, first.claim.data.name) == ("brier", "iris")


def test_what_the_request_or_a_note_calls_tried_is_not_proposed_again(tmp_path: Path) -> None:
    notes = MemoryNotes()
    notes.write("Already tried: dropout improves accuracy on wine")
    reporter = ideation(
        tmp_path, notes=notes, additional_context=f"Published before: {OWN}", max_num_generations=10
    )
    claims = [
        (each.intervention.title, each.claim.metric.name, each.claim.data.name, each.claim.train_examples)
        for each in read(reporter)
    ]
    assert ("dropout", "ece", "wine", None) not in claims
    assert ("dropout", "accuracy", "wine", None) not in claims
    assert ("dropout", "ece", "wine", 23) in claims  # with few examples it was not tried
    assert len(claims) == 10
    assert any("the request names it as known" in said for said in logged(reporter, "info"))


def test_what_the_fleet_has_is_proposed_by_nobody_but_its_asker(tmp_path: Path) -> None:
    whole = generated(ideation(tmp_path, max_num_generations=6)).ideas
    earlier = [{"Title": each["Title"], "Short Hypothesis": each["Short Hypothesis"]} for each in whole]
    reporter = ideation(tmp_path, earlier=earlier, max_num_generations=6)
    again = generated(reporter).ideas
    assert again[0]["Short Hypothesis"] == whole[0]["Short Hypothesis"]
    assert f"An earlier idea of this fleet claims the same: “{whole[0]['Title']}”" in again[0]["Related Work"]
    old = {each["Short Hypothesis"] for each in whole}
    assert len(again) == 6
    assert old.isdisjoint(each["Short Hypothesis"] for each in again[1:])
    assert any("an earlier idea of the fleet claims it" in said for said in logged(reporter, "info"))


def test_a_space_without_anything_new_says_so_and_fails_visibly(tmp_path: Path) -> None:
    text = "Bananas calm networks"
    earlier: list[dict[str, str]] = []
    for _ in range(10):
        found = generated(ideation(tmp_path, text, title=text, earlier=earlier, max_num_generations=20)).ideas
        earlier += [{"Short Hypothesis": each["Short Hypothesis"]} for each in found]
        if len(found) < 20:
            break
    reporter = ideation(tmp_path, text, title=text, earlier=earlier)
    (failure,) = reporter.of(IdeationFailed)
    assert failure.code == "NO_IDEA"
    assert "an earlier idea of the fleet claims it" in failure.unfinished[0]["why"]
    assert "nothing is left to take its place" in failure.message
    assert "holds nothing more that is new" in logged(reporter, "warning")[-1]


def test_no_more_rounds_are_spent_than_change_something(tmp_path: Path) -> None:
    reporter = ideation(tmp_path, reflections=10, max_num_generations=1)
    rounds = [said for said in logged(reporter, "info") if "round" in said]
    assert [said.split(":")[0] for said in rounds] == ["idea 1, round 1 of 10", "idea 1, round 2 of 10"]
    assert "no further round is needed" in rounds[-1]


def test_a_round_of_reflection_adds_the_rule_that_decides(tmp_path: Path) -> None:
    (idea,) = generated(ideation(tmp_path, reflections=1, max_num_generations=1)).ideas
    assert "lies on its side of zero" in idea["Abstract"]
    assert len(idea["Experiments"]) >= 5
    assert any("small" in each for each in idea["Risk Factors and Limitations"])


def test_claims_that_no_measurement_can_decide_are_passed_over(tmp_path: Path) -> None:
    reporter = ideation(tmp_path, "Temperature scaling improves calibration on wine", max_num_generations=20)
    for each in read(reporter):
        assert each.claim.metric.name != "parameters"
        assert (each.intervention.name, each.claim.metric.name) != ("temperature_scaling", "accuracy")


def test_nothing_that_is_final_is_proposed_again_by_a_later_attempt(tmp_path: Path) -> None:
    whole = generated(ideation(tmp_path, max_num_generations=6)).ideas
    first = MemoryCheckpoints()
    ideation(tmp_path, checkpoints=first, max_num_generations=4)
    reporter = ideation(tmp_path, checkpoints=MemoryCheckpoints(2, found=first.kept), max_num_generations=6)
    assert generated(reporter).ideas == whole
    assert "4 of 6 ideas are there from attempt 1" in logged(reporter, "info")
    assert reporter.of(c.StageProgress)[0].activity == "reflecting on idea 5 of 6, round 1 of 3"


def test_a_checkpoint_with_every_idea_asks_for_none(tmp_path: Path) -> None:
    first = MemoryCheckpoints()
    whole = generated(ideation(tmp_path, checkpoints=first))
    again = ideation(tmp_path, checkpoints=MemoryCheckpoints(2, found=first.kept))
    assert generated(again) == whole
    assert len(again.of(c.StageProgress)) == 1


IDEAS = [
    {
        "Short Hypothesis": "x" * 50_000, "Name": "../../x", "Title": "y" * 9_000, "Abstract": "z",
        "Experiments": ["one"], "Risk Factors and Limitations": "some",
    }
]  # fmt: skip
NOTHING = {"ideas": [], "works": [], "asked": {}, "spent": {}}


@pytest.mark.parametrize(
    "lie",
    [
        {}, {**NOTHING, "ideas": "none"}, {**NOTHING, "ideas": [{"Title": 3}]}, {**NOTHING, "works": [1]},
        {**NOTHING, "asked": {"x": [1]}}, {**NOTHING, "asked": {"x": [-1]}}, {**NOTHING, "ideas": IDEAS * 21},
        {**NOTHING, "spent": {"tokens": -1}}, {**NOTHING, "spent": {"model_usd": 1e300}},
        {**NOTHING, "spent": 3}, {**NOTHING, "ideas": [{"Short Hypothesis": "x"}]},
        {**NOTHING, "ideas": [{**IDEAS[0], "Abstract": " \n"}]},
    ],
)  # fmt: skip
def test_a_checkpoint_that_lies_is_told_and_ideation_begins_anew(tmp_path: Path, lie: dict[str, Any]) -> None:
    whole = generated(ideation(tmp_path))
    reporter = ideation(tmp_path, checkpoints=MemoryCheckpoints(2, found={"ideation": Restored(1, lie)}))
    assert generated(reporter) == whole
    assert "cannot be read, ideation begins anew" in logged(reporter, "warning")[0]


def test_an_idea_of_an_earlier_attempt_is_kept_within_bounds(tmp_path: Path) -> None:
    kept = {"ideation": Restored(1, {**NOTHING, "ideas": IDEAS})}
    first, *_ = generated(ideation(tmp_path, checkpoints=MemoryCheckpoints(2, found=kept))).ideas
    assert 1_000 < len(first["Short Hypothesis"]) < 2_000
    assert "/" not in first["Name"]


def test_of_ideas_of_an_earlier_attempt_no_more_are_taken_than_are_wanted(tmp_path: Path) -> None:
    kept = MemoryCheckpoints(2, found={"ideation": Restored(1, {**NOTHING, "ideas": IDEAS * 3})})
    assert len(generated(ideation(tmp_path, checkpoints=kept, max_num_generations=2)).ideas) == 2


class Index:
    def __init__(self, *works: Work) -> None:
        self.works = works

    def search(self, query: str, limit: int) -> list[Work]:
        if not self.works:
            raise LookUpFailed("the index is down")
        return list(self.works)[:limit]


def test_a_look_up_that_fails_is_a_warning_and_the_ideas_come(tmp_path: Path) -> None:
    reporter = ideation(tmp_path, tools=make_tools(literature=Index()))
    assert len(generated(reporter).ideas) == 5
    assert "the index is down" in logged(reporter, "warning")[0]
    assert "No literature was looked up" in generated(reporter).ideas[0]["Related Work"]


def test_what_a_look_up_found_is_named_with_its_year(tmp_path: Path) -> None:
    work = Work(title="On dropping units", authors=("A. Author",), year=2014)
    reporter = ideation(tmp_path, tools=make_tools(literature=Index(work)), max_num_generations=1)
    assert "A. Author (2014). On dropping units." in generated(reporter).ideas[0]["Related Work"]


def test_another_kinds_specification_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    reporter = RecordingReporter()
    run_pipeline(pipeline.run, make_context(ExperimentSpec(idea="x"), tmp_path, reporter=reporter))
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert failure.code == "CONFIG"
