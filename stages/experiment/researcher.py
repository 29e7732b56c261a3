"""Who proposes what to try; the built-in researcher walks the declared space and needs no key.

A proposal is a whole recipe with a plan for people. `None` means: nothing left from here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from stages.experiment.claim import Claim
from stages.experiment.interventions import Changes, Knob
from stages.experiment.recipe import Recipe, Value, described
from stages.experiment.seeds import seed_for
from stages.experiment.tree import Node, Tree


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to try next: `changed` is the part that differs from the parent."""

    plan: str
    recipe: Recipe
    changed: Mapping[str, Value]
    condition: str = ""


class Researcher(Protocol):
    """Proposes recipes, one stage a method; a repair may be needed in any of them."""

    def draft(self, tree: Tree) -> Proposal | None:
        """Propose another first implementation without the intervention."""
        ...

    def tune(self, parent: Node, tree: Tree) -> Proposal | None:
        """Propose a better baseline, still without the intervention."""
        ...

    def intervene(self, parent: Node, tree: Tree) -> Proposal | None:
        """Propose a strength or variant of the intervention on the baseline, the tree's root."""
        ...

    def ablate(self, parent: Node, tree: Tree) -> Proposal | None:
        """Propose a part to take away or to vary from the best node, the tree's root."""
        ...

    def debug(self, node: Node, tree: Tree) -> Proposal | None:
        """Propose a repair of a buggy node."""
        ...


_DRAFTS: Final[tuple[Changes, ...]] = (
    {},
    {"optimiser": "momentum", "lr": 0.02},
    {"width": 128, "lr": 0.001},
    {"depth": 1, "lr": 0.01},
    {"optimiser": "rmsprop", "lr": 0.001},
    {"depth": 3, "lr": 0.001},
)


@dataclass(frozen=True, slots=True)
class _Condition:
    """Something else to vary in an ablation: a field multiplied, or set."""

    label: str
    field: str
    times: float | None = None
    to: Value | None = None

    def applied(self, recipe: Recipe) -> Recipe:
        value = recipe.params()[self.field]
        if self.times is None:
            assert self.to is not None
            return recipe.changed({self.field: self.to})
        assert isinstance(value, int | float)
        scaled = value * self.times
        return recipe.changed({self.field: max(1, round(scaled)) if isinstance(value, int) else scaled})


