"""A note of a person is answered with what becomes of each thing that it names, at every time of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.catalog import NoteAnswered, StageProgress, StageStarted
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCreated
from events.kinds.idea import Idea
from events.kinds.space.understanding import understand
from stages.kinds.experiment.research.built_in import BY_SPACE, BuiltIn
from stages.kinds.experiment.research.openness import Scope
from stages.kinds.experiment.research.proposal import Proposal
from stages.kinds.experiment.research.steering import Attentive, Steering
from stages.kinds.experiment.research.wishes import read
from stages.kinds.experiment.tree import Node, Tree
from stages.testing import MemoryNotes, RecordingReporter

EMPTY = Tree(higher_is_better=True)
SEARCHING = ("Stage_1", "Stage_2", "Stage_3")


@dataclass
class Desk:
    """A researcher, the notes of people, and what is answered."""

    idea: str = "Dropout improves accuracy on iris"
    model: str = ""
    notes: MemoryNotes = field(default_factory=MemoryNotes)
    reporter: RecordingReporter = field(default_factory=RecordingReporter)

    def __post_init__(self) -> None:
        understood = understand(Idea(short_hypothesis=self.idea))
        subject = understood.claim.subject
        scope = Scope.of_subject(subject) if self.model else Scope.of(understood.intervention)
        emit, name = self.reporter.say, self.model or BY_SPACE
        self.steering = Steering(scope, self.notes, emit, name, reads_words=bool(self.model))
        self.researcher = BuiltIn(understood, 3, 20, self.steering)
        self.voice = Attentive(self.reporter, self.steering)

    def at(self, stage: str) -> None:
        self.voice.say(StageStarted(stage=stage))

    def noted(self, text: str, stage: str) -> list[tuple[str, str]]:
        """Write a note, let a stage go on, and return the answers to it."""
        self.notes.write(text, by="ada")
        self.voice.say(StageProgress(stage=stage, progress=0.5))
        return self.answers(len(self.notes.written))

    def answers(self, number: int) -> list[tuple[str, str]]:
        told = [each for each in self.reporter.of(NoteAnswered) if each.number == number]
        return [(each.outcome, each.about) for each in told]

    def said(self) -> str:
        return self.reporter.of(NoteAnswered)[-1].says

    def tried(self, proposal: Proposal | None, node: str) -> Node:
        assert proposal is not None
        stage = node.partition("/")[0]
        self.voice.say(NodeCreated(stage=stage, node=node, plan=proposal.plan, params=dict(proposal.params)))
        return Node(
            id=node, stage=stage, plan=proposal.plan, code=proposal.code, params=proposal.params, metric=0.5,
            arm=proposal.arm,
        )  # fmt: skip


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def baseline(desk: Desk) -> Node:
    return desk.tried(desk.researcher.draft(EMPTY), "Stage_1/1")


def test_a_note_on_the_baseline_goes_before_the_researchers_own_moves(desk: Desk, baseline: Node) -> None:
    both = "width 48, learning rate 0.01"
    answers = desk.noted("Please try width 48, and a learning rate of 0.01!", "Stage_2")
    assert [each for each, _ in answers] == ["waiting"]
    node = desk.tried(desk.researcher.tune(baseline, EMPTY.grown(baseline)), "Stage_2/1")
    assert (node.params["width"], node.params["lr"]) == (48, 0.01)
    assert desk.answers(1)[-1][0] == "taken"
    assert desk.said() == "Stage_2/1 tries it"
    assert set(desk.answers(1)[-1][1].split(", ")) == set(both.split(", "))
    again = desk.researcher.tune(baseline, EMPTY.grown(baseline, node))
    assert again is not None
    assert again.params["width"] != 48, "a wish is tried once"
    assert len(desk.answers(1)) == 2


def test_a_note_before_the_search_on_the_strength_waits_until_it_is_applied(desk: Desk) -> None:
    desk.notes.write("dropout 0.35 is what I would try")
    desk.at("Stage_1")
    assert desk.answers(1) == [("waiting", "dropout 0.35")]
    root = desk.tried(desk.researcher.draft(EMPTY), "Stage_1/1")
    assert root.params["dropout"] == 0.0
    desk.at("Stage_2")
    desk.at("Stage_3")
    applied = desk.tried(desk.researcher.improve(root, Tree(True, root)), "Stage_3/1")
    assert applied.params["dropout"] == 0.35
    assert desk.answers(1) == [("waiting", "dropout 0.35"), ("taken", "dropout 0.35")]


def test_a_note_while_the_intervention_is_tuned_is_tried_whatever_it_names(
    desk: Desk, baseline: Node
) -> None:
    desk.at("Stage_3")
    tree = Tree(True, baseline)
    first = desk.tried(desk.researcher.improve(baseline, tree), "Stage_3/1")
    desk.noted("strength 0.42", "Stage_3")
    desk.noted("width 24", "Stage_3")
    second = desk.tried(desk.researcher.improve(first, tree.grown(first)), "Stage_3/2")
    third = desk.tried(desk.researcher.improve(first, tree.grown(first, second)), "Stage_3/3")
    assert (second.params["dropout"], third.params["width"]) == (0.42, 24)
    assert [desk.answers(number)[-1][0] for number in (1, 2)] == ["taken", "taken"]


REFUSED = [
    ("width 100000", "width 100000", "width goes from 1 to 1024"),
    ("width 2.5", "width 2.5", "width goes from 1 to 1024"),
    ("dropout 7", "dropout 7", "it is tried from 0.01 to 0.9"),
    ("dropout: 0", "dropout 0", "it is tried from 0.01 to 0.9"),
    ("lr -1", "learning rate -1", "learning rate goes from 1e-06 to 1"),
    ("clip at norm 1000", "gradient clip 1e+03", "gradient clip goes from 0 to 10"),
    ("more dropout!", "dropout", "name a value: dropout goes from 0 to 0.9"),
    ("width 1, 2, 3, 4, 5, 6, 7", "width", "name at most 6 values"),
    ("width 0,5", "width", "name a value: width goes from 1 to 1024"),
    ("don't use dropout 0.5", "dropout", "say what to try, not what to leave out"),
    ("use optimizer foo", "optimiser", "name a value: optimiser can be adamw, adam"),
    ("30 tries please", "number of tries", "`nodes` of a new run"),
    ("use 50 units", "number of units", "registered"),
    ("other seeds", "seed", "`seed` of a new run"),
    ("what about the iris dataset", "data", "`dataset` of a new run"),
]


@pytest.mark.parametrize(("text", "about", "why"), REFUSED)
@pytest.mark.parametrize("stage", SEARCHING)
def test_what_cannot_be_tried_is_refused_with_the_reason(
    desk: Desk, stage: str, text: str, about: str, why: str
) -> None:
    assert desk.noted(text, stage) == [("refused", about)]
    assert why in desk.said()


@pytest.mark.parametrize(
    ("idea", "text", "about"),
    [
        ("A dropout of 0.2 improves accuracy on iris", "dropout 0.4", "dropout 0.4"),
        ("A cosine schedule improves accuracy on iris", "use a linear schedule", "schedule linear"),
        ("A cosine learning rate schedule improves accuracy on iris", "strength 3", "strength 3"),
        ("Adam improves accuracy on iris", "lr 0.2", "learning rate 0.2"),
    ],
)  # fmt: skip
def test_what_the_claim_has_fixed_is_not_moved_by_a_note(idea: str, text: str, about: str) -> None:
    desk = Desk(idea)
    assert desk.noted(text, "Stage_2") == [("refused", about)]
    assert "the claim" in desk.said()
    assert not [*desk.steering.wishes("baseline"), *desk.steering.wishes("strength")]


def test_what_the_claim_tries_anyway_is_taken_by_the_node_that_tries_it() -> None:
    desk = Desk("A cosine learning rate schedule improves accuracy on iris")
    assert desk.noted("try the cosine schedule", "Stage_2") == [("waiting", "schedule cosine")]
    root = desk.tried(desk.researcher.draft(EMPTY), "Stage_1/1")
    desk.at("Stage_3")
    desk.tried(desk.researcher.improve(root, Tree(True, root)), "Stage_3/1")
    assert desk.answers(1)[-1] == ("taken", "schedule cosine")


@pytest.mark.parametrize("stage", ["Stage_4", "validation", "plots", "paper", "review"])
@pytest.mark.parametrize("text", ["width 48", "dropout 0.3", "have a nice day"])
def test_a_note_that_comes_too_late_is_told_so(desk: Desk, stage: str, text: str) -> None:
    assert [each for each, _ in desk.noted(text, stage)] == ["too_late"]


def test_a_note_without_a_choice_is_told_what_can_be_steered(desk: Desk) -> None:
    assert desk.noted("have a nice day", "Stage_2") == [("not_understood", "")]
    assert all(each in desk.said() for each in ("learning rate", "width", "dropout", "gradient clip"))


def test_a_note_that_comes_twice_is_told_which_node_has_it(desk: Desk, baseline: Node) -> None:
    desk.noted("width 48", "Stage_2")
    assert desk.noted("width 48", "Stage_2") == [("waiting", "width 48")], "none has it by now"
    desk.tried(desk.researcher.tune(baseline, EMPTY.grown(baseline)), "Stage_2/1")
    assert [desk.answers(number)[-1] for number in (1, 2)] == [("taken", "width 48")] * 2
    assert desk.noted("a width of 48, I said", "Stage_2") == [("taken", "width 48")]
    assert desk.said() == "Stage_2/1 has it already"


def test_what_no_try_was_left_for_is_said_when_the_search_is_over(desk: Desk) -> None:
    desk.noted("dropout 0.35", "Stage_2")
    desk.at("Stage_4")
    assert desk.answers(1) == [("waiting", "dropout 0.35"), ("refused", "dropout 0.35")]
    assert desk.said() == "no try was left for it"


def test_each_thing_that_a_note_names_has_its_answer(desk: Desk) -> None:
    answers = desk.noted("Try width 32 or 96, dropout 0.3 and 0.95. Use more seeds! No momentum.", "Stage_2")
    assert sorted(answers) == [
        ("refused", "dropout 0.95"), ("refused", "momentum"), ("refused", "seed"),
        ("waiting", "dropout 0.3"), ("waiting", "width 32"), ("waiting", "width 96"),
    ]  # fmt: skip


def test_with_a_model_a_note_is_passed_on_and_its_choices_are_followed_all_the_same() -> None:
    desk = Desk("Dropout improves accuracy on iris", model="m-1")
    answers = desk.noted("be bold, and try a hidden width of 48 with dropout 0.3", "Stage_2")
    assert sorted(answers) == [("passed_on", ""), ("waiting", "dropout 0.3"), ("waiting", "width 48")]
    params: dict[str, Any] = {"hidden_units": 48, "drop_out": 0.0}
    desk.voice.say(NodeCreated(stage="Stage_2", node="Stage_2/1", plan="p", params=params))
    assert desk.answers(1)[-1] == ("taken", "width 48")
    desk.voice.say(NodeCreated(stage="Stage_3", node="Stage_3/1", plan="p", params={"dropout": 0.3}))
    assert desk.answers(1)[-1] == ("taken", "dropout 0.3")
    assert desk.noted("use more seeds", "Stage_3") == [("refused", "seed"), ("passed_on", "")]
    assert [each for each, _ in desk.noted("be bold", "validation")] == ["too_late"]


def test_with_a_model_a_strength_that_the_claim_has_fixed_is_refused() -> None:
    desk = Desk("A dropout of 0.2 improves accuracy on iris", model="m-1")
    assert ("refused", "dropout 0.4") in desk.noted("dropout 0.4", "Stage_2")


def test_a_researcher_without_notes_does_as_it_did(desk: Desk, baseline: Node) -> None:
    desk.noted("width 48", "Stage_4")
    tree = Tree(True, replace(baseline, arm="intervention"))
    assert desk.researcher.ablate(baseline, tree) == Desk().researcher.ablate(baseline, tree)


READ = [
    ("lr = 3e-3", {"lr": (0.003,)}),
    ("128 hidden units", {"width": (128,)}),
    ("0.5 dropout please", {"dropout": (0.5,)}),
    ("dropout 50%", {"dropout": (0.5,)}),
    ("use AdamW with a cosine schedule", {"optimiser": ("adamw",), "schedule": ("cosine",)}),
    ("clipping norm 0.5", {"gradient_clip": (0.5,)}),
    ("batch 64, lr .01", {"batch_size": (64,), "lr": (0.01,)}),
    ("momentum 0.95", {"momentum": (0.95,)}),
    ("turn early stopping off", {"early_stop": (False,)}),
    ("Try layer normalization with width 256. Also lr 0.003.",
     {"normalisation": ("layer",), "width": (256,), "lr": (0.003,)}),
    ("width 64 or 128 and lr 0.01", {"width": (64, 128), "lr": (0.01,)}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "choices"), READ)
def test_choices_are_read_with_their_values(text: str, choices: dict[str, Any]) -> None:
    found: list[Any] = [each for each in read(text) if not each.problem]
    assert {each.field: each.values for each in found} == choices
    assert len(found) == len(read(text))


WORDS = [
    "dropout", "width", "lr", "0.5", "64", "strength", "seeds", "no", "of", "or", ",", ".", "%", "adam",
    "batch", "norm", "clip", "1e9", "-3", "momentum", "schedule", "cosine", "tries", "¦", "please",
]  # fmt: skip


@settings(max_examples=60)
@given(
    text=st.one_of(st.text(max_size=80), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)),
    stage=st.sampled_from(["Stage_1", "Stage_2", "Stage_3", "Stage_4", "validation", "review"]),
)
def test_no_note_is_dropped_without_a_word(text: str, stage: str) -> None:
    desk = Desk()
    desk.noted(text, stage)
    desk.at("Stage_4")
    assert desk.answers(1)
    last = {each.about: each.outcome for each in desk.reporter.of(NoteAnswered)}
    assert "waiting" not in last.values(), "in the end each wish is taken, refused or too late"


def test_answers_are_facts_that_travel(desk: Desk) -> None:
    desk.noted("width 48", "Stage_2")
    (fact,) = desk.reporter.of(NoteAnswered)
    assert isinstance(fact, Fact)
    assert fact.number == 1
