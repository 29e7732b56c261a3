"""Searches of a stage on invented surfaces: the policy itself, with points in the place of programs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean, stdev

from stages.kinds.experiment.record.record import Finalist
from stages.kinds.experiment.search.handover import handed_on
from stages.kinds.experiment.search.search import FINALISTS, WIDTH
from stages.kinds.experiment.tree import Improve, Node, Policy, Stop, Tree, Wait, choose

Point = tuple[int, ...]
Quality = Callable[[Point], float]

CHOICES = 5
REACH = 4
STEP = 0.65  # the mean difference of neighbours, which is taken for 1
DRAFTS: tuple[Point, ...] = ((0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (-1, 1, 0, 0, 0))
LIMITS = {"quick": (5, 3), "standard": (12, 5)}  # nodes of Stage_2, and seeds of a finalist


def smooth(chance: random.Random) -> Quality:
    """A hill: each choice has its best value, and its weight."""
    hill = [(chance.uniform(0.3, 1), chance.randint(-2, 2)) for _ in range(CHOICES)]
    return lambda at: -sum(w * min(abs(x - o), 3) for (w, o), x in zip(hill, at, strict=True)) / STEP


def rugged(chance: random.Random) -> Quality:
    """A hill on which each point lies higher or lower by a chance of its own, of a step and a half."""
    hill = smooth(chance)
    own = cache(lambda at: chance.gauss(0, 1) / STEP)
    return lambda at: hill(at) + own(at)


SURFACES: Mapping[str, Callable[[random.Random], Quality]] = {"smooth": smooth, "rugged": rugged}


@dataclass
class Stage:
    """One search from a root that an earlier stage chose; `noise` is that of one training, in steps."""

    quality: Quality
    noise: float
    limit: int
    repeats: int
    chance: random.Random
    points: dict[str, Point] = field(default_factory=dict)

    def trained(self, at: Point) -> float:
        return self.quality(at) + self.chance.gauss(0, self.noise)

    def begin(self) -> Tree:
        means = {at: fmean(self.trained(at) for _ in range(self.repeats)) for at in DRAFTS}
        start = max(means, key=means.__getitem__)
        return Tree(True, self.node("Stage_1/1", start))

    def node(self, name: str, at: Point, parent: str | None = None) -> Node:
        self.points[name] = at
        stage = name.partition("/")[0]
        return Node(
            id=name, stage=stage, plan="", code="", metric=self.trained(at), works=True, parent=parent
        )

    def open_near(self, parent: Node) -> list[Point]:
        known, at = set(self.points.values()), self.points[parent.id]
        moves = ((*at[:i], at[i] + by, *at[i + 1 :]) for i in range(CHOICES) for by in (-1, 1))
        return [each for each in moves if max(map(abs, each)) <= REACH and each not in known]

    def open_anywhere(self, _: Node) -> list[Point]:
        while (
            at := tuple(self.chance.randint(-REACH, REACH) for _ in range(CHOICES))
        ) in self.points.values():
            pass
        return [at]

    def searched(self, tree: Tree, near: Callable[[Node], list[Point]]) -> Tree:
        policy = Policy(limit=self.limit, drafts=0, keeps_root=True, is_optional=True)
        closed: frozenset[str] = frozenset()
        while True:
            begun: list[Node] = []
            while len(begun) < WIDTH:
                action = choose(tree, policy, closed, self.chance.random())
                if isinstance(action, Wait | Stop):
                    break
                assert isinstance(action, Improve), "every point can be trained"
                parent = action.node
                if not (moves := near(parent)):
                    closed |= {parent.id}
                    continue
                number = len(tree.nodes) + len(tree.pending) + 1
                begun.append(self.node(f"Stage_2/{number}", self.chance.choice(moves), parent.id))
                tree = tree.begun(replace(begun[-1], metric=None))
            if not begun:
                return tree
            tree = tree.grown(*begun)

    def finalist(self, node: Node) -> Finalist:
        values = tuple(self.trained(self.points[node.id]) for _ in range(self.repeats))
        error = stdev(values) / math.sqrt(len(values))
        return Finalist(node.id, tuple(range(self.repeats)), values, fmean(values), error)


def gain(surface: str, noise: float, preset: str, seed: int, how: str) -> float:
    """Return how much better than its root is what a stage hands on, in steps.

    `how` is "shipped", "anywhere" (random points for the same budget), or "best mean" (the finalist with the
    best mean, whether or not the root is one).
    """
    chance = random.Random(f"{surface} {seed}")
    stage = Stage(SURFACES[surface](chance), noise, *LIMITS[preset], chance)
    tree = stage.begin()
    root = tree.root
    assert root is not None
    tree = stage.searched(tree, stage.open_anywhere if how == "anywhere" else stage.open_near)
    if how == "best mean":
        nodes = Tree(True, None, (root, *tree.nodes)).finalists(FINALISTS)
        found = [stage.finalist(each) for each in nodes]
        best = handed_on(found, None, higher_is_better=True)
    else:
        found = [stage.finalist(each) for each in tree.finalists(FINALISTS, with_root=True)]
        best = handed_on(found, root.id, higher_is_better=True)
    return stage.quality(stage.points[best.node]) - stage.quality(stage.points[root.id])
