"""The search policy: what is tried next, and what a stage hands on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.kinds.experiment.tree import (
    Chosen,
    Debug,
    Draft,
    Improve,
    Node,
    NoGoodNode,
    Policy,
    Stop,
    Tree,
    Wait,
    choose,
    conclude,
)

metrics = st.one_of(st.none(), st.floats(0, 1))


def node(number: int, metric: float | None, parent: str | None = None) -> Node:
    works = metric is not None
    error = None if works else "diverged"
    return Node(
        id=f"S/{number}",
        stage="S",
        plan="p",
        code="pass",
        parent=parent,
        metric=metric,
        works=works,
        error=error,
    )


@given(metrics=st.lists(metrics, max_size=12), limit=st.integers(1, 12), chance=st.floats(0, 0.999))
def test_the_search_stops_at_its_limit_and_never_before_the_first_node(
    metrics: list[float | None], limit: int, chance: float
) -> None:
    tree = Tree(higher_is_better=True, nodes=tuple(node(n, m) for n, m in enumerate(metrics)))
    action = choose(tree, Policy(limit=limit, drafts=3), frozenset(), chance)
    if len(metrics) >= limit:
        assert isinstance(action, Stop)
    if not metrics:
        assert isinstance(action, Draft)


@given(metrics=st.lists(st.floats(0, 1), min_size=3, max_size=9), higher=st.booleans())
def test_after_the_drafts_the_best_node_is_refined(metrics: list[float], higher: bool) -> None:
    tree = Tree(higher_is_better=higher, nodes=tuple(node(n, m) for n, m in enumerate(metrics)))
    action = choose(tree, Policy(limit=20, drafts=3), frozenset(), 0.9)
    assert isinstance(action, Improve)
    assert action.node.metric == (max(metrics) if higher else min(metrics))


def test_a_buggy_node_is_repaired_at_the_share_that_the_policy_sets() -> None:
    tree = Tree(higher_is_better=True, nodes=(node(0, None), node(1, 0.5), node(2, 0.6)))
    assert isinstance(choose(tree, Policy(limit=9, drafts=3), frozenset(), 0.4), Debug)
    assert isinstance(choose(tree, Policy(limit=9, drafts=3), frozenset(), 0.6), Improve)


def test_a_stage_hands_on_its_best_or_says_why_it_cannot() -> None:
    policy = Policy(limit=3, drafts=3)
    good = conclude(
        Tree(higher_is_better=False, nodes=(node(0, 0.5), node(1, 0.2), node(2, None))), policy, "S"
    )
    assert isinstance(good, Chosen)
    assert good.node.id == "S/1"
    broken = conclude(Tree(higher_is_better=True, nodes=(node(0, None), node(1, None))), policy, "S")
    assert isinstance(broken, NoGoodNode)
    assert broken.code == "ALL_NODES_BUGGY"
    useless = Node(id="S/0", stage="S", plan="p", code="pass", metric=0.1)
    spent = conclude(Tree(higher_is_better=True, nodes=(useless,)), policy, "S")
    assert isinstance(spent, NoGoodNode)
    assert spent.code == "MAX_ITERATIONS"


@pytest.mark.parametrize("nodes", [(), (node(0, None),), (node(0, 0.9),)], ids=["none", "buggy", "worse"])
def test_a_stage_that_may_add_nothing_hands_on_what_it_was_handed(nodes: tuple[Node, ...]) -> None:
    tree = Tree(higher_is_better=False, root=node(7, 0.5), nodes=nodes)
    for policy in (
        Policy(limit=3, drafts=0, keeps_root=True, is_optional=True),
        Policy(limit=3, drafts=3, is_optional=True),
    ):
        outcome = conclude(tree, policy, "S")
        assert isinstance(outcome, Chosen)
        is_measured = bool(nodes) and not nodes[0].buggy and not policy.keeps_root
        assert outcome.node == (nodes[0] if is_measured else tree.root)


def test_a_round_counts_what_is_under_way_and_waits_for_what_it_needs() -> None:
    policy = Policy(limit=5, drafts=3, ends_when_working=True)
    tree = Tree(higher_is_better=True, nodes=(node(0, 0.5),))
    for number in range(1, 3):
        assert isinstance(choose(tree, policy, frozenset(), 0.9), Draft)
        tree = tree.begun(node(number, None))
    assert isinstance(choose(tree, policy, frozenset(), 0.9), Wait), "whether one works is not known yet"
    tree = tree.grown(*(node(number, 0.5) for number in range(1, 3)))
    assert isinstance(choose(tree, policy, frozenset(), 0.9), Stop)


@pytest.mark.parametrize("policy", [Policy(limit=9, drafts=3), Policy(limit=9, drafts=9, is_optional=True)])
def test_one_draft_goes_ahead_and_the_others_wait_until_a_node_has_lived(policy: Policy) -> None:
    tree = Tree(higher_is_better=True, root=node(9, 0.5))
    assert isinstance(choose(tree, policy, frozenset(), 0.9), Draft)
    tree = tree.begun(node(1, None))
    assert isinstance(choose(tree, policy, frozenset(), 0.9), Wait)
    tree = tree.grown(node(1, None))
    assert isinstance(choose(tree, policy, frozenset(), 0.1), Debug)
    tree = tree.begun(node(2, None, parent="S/1"))
    assert isinstance(choose(tree, policy, frozenset(), 0.9), Wait), "the repair goes alone too"
    tree = tree.grown(node(2, 0.5, parent="S/1"))
    for number in (3, 4):
        assert isinstance(choose(tree, policy, frozenset(), 0.9), Draft)
        tree = tree.begun(node(number, None, parent="S/9"))


def test_neighbours_of_a_node_that_lives_are_tried_side_by_side() -> None:
    policy = Policy(limit=9, drafts=0, keeps_root=True, is_optional=True)
    tree = Tree(higher_is_better=True, root=node(9, 0.5)).begun(node(1, None, parent="S/9"))
    assert isinstance(choose(tree, policy, frozenset(), 0.9), Improve)


def test_the_node_handed_over_is_always_among_the_finalists_of_a_stage_that_may_keep_it() -> None:
    lucky = tuple(node(number, 0.9) for number in range(4))
    tree = Tree(higher_is_better=True, root=node(9, 0.5), nodes=lucky)
    assert [each.id for each in tree.finalists(3, with_root=True)] == ["S/0", "S/1", "S/9"]
    assert [each.id for each in tree.finalists(3)] == ["S/0", "S/1", "S/2"]


def test_a_node_that_is_being_repaired_is_not_repaired_again() -> None:
    tree = Tree(higher_is_better=True, nodes=(node(0, None), node(1, 0.5)))
    policy = Policy(limit=9, drafts=2)
    action = choose(tree, policy, frozenset(), 0.0)
    assert isinstance(action, Debug)
    again = choose(tree.begun(node(2, None, parent=action.node.id)), policy, frozenset(), 0.0)
    assert isinstance(again, Improve)


def test_the_limit_holds_for_nodes_under_way_too() -> None:
    tree = Tree(higher_is_better=True, nodes=(node(0, 0.5),)).begun(node(1, None))
    assert isinstance(choose(tree, Policy(limit=2, drafts=5), frozenset(), 0.9), Wait)
