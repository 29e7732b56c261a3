"""The search policy: which node to grow next, when a stage is done, and which node it hands on.

Pure: trees in, decisions out; chance comes as a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

from msgspec import Meta

from events.kinds.experiment import Arm
from stages.bounds import Amount, Count, Line, Number, Scores, Text, Whole, Word

NodeId = Annotated[str, Meta(pattern=r"\AStage_[1-4]/[1-9][0-9]{0,5}\Z")]
StageName = Annotated[str, Meta(pattern=r"\AStage_[1-4]\Z")]
Params = Annotated[Mapping[Word, Line | bool | Whole | Number], Meta(max_length=200)]

UNVARIED: Final = (
    "nothing else varied"  # the condition of the pair that is the chosen program, with and without
)
ROOT: Final = "root"  # stands in `closed` for "no further draft exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One tried program: what was changed, from where, and what came of it.

    `code` is the whole program and `params` the choices in it that a reader should see; `arm` is whether it
    has the intervention; `works` whether it answers better than a constant; `debugs` counts the repairs that
    led to it; `condition` names what an ablation varies.
    """

    id: NodeId
    stage: StageName
    plan: Line
    code: Text
    arm: Arm = "baseline"
    params: Params = field(default_factory=dict)
    parent: NodeId | None = None
    metric: Number | None = None
    error: Line | None = None
    log_tail: Line = ""
    works: bool = False
    seconds: Amount = 0.0
    debugs: Count = 0
    condition: Line = ""
    scores: Scores = field(default_factory=dict)

    @property
    def buggy(self) -> bool:
        """Return whether the node gave an error in the place of a metric."""
        return self.metric is None


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of one stage in the order they were tried; `root` came from the stage before.

    `pending` are nodes under way: they count, and nothing is known of them yet.
    """

    higher_is_better: bool
    root: Node | None = None
    nodes: tuple[Node, ...] = ()
    pending: tuple[Node, ...] = ()

    @property
    def known(self) -> tuple[Node, ...]:
        """Return every node that must not be proposed again, the root first."""
        root = (self.root,) if self.root else ()
        return (*root, *self.nodes, *self.pending)

    def begun(self, node: Node) -> Tree:
        """Return the tree with one node more under way."""
        return replace(self, pending=(*self.pending, node))

    def grown(self, *nodes: Node) -> Tree:
        """Return the tree in which the nodes under way have become `nodes`."""
        return replace(self, nodes=(*self.nodes, *nodes), pending=())

    def best(self, *, with_root: bool = False, working: bool = False) -> Node | None:
        """Return the good node with the best metric; among equals the one tried first."""
        nodes = (self.root, *self.nodes) if with_root and self.root else self.nodes
        good = [node for node in nodes if not node.buggy and (node.works or not working)]
        return min(good, key=self._rank, default=None)

    def finalists(self, count: int, *, with_root: bool = False) -> tuple[Node, ...]:
        """Return the best nodes that work, at most `count`, the best first; with the root one place is its own."""
        good = sorted((node for node in self.nodes if not node.buggy and node.works), key=self._rank)
        root = self.root if with_root and self.root and self.root.works and not self.root.buggy else None
        if root is None:
            return tuple(good[:count])
        return tuple(sorted((root, *good[: count - 1]), key=self._rank))

    def _rank(self, node: Node) -> float:
        assert node.metric is not None
        return -node.metric if self.higher_is_better else node.metric


def is_unvaried(tree: Tree, arm: Arm) -> bool:
    """Return whether the root's own program was tried again as this arm."""
    return any(node.condition == UNVARIED and node.arm == arm for node in (*tree.nodes, *tree.pending))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The bounds of one stage's search.

    `keeps_root`: the best node of the stage before stays a candidate. `ends_when_working`: the
    stage is done once every draft was tried and a node works. `patience`: nodes without a new
    best after which the stage ends. `is_optional`: where no node is good, the root is handed on.
    """

    limit: int
    drafts: int
    debug_depth: int = 3
    debug_share: float = 0.5
    keeps_root: bool = False
    ends_when_working: bool = False
    patience: int | None = None
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """Start something new from the root."""


@dataclass(frozen=True, slots=True)
class Debug:
    """Repair this node."""

    node: Node


@dataclass(frozen=True, slots=True)
class Improve:
    """Refine this node."""

    node: Node


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be decided before the nodes under way are known."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The stage is over."""

    reason: str


Action = Draft | Debug | Improve | Wait | Stop


