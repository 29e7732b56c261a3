"""The built-in researcher: walks the declared space, needs no key and no network.

Its proposals are programs like those of a model: a recipe written into the template.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from events.kinds.experiment import Arm
from events.kinds.space.claim import Claim
from events.kinds.space.interventions import Changes, Intervention, Knob
from events.kinds.space.recipe import Recipe, Value, described
from events.kinds.space.understanding import Understood
from stages.kinds.experiment.paper.words import write_words
from stages.kinds.experiment.record.numbers import numbers_of
from stages.kinds.experiment.record.prose import Prose
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.record.reviews import Review
from stages.kinds.experiment.research.proposal import Proposal
from stages.kinds.experiment.research.steering import Steering
from stages.kinds.experiment.seeds import seed_for
from stages.kinds.experiment.tree import UNVARIED, Node, Tree, is_unvaried
from stages.kinds.experiment.trials.template import program_for

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
BY_SPACE: Final = "the built-in researcher"
SAME: Final = 0.05  # strengths closer than this share are one
REPAIR_RATE: Final = 0.1  # a node that diverged is tried again with this share of its learning rate


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Proposes from the declared space, in an order that follows from the seed."""

    understood: Understood
    seed: int
    epochs: int
    steering: Steering

    @property
    def name(self) -> str:
        return BY_SPACE

    @property
    def claim(self) -> Claim:
        return self.understood.claim

    @property
    def switched(self) -> frozenset[str]:
        return self.intervention.fields

    @property
    def intervention(self) -> Intervention:
        """Return the part of the declared space that the claim is about."""
        return self.understood.intervention

    def draft(self, tree: Tree) -> Proposal | None:
        plain = Recipe(epochs=self.epochs)
        for changes in _DRAFTS:
            recipe = plain.changed(self._owned(changes)).changed(self.intervention.off)
            if not _tried(tree, recipe):
                key: dict[str, Value] = {"width": recipe.width, "depth": recipe.depth}
                key |= {"optimiser": recipe.optimiser, "lr": recipe.lr}
                return self._proposal(f"first implementation: {described(key)}", recipe, plain)
        return None

    def tune(self, parent: Node, tree: Tree) -> Proposal | None:
        options = [*self.steering.wishes("baseline"), *self._shuffled(parent)]
        return self._first(parent, tree, options, "tune the baseline")

    def improve(self, parent: Node, tree: Tree) -> Proposal | None:
        intervention = self.intervention
        advised = self.steering.wishes("strength")
        if tree.root is not None and parent.id == tree.root.id:
            options = [*advised, *intervention.strengths]
            return self._first(parent, tree, options, f"apply {intervention.title}")
        moves = [*self.steering.wishes("baseline"), *self._shuffled(parent)]
        if (knob := intervention.knob) is not None:
            tried = [number for node in tree.known if (number := _number(node, knob)) is not None]
            moves = [*moves, *_between(parent, knob, tried)]
        return self._first(parent, tree, [*advised, *moves], f"tune {intervention.title}")

    def ablate(self, parent: Node, tree: Tree) -> Proposal | None:
        best = recipe_of(parent)
        for condition, with_it, on in self._ablations(best):
            recipe = on if with_it else on.changed(self.intervention.off)
            is_open = not _tried(tree, recipe) or (
                condition == UNVARIED and not is_unvaried(tree, self._arm(recipe))
            )
            if is_open:
                plan = f"{condition}, {'with' if with_it else 'without'} {self.intervention.title}"
                return self._proposal(plan, recipe, best, condition, on)
        return None

    def debug(self, node: Node, tree: Tree) -> Proposal | None:
        recipe = recipe_of(node)
        calmer = recipe.changed({"lr": recipe.lr * REPAIR_RATE})
        if _tried(tree, calmer):
            return None
        plan = f"repair {node.id}: {described(calmer.against(recipe))}"
        return self._proposal(plan, calmer, recipe, node.condition)

    def write(self, record: Record) -> Prose:
        return write_words(record, numbers_of(record))

    def review(self, paper: str, count: int) -> Sequence[Review]:
        """Return nothing: words are judged by a language model or by people."""
        return ()

    def _proposal(
        self, plan: str, recipe: Recipe, start: Recipe, condition: str = "", on: Recipe | None = None
    ) -> Proposal:
        """Return the program that is run by `recipe`; `on` is how it is run with its switch on, where that is off."""
        off = self.intervention.off
        switched = (on or recipe).params()
        return Proposal(
            plan=plan,
            code=program_for(recipe.changed(off), {name: switched[name] for name in off}),
            arm=self._arm(recipe),
            params=recipe.params(),
            changed=recipe.against(start),
            condition=condition,
        )

    def _arm(self, recipe: Recipe) -> Arm:
        params = recipe.params()
        is_off = all(params[name] == value for name, value in self.intervention.off.items())
        return "baseline" if is_off else "intervention"

    def _first(self, parent: Node, tree: Tree, options: Iterable[Changes], what: str) -> Proposal | None:
        """Return the first option that changes the parent into something not yet tried."""
        start = recipe_of(parent)
        for changes in options:
            recipe = start.changed(changes)
            if changes and not _tried(tree, recipe):
                return self._proposal(f"{what}: {described(changes)}", recipe, start)
        return None

    def _shuffled(self, parent: Node) -> list[Changes]:
        """Return the neighbours of a node, the same for both arms: no intervention owns what they change."""
        moves = [self._owned(move) for move in _moves(recipe_of(parent))]
        random.Random(seed_for(self.seed, "tune", parent.id)).shuffle(moves)  # noqa: S311 - an order, no secret
        return moves

    def _owned(self, changes: Changes) -> Changes:
        """Return `changes` without the fields that belong to the intervention."""
        return {name: value for name, value in changes.items() if name not in self.intervention.fields}

    def _ablations(self, best: Recipe) -> Iterator[tuple[str, bool, Recipe]]:
        """Yield the best recipe again and without the intervention, then each condition so, as recipes with it.

        Again, because the score by which it was chosen is a lucky one.
        """
        yield UNVARIED, True, best
        yield UNVARIED, False, best
        for condition in _CONDITIONS:
            varied = condition.applied(best)
            if condition.field not in self.intervention.fields and varied != best:
                yield condition.label, True, varied
                yield condition.label, False, varied


def recipe_of(node: Node) -> Recipe:
    """Return the recipe that `node` tried; choices that no recipe has, which others may name, are left out."""
    usual = Recipe().params()
    return Recipe().changed(
        {name: value for name, value in node.params.items() if name in usual and _fits(value, usual[name])}
    )


def _fits(value: Value, usual: Value) -> bool:
    """Return whether a choice is of the kind that a field has; a number is not below zero."""
    if isinstance(usual, float) and type(value) in (int, float):
        return float(value) >= 0
    return type(value) is type(usual) and (not isinstance(value, int) or value >= 0)


def _tried(tree: Tree, recipe: Recipe) -> bool:
    return any(recipe_of(node) == recipe for node in tree.known)


def _moves(recipe: Recipe) -> list[Changes]:
    """Return the neighbours of a recipe, one choice changed in each."""
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
    value = recipe_of(node).params()[knob.name]
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
    whole = isinstance(recipe_of(parent).params()[knob.name], int)
    values = [round(each) if whole else _round(each) for each in wanted if knob.low <= each <= knob.high]
    return [{knob.name: each} for each in values if all(abs(each / old - 1) > SAME for old in known if old)]


def _round(number: float) -> float:
    return float(f"{number:.3g}")
