"""Disguises the rows of a run, so that knowledge of a public data set gives no answers.

Law: every program of a run, with the intervention and without, is given the same disguised rows in each of
its splits, and all of it follows from the run's secret. See docs/decisions/0031.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stages.kinds.experiment.data.loading import Data, Part, Sealed, Visible
from stages.kinds.experiment.data.splits import Rows
from stages.kinds.experiment.judging.kernel_regression import class_law, value_law
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.statistics.scores import Floats

DRAWN: Final = (
    "The data set is public: its rows are blurred and its targets drawn anew, from what the neighbours of each row "
    "say of it, so that nobody can look them up. Both arms get the same rows; other publications had others."
)
NOISE: Final = 0.05  # added to each feature of a public data set, in its standard deviations


@dataclass(frozen=True, slots=True)
class Law:
    """By what the targets of some rows were drawn: probabilities of classes, or means and their deviation.

    `probabilities` has the shape (rows, classes), `means` (rows,) in the targets' own unit.
    """

    probabilities: Floats | None = None
    means: Floats | None = None
    deviation: float = 0.0

    def of(self, rows: Any) -> Law:
        """Return the law of some of the rows."""
        if self.probabilities is not None:
            return Law(self.probabilities[rows])
        return Law(means=None if self.means is None else self.means[rows], deviation=self.deviation)


@dataclass(frozen=True, slots=True)
class Disguised:
    """The data of a split as programs get them, and the laws of those rows that judge, where there are any."""

    data: Data
    validation: Law | None = None
    test: Law | None = None


@dataclass(frozen=True, slots=True)
class Disguise:
    """What a secret makes of the rows of a table, by their numbers there; the same in every split.

    `blur` is added to each row, and `law` is the law of its target; both are None where rows are not public.
    `names` are the new numbers of the classes, None where values are predicted.
    """

    targets: NDArray[Any]
    blur: NDArray[np.float32] | None
    law: Law | None
    names: NDArray[np.int64] | None
    turned: Callable[[NDArray[np.float32]], NDArray[np.float32]] = field(repr=False)

    def worn(self, data: Data) -> Disguised:
        """Return a split of the table in disguise."""
        parts = (
            data.visible.train,
            data.visible.watch,
            data.visible.validation,
            data.sealed.open(),
            data.left,
        )
        edges = np.cumsum([0, *map(len, parts)])
        rows = [data.places[start:end] for start, end in pairwise(map(int, edges))]
        train, watch, validation, test, left = (
            Part(self._hidden(part.features, places), self.targets[places])
            for part, places in zip(parts, rows, strict=True)
        )
        facts = data.facts
        if self.names is not None:
            facts = replace(facts, classes=tuple(facts.classes[old] for old in np.argsort(self.names)))
        hidden = replace(
            data,
            facts=facts,
            visible=Visible(train, watch, validation),
            sealed=Sealed(test),
            left=left,
            notes=data.notes if self.law is None else (*data.notes, DRAWN),
        )
        if self.law is None:
            return Disguised(hidden)
        return Disguised(hidden, self.law.of(rows[2]), self.law.of(rows[3]))

    def _hidden(self, features: NDArray[np.float32], places: Rows) -> NDArray[np.float32]:
        blurred = features if self.blur is None else features + np.float32(NOISE) * self.blur[places]
        return self.turned(blurred)


def disguise_of(data: Data, secret: Secret, *, is_public: bool) -> Disguise:
    """Return the disguise of a table: columns in another order and direction, classes under other numbers.

    Where rows and targets are public, the rows are also blurred, and every target is drawn anew from the
    estimate of the row's neighbours, as they lie in the split `data`.
    """
    parts = (data.visible.train, data.visible.watch, data.visible.validation, data.sealed.open(), data.left)
    features = np.concatenate([part.features for part in parts])
    targets = np.concatenate([part.targets for part in parts])
    law = blur = names = None
    if is_public:
        targets, law = _drawn(data, features, targets, secret.chance("targets"))
        blur = secret.chance("noise").standard_normal(features.shape, dtype=np.float32)
    if data.facts.task == "classification":
        names = secret.chance("classes").permutation(data.facts.outputs)  # the new number of each class
        targets = names[targets]
        if law is not None and law.probabilities is not None:
            law = Law(law.probabilities[:, np.argsort(names)])
    row = np.argsort(data.places)  # of `features`, for each row of the table
    return Disguise(
        targets=targets[row],
        blur=None if blur is None else blur[row],
        law=None if law is None else law.of(row),
        names=names,
        turned=_turned(data.facts.image_side, features.shape[1], secret.chance("columns")),
    )


def _drawn(
    data: Data, features: NDArray[np.float32], targets: NDArray[Any], chance: np.random.Generator
) -> tuple[NDArray[Any], Law]:
    """Return new targets for all rows, and the law that they were drawn from."""
    if data.facts.task == "classification":
        law = class_law(features, targets, data.facts.outputs)
        places = (law.cumsum(axis=1) < chance.random(len(law))[:, None]).sum(axis=1)
        return np.minimum(places, data.facts.outputs - 1).astype(np.int64), Law(law)
    means, deviation = value_law(features, targets)
    drawn = means + deviation * chance.standard_normal(len(means))
    return drawn, Law(means=means, deviation=deviation)


def _turned(
    image_side: int | None, columns: int, chance: np.random.Generator
) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Return what reorders and mirrors columns; images are turned and mirrored whole."""
    if image_side is None:
        order = chance.permutation(columns)
        signs = chance.choice(np.array([-1.0, 1.0], dtype=np.float32), columns)

        def shuffled(rows: NDArray[np.float32]) -> NDArray[np.float32]:
            return np.ascontiguousarray(rows[:, order] * signs)

        return shuffled
    quarters, is_mirrored = int(chance.integers(4)), bool(chance.integers(2))

    def turned(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        images = np.rot90(rows.reshape(-1, image_side, image_side), quarters, axes=(1, 2))
        images = images[:, :, ::-1] if is_mirrored else images
        return np.ascontiguousarray(images).reshape(rows.shape)

    return turned