def choose(tree: Tree, policy: Policy, closed: frozenset[str], chance: float) -> Action:
    """Decide the next step. `closed` holds what has nothing left to propose; `chance` is in [0, 1)."""
    if len(tree.nodes) + len(tree.pending) >= policy.limit:
        return _at_rest(tree, f"all {policy.limit} nodes were tried")
    if policy.drafts and tree.pending and all(node.buggy for node in tree.nodes):
        return Wait()  # what fails in the first draft would fail in all
    broken = _repairable(tree, policy, closed)
    if broken is not None and (chance < policy.debug_share or not _others(tree, policy, closed)):
        return Debug(broken)
    if _may_draft(tree, policy, closed):
        return Draft()
    if policy.ends_when_working and tree.pending:
        return Wait()
    if policy.ends_when_working and tree.best(working=True) is not None:
        return Stop("every draft was tried and one works")
    if policy.patience is not None and _since_best(tree, policy) >= policy.patience:
        return _at_rest(tree, f"the last {policy.patience} nodes brought nothing better")
    parent = _best_open(tree, policy, closed)
    if parent is not None:
        return Improve(parent)
    return _at_rest(tree, "nothing is left to propose")


def _at_rest(tree: Tree, reason: str) -> Wait | Stop:
    """Return the stage's end, or that nodes under way may change it."""
    return Wait() if tree.pending else Stop(reason)


def _may_draft(tree: Tree, policy: Policy, closed: frozenset[str]) -> bool:
    """Return whether another start is wanted: the usual number, and more while nothing works."""
    if ROOT in closed:
        return False
    drafted = sum(node.debugs == 0 and _is_draft(tree, node) for node in (*tree.nodes, *tree.pending))
    lacking = policy.ends_when_working and not tree.pending and tree.best(working=True) is None
    return drafted < policy.drafts or lacking


def _is_draft(tree: Tree, node: Node) -> bool:
    return node.parent is None or (tree.root is not None and node.parent == tree.root.id)


def _repairable(tree: Tree, policy: Policy, closed: frozenset[str]) -> Node | None:
    """Return the first buggy leaf that may still be repaired."""
    parents = {node.parent for node in (*tree.nodes, *tree.pending)}
    return next(
        (
            node
            for node in tree.nodes
            if node.buggy
            and node.id not in closed
            and node.id not in parents
            and node.debugs < policy.debug_depth
        ),
        None,
    )


def _others(tree: Tree, policy: Policy, closed: frozenset[str]) -> bool:
    """Return whether anything but a repair is left to do."""
    return _may_draft(tree, policy, closed) or _best_open(tree, policy, closed) is not None


def _best_open(tree: Tree, policy: Policy, closed: frozenset[str]) -> Node | None:
    """Return the best good node that may have something left to propose."""
    left = tuple(node for node in tree.nodes if node.id not in closed)
    root = tree.root if tree.root is not None and tree.root.id not in closed else None
    return replace(tree, root=root, nodes=left).best(with_root=policy.keeps_root)


def _since_best(tree: Tree, policy: Policy) -> int:
    best = tree.best(with_root=policy.keeps_root)
    if best is None:
        return 0
    ids = [node.id for node in tree.nodes]
    return len(ids) - 1 - ids.index(best.id) if best.id in ids else len(ids)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The node that a stage hands on, and why."""

    node: Node
    reason: str


@dataclass(frozen=True, slots=True)
class NoGoodNode:
    """The stage has nothing to hand on: the public code, and a message for people."""

    code: str
    message: str


def conclude(tree: Tree, policy: Policy, stage: str) -> Chosen | NoGoodNode:
    """Decide what a stage that stopped hands on."""
    tried = len(tree.nodes)
    best = tree.best(with_root=policy.keeps_root, working=True)
    if policy.is_optional and tree.root is not None and best in (None, tree.root):
        return Chosen(tree.root, f"none of the {tried} nodes of {stage} was better than the node handed over")
    if tried and all(node.buggy for node in tree.nodes):
        last = tree.nodes[-1].error or "no reason given"
        return NoGoodNode("ALL_NODES_BUGGY", f"all {tried} nodes of {stage} are buggy; the last one: {last}")
    if best is None:
        return NoGoodNode(
            "MAX_ITERATIONS",
            f"{stage} tried {tried} of {policy.limit} nodes without one that answers better than a constant",
        )
    good = sum(not node.buggy for node in tree.nodes)
    return Chosen(best, f"best validation metric of {good} good nodes ({tried} tried)")