_CONDITIONS: Final = (
    _Condition("half the training", "training_length", times=0.5),
    _Condition("half the width", "width", times=0.5),
    _Condition("a third of the learning rate", "lr", times=1 / 3),
    _Condition("one hidden layer", "depth", to=1),
    _Condition("four times the batch size", "batch_size", times=4.0),
    _Condition("twice the training", "training_length", times=2.0),
    _Condition("twice the width", "width", times=2.0),
    _Condition("a constant learning rate", "schedule", to="constant"),
    _Condition("no weight decay", "weight_decay", to=0.0),
    _Condition("tanh units", "activation", to="tanh"),
    _Condition("three hidden layers", "depth", to=3),
)
UNVARIED: Final = "nothing else varied"
SAME: Final = 0.05  # strengths closer than this share are one
REPAIR_RATE: Final = 0.1  # a node that diverged is tried again with this share of its learning rate


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Proposes from the declared space, in an order that follows from the seed."""

    claim: Claim
    seed: int
    epochs: int

    def draft(self, tree: Tree) -> Proposal | None:
        plain = Recipe(epochs=self.epochs)
        for changes in _DRAFTS:
            recipe = plain.changed(self._owned(changes)).changed(self.claim.intervention.off)
            if not _tried(tree, recipe):
                key: dict[str, Value] = {"width": recipe.width, "depth": recipe.depth}
                key |= {"optimiser": recipe.optimiser, "lr": recipe.lr}
                return Proposal(f"first implementation: {described(key)}", recipe, recipe.against(plain))
        return None

    def tune(self, parent: Node, tree: Tree) -> Proposal | None:
        moves = [self._owned(move) for move in _moves(recipe_of(parent))]
        random.Random(seed_for(self.seed, "tune", parent.id)).shuffle(moves)  # noqa: S311 - an order, no secret
        return _first(parent, tree, moves, "tune the baseline")

    def intervene(self, parent: Node, tree: Tree) -> Proposal | None:
        intervention = self.claim.intervention
        if tree.root is not None and parent.id == tree.root.id:
            return _first(parent, tree, intervention.strengths, f"apply {intervention.title}")
        if intervention.knob is None:
            return None
        tried = [number for node in tree.nodes if (number := _number(node, intervention.knob)) is not None]
        return _first(
            parent, tree, _between(parent, intervention.knob, tried), f"refine {intervention.title}"
        )

    def ablate(self, parent: Node, tree: Tree) -> Proposal | None:
        best = recipe_of(parent)
        for condition, with_it, recipe in self._ablations(best):
            if recipe != best and not _tried(tree, recipe):
                plan = f"{condition}, {'with' if with_it else 'without'} {self.claim.intervention.title}"
                return Proposal(plan, recipe, recipe.against(best), condition)
        return None

    def debug(self, node: Node, tree: Tree) -> Proposal | None:
        recipe = recipe_of(node)
        calmer = recipe.changed({"lr": recipe.lr * REPAIR_RATE})
        if _tried(tree, calmer):
            return None
        changed = calmer.against(recipe)
        return Proposal(f"repair {node.id}: {described(changed)}", calmer, changed)

    def _owned(self, changes: Changes) -> Changes:
        """Return `changes` without the fields that belong to the intervention."""
        return {name: value for name, value in changes.items() if name not in self.claim.intervention.fields}

    def _ablations(self, best: Recipe) -> Iterator[tuple[str, bool, Recipe]]:
        """Yield the removal of the intervention, then each condition with it and without it."""
        off = self.claim.intervention.off
        yield UNVARIED, False, best.changed(off)
        for condition in _CONDITIONS:
            varied = condition.applied(best)
            if condition.field not in self.claim.intervention.fields and varied != best:
                yield condition.label, True, varied
                yield condition.label, False, varied.changed(off)


def recipe_of(node: Node) -> Recipe:
    """Return the recipe that `node` tried."""
    return Recipe().changed(node.params)


def _tried(tree: Tree, recipe: Recipe) -> bool:
    nodes = tree.nodes if tree.root is None else (tree.root, *tree.nodes)
    return any(recipe_of(node) == recipe for node in nodes)


def _first(parent: Node, tree: Tree, options: Iterable[Changes], what: str) -> Proposal | None:
    """Return the first option that changes the parent into something not yet tried."""
    start = recipe_of(parent)
    for changes in options:
        recipe = start.changed(changes)
        if changes and not _tried(tree, recipe):
            return Proposal(f"{what}: {described(changes)}", recipe, recipe.against(start))
    return None


def _moves(recipe: Recipe) -> list[Changes]:
    """Return the neighbours of a baseline, one choice changed in each."""
    moves: list[Changes] = [
        {"lr": _round(recipe.lr * 3)},
        {"lr": _round(recipe.lr / 3)},
        {"width": recipe.width * 2},
        {"width": max(4, recipe.width // 2)},
        {"depth": recipe.depth + 1},
        {"batch_size": max(8, recipe.batch_size // 2)},
        {"batch_size": recipe.batch_size * 2},
        {"schedule": "cosine"},
        {"weight_decay": 1e-3 if recipe.weight_decay == 0 else _round(recipe.weight_decay * 3)},
    ]
    if recipe.depth > 1:
        moves.append({"depth": recipe.depth - 1})
    return [move for move in moves if recipe.changed(move) != recipe]


def _number(node: Node, knob: Knob) -> float | None:
    value = node.params[knob.name]
    return float(value) if isinstance(value, int | float) else None


def _between(parent: Node, knob: Knob, tried: Iterable[float]) -> list[Changes]:
    """Return the values beside the parent's: half way (as a ratio) to what was tried, or beyond it."""
    here = _number(parent, knob)
    assert here is not None
    known = sorted(set(tried))
    below = max((each for each in known if each < here), default=None)
    above = min((each for each in known if each > here), default=None)
    wanted = (
        (here * below) ** 0.5 if below is not None else here / 2,
        (here * above) ** 0.5 if above is not None else here * 2,
    )
    whole = isinstance(parent.params[knob.name], int)
    values = [round(each) if whole else _round(each) for each in wanted if knob.low <= each <= knob.high]
    return [{knob.name: each} for each in values if all(abs(each / old - 1) > SAME for old in known if old)]


def _round(number: float) -> float:
    return float(f"{number:.3g}")
