"""The built-in researcher proposes programs of the declared space, and goes on from any node."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from events.kinds.idea import Idea
from events.kinds.space.recipe import Value
from events.kinds.space.understanding import understand
from stages.kinds.experiment.judging.switch import beyond_switch, choices_of
from stages.kinds.experiment.research.built_in import BY_SPACE, BuiltIn
from stages.kinds.experiment.research.openness import Scope
from stages.kinds.experiment.research.proposal import Proposal
from stages.kinds.experiment.research.steering import Steering
from stages.kinds.experiment.tree import Node, Tree
from stages.testing import MemoryNotes


@dataclass
class Desk:
    """A researcher without notes."""

    idea: str = "Dropout improves accuracy on iris"

    def __post_init__(self) -> None:
        understood = understand(Idea(short_hypothesis=self.idea))
        scope = Scope.of(understood.intervention)
        steering = Steering(scope, MemoryNotes(), lambda _: None, BY_SPACE)
        self.researcher = BuiltIn(understood, 3, 20, steering)


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
    for number in range(3, 7):
        proposal = desk.researcher.ablate(best, tree)
        assert proposal is not None
        made.append(proposal)
        node = replace(tried(proposal, number), arm=proposal.arm, condition=proposal.condition)
        tree = tree.grown(node)
    again, removal, with_it, without = made
    assert (again.arm, again.code, again.condition) == ("intervention", best.code, removal.condition)
    assert (removal.arm, removal.code) == ("baseline", best.code)
    assert (with_it.arm, without.arm) == ("intervention", "baseline")
    assert with_it.code == without.code
    assert removal.params["dropout"] == without.params["dropout"] == 0.0 != with_it.params["dropout"]
