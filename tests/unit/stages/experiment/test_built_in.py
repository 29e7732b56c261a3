"""The built-in researcher does what a note asks for, as far as it still can, and answers each note."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from events.kinds.idea import Idea
from events.kinds.space.recipe import Value
from events.kinds.space.understanding import understand
from stages.experiment.judging.switch import beyond_switch, choices_of
from stages.experiment.research.built_in import BuiltIn
from stages.experiment.research.proposal import Proposal
from stages.experiment.tree import Node, Tree
from stages.testing import MemoryNotes


@dataclass
class Desk:
    """A researcher, its note-board and its log."""

    idea: str = "Dropout improves accuracy on iris"
    notes: MemoryNotes = field(default_factory=MemoryNotes)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        understood = understand(Idea(short_hypothesis=self.idea))
        self.researcher = BuiltIn(understood, 3, 20, self.notes, self.log.append)

    def answers(self) -> list[str]:
        return [each.partition("the built-in researcher ")[2] for each in self.log]


ODD = [
    {"lr": "fast"}, {"width": True}, {"lr": -1.0}, {"unknown": 3}, {"dropout": 1e100}, {"dropout": -0.5}, {},
    {"network": 5, "depth": 2**53},
]  # fmt: skip


@pytest.mark.parametrize("params", ODD)
def test_a_node_with_odd_choices_is_gone_on_from(params: dict[str, Value]) -> None:
    researcher = Desk().researcher
    root = Node(id="Stage_1/1", stage="Stage_1", plan="p", code="c", params=params, metric=0.5, works=True)
    applied = replace(root, id="Stage_3/1", stage="Stage_3", arm="intervention")
    tree = Tree(True, root, (applied,))
    for proposal in (
        researcher.draft(tree), researcher.tune(root, tree), researcher.improve(root, tree),
        researcher.improve(applied, tree), researcher.ablate(root, tree), researcher.debug(root, tree),
    ):  # fmt: skip
        assert proposal is None or proposal.code


EMPTY = Tree(higher_is_better=True)


def tried(proposal: Proposal | None, number: int = 1) -> Node:
    assert proposal is not None
    return Node(
        id=f"S/{number}",
        stage="S",
        plan=proposal.plan,
        code=proposal.code,
        params=proposal.params,
        metric=0.5,
    )


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def baseline(desk: Desk) -> Node:
    return tried(desk.researcher.draft(EMPTY))


def test_a_note_on_the_baseline_goes_before_the_researchers_own_moves(desk: Desk, baseline: Node) -> None:
    desk.notes.write("Please try width 48, and a learning rate of 0.01!", by="ada")
    proposal = desk.researcher.tune(baseline, EMPTY.grown(baseline))
    assert proposal is not None
    assert (proposal.params["width"], proposal.params["lr"]) == (48, 0.01)
    assert desk.log == ["note 1 by ada was read; the built-in researcher tries width 48, learning rate 0.01"]
    again = desk.researcher.tune(baseline, EMPTY.grown(baseline, tried(proposal, 2)))
    assert again is not None
    assert again.params["width"] != 48, "a wish is tried once"
    assert len(desk.log) == 1, "and answered once"


def test_a_note_on_the_intervention_waits_until_it_is_applied(desk: Desk, baseline: Node) -> None:
    desk.notes.write("dropout 0.35 is what I would try")
    tuned = desk.researcher.tune(baseline, EMPTY.grown(baseline))
    assert tuned is not None
    assert tuned.params["dropout"] == 0.0
    applied = desk.researcher.improve(baseline, Tree(True, baseline))
    assert applied is not None
    assert applied.params["dropout"] == 0.35
    assert desk.answers() == ["keeps for the intervention dropout 0.35"]
    other = desk.researcher.improve(baseline, Tree(True, baseline).grown(tried(applied, 2)))
    assert other is not None
    assert other.params["dropout"] != 0.35


def test_a_note_during_the_creative_stage_steers_its_refinement(desk: Desk, baseline: Node) -> None:
    tree = Tree(True, baseline)
    first = tried(desk.researcher.improve(baseline, tree), 2)
    desk.notes.write("dropout: 0.42")
    refined = desk.researcher.improve(first, tree.grown(first))
    assert refined is not None
    assert refined.params["dropout"] == 0.42
    assert desk.answers() == ["tries dropout 0.42"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("width 48", "comes too late for the baseline to have width 48"),
        ("dropout 0.3", "comes too late for dropout 0.3"),
        ("dropout 7", "finds no choice of its space in it"),
        ("have a nice day", "finds no choice of its space in it"),
    ],
)
def test_a_note_that_comes_too_late_is_answered(desk: Desk, baseline: Node, text: str, answer: str) -> None:
    tree = Tree(True, baseline)
    desk.notes.write(text)
    proposal = desk.researcher.ablate(baseline, tree)
    assert desk.answers() == [answer]
    assert proposal == Desk().researcher.ablate(baseline, tree), "it changes nothing"


def test_a_strength_that_the_claim_has_fixed_is_not_moved_by_a_note(baseline: Node) -> None:
    desk = Desk("A dropout of 0.2 improves accuracy on iris")
    desk.notes.write("dropout 0.4")
    applied = desk.researcher.improve(baseline, Tree(True, baseline))
    assert applied is not None
    assert applied.params["dropout"] == 0.2
    assert desk.answers() == ["finds no choice of its space in it"]


@pytest.mark.parametrize(
    "idea", ["A convolutional network improves accuracy on digits", "Dropout improves accuracy on iris"]
)
def test_an_intervention_is_tuned_by_the_moves_of_the_baseline_as_long_as_there_are_tries(idea: str) -> None:
    desk = Desk(idea)
    root = tried(desk.researcher.draft(EMPTY))
    tree, varied = Tree(True, root), set()
    for number in range(2, 10):
        parent = tree.nodes[0] if tree.nodes else root
        node = tried(desk.researcher.improve(root, tree) or desk.researcher.improve(parent, tree), number)
        assert beyond_switch(node.code, desk.researcher.switched) == ()
        off = choices_of(node.code, is_on=False)
        assert all(off[name] == value for name, value in desk.researcher.intervention.off.items())
        varied |= {name for name, value in off.items() if root.params[name] != value}
        tree = tree.grown(node)
    assert len({str(node.params) for node in tree.nodes}) == 8
    assert len(varied) >= 3, "and not its strength alone"


def test_an_ablation_without_the_intervention_is_the_text_of_its_counterpart() -> None:
    desk = Desk()
    root = tried(desk.researcher.draft(EMPTY))
    best = replace(tried(desk.researcher.improve(root, Tree(True, root)), 2), arm="intervention")
    tree, made = Tree(True, best), []
    for number in range(3, 6):
        proposal = desk.researcher.ablate(best, tree)
        assert proposal is not None
        made.append(proposal)
        tree = tree.grown(replace(tried(proposal, number), arm=proposal.arm))
    removal, with_it, without = made
    assert (removal.arm, removal.code) == ("baseline", best.code)
    assert (with_it.arm, without.arm) == ("intervention", "baseline")
    assert with_it.code == without.code
    assert removal.params["dropout"] == without.params["dropout"] == 0.0 != with_it.params["dropout"]
