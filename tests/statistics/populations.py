"""Differences of units whose true mean is known: drawn from formulas, and measured by real learners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from events.kinds.space.data_sets import RESERVE_SHARE, SHARES
from stages.kinds.experiment.data.columns import Along, Table, Target
from stages.kinds.experiment.data.divisions import rows_of, units_possible
from stages.kinds.experiment.data.reserve import JUDGING_SHARE

Floats = NDArray[np.float64]
Shape = Callable[[np.random.Generator, tuple[int, ...]], Floats]

TEST: Final = SHARES["test"]
TRAIN: Final = SHARES["train"] + SHARES["watch"]  # what a unit learns from; the others lie idle
SHARED: Final = TEST / (1 - TEST)
LIKENESS: Final = SHARED / (1 + SHARED)  # the correlation of two units for which the variance is exact
ROWS: Final = 53  # that judge, for differences with many ties
BATCH: Final = 100  # data sets at once: more would not fit the processor's cache
SIGNALS: Final = 5  # features that each arm is given


def _tied(chance: np.random.Generator, size: tuple[int, ...]) -> Floats:
    """Return differences of two accuracies on few rows."""
    one, other = (chance.binomial(ROWS, 0.97, size) for _ in range(2))
    difference: Floats = (one - other) / np.sqrt(2 * ROWS * 0.97 * 0.03)
    return difference


# With mean 0 and deviation 1.
SHAPES: Final[Mapping[str, Shape]] = {
    "normal": lambda chance, size: chance.standard_normal(size),
    "t with 3 degrees": lambda chance, size: chance.standard_t(3, size) / np.sqrt(3),
    "exponential": lambda chance, size: 1 - chance.exponential(size=size),
    "tied": _tied,
}
NEIGHBOURS: Final = 5
Learner = Callable[[Floats, Floats, Floats], Floats]  # features, targets, asked: what is foretold of these
SETS: Final[Mapping[str, Callable[..., Any]]] = {
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}


def drawn(shape: str, draws: int, units: int, *, is_shared: bool, seed: int) -> Floats:
    """Return differences of this shape; what the rows have in common is normal, as a mean over them is."""
    chance = np.random.default_rng(seed)
    own = SHAPES[shape](chance, (draws, units))
    if not is_shared:
        return own
    common = chance.standard_normal((draws, 1))
    both: Floats = np.sqrt(1 - LIKENESS) * own + np.sqrt(LIKENESS) * common
    return both


def _splits(chance: np.random.Generator, draws: int, units: int, rows: int) -> tuple[Any, Any]:
    """Return the rows that each unit learns from, and those that judge it."""
    order = np.argsort(chance.random((draws, units, rows)), axis=-1)
    learnt, judging = int(rows * TRAIN), round(rows * TEST)
    return order[..., :learnt], order[..., learnt : learnt + judging]


def _splits_judged_by_reserve(
    chance: np.random.Generator, draws: int, units: int, rows: int
) -> tuple[Any, Any]:
    """Return the same where a half of the last rows judges each unit, and nothing learns from those."""
    kept = round(rows * RESERVE_SHARE)
    order = np.argsort(chance.random((draws, units, rows - kept)), axis=-1)
    judging = np.argsort(chance.random((draws, units, kept)), axis=-1) + rows - kept
    return order[..., : int((rows - kept) * TRAIN)], judging[..., : round(kept * JUDGING_SHARE)]


def ridge(features: Floats, targets: Floats, asked: Floats) -> Floats:
    """Return the values of ridge regressions without chance, one for each place of the first axis."""
    known, wanted = _standard(features, asked)
    level = targets.mean(axis=1, keepdims=True)
    turned = known.transpose(0, 2, 1)
    weights = np.linalg.solve(turned @ known + np.eye(known.shape[2]), turned @ (targets - level))
    values: Floats = wanted @ weights + level
    return values


def neighbours(features: Floats, targets: Floats, asked: Floats) -> Floats:
    """Return the means of the `NEIGHBOURS` nearest rows, for each place of the first axis."""
    known, wanted = _standard(features, asked)
    apart = (known**2).sum(2)[:, None, :] - 2 * wanted @ known.transpose(0, 2, 1)
    nearest = np.argpartition(apart, NEIGHBOURS, axis=2)[..., :NEIGHBOURS]
    values: Floats = targets[np.arange(len(targets))[:, None, None], nearest].mean(axis=2)
    return values


def _standard(features: Floats, asked: Floats) -> tuple[Floats, Floats]:
    mean, scale = features.mean(axis=1, keepdims=True), features.std(axis=1, keepdims=True) + 1e-9
    return (features - mean) / scale, (asked - mean) / scale


def twins(
    draws: int,
    units: int,
    rows: int,
    *,
    seed: int,
    tilt: float = 0.0,
    tries: int = 1,
    by_reserve: bool = False,
) -> Floats:
    """Return accuracies of one arm less those of another that is given other features of the same kind.

    By symmetry the true difference is 0 where nothing tilts. Each arm is the best of so many choices of
    features, by a part of the rows that a search sees.
    """
    chance = np.random.default_rng(seed)
    splits = _splits_judged_by_reserve if by_reserve else _splits
    batches = [_twins(chance, BATCH, units, rows, tilt, tries, splits) for _ in range(draws // BATCH)]
    return np.concatenate(batches)


def _twins(
    chance: np.random.Generator, draws: int, units: int, rows: int, tilt: float, tries: int,
    splits: Callable[..., tuple[Any, Any]],
) -> Floats:  # fmt: skip
    each = SIGNALS if tries == 1 else 2 * SIGNALS  # where there is a choice, half of them is chosen
    strength = np.repeat([1.0, 1.0 + tilt], each)
    features = chance.standard_normal((draws, rows, 2 * each))
    noise = np.sqrt(2 * each) * chance.standard_normal((draws, rows))
    targets = np.where(features @ strength + noise > 0, 1.0, -1.0)
    learnt, judging = splits(chance, draws, units, rows)
    found = []
    for arm in (0, 1):
        columns = np.tile(np.arange(SIGNALS), (draws, 1)) + arm * each
        if tries > 1:
            columns = _chosen(chance, features, targets, arm * each, tries)
        own = np.take_along_axis(features, columns[:, None, :], axis=2)
        found.append(_accuracies(own, targets, learnt, judging))
    difference: Floats = found[1] - found[0]
    return difference


def _chosen(
    chance: np.random.Generator, features: Floats, targets: Floats, first: int, tries: int
) -> NDArray[np.int64]:
    """Return the columns of the best candidate by rows that are not sealed."""
    draws, rows = targets.shape
    learnt, judging = _splits(chance, draws, 1, rows)
    orders = np.argsort(chance.random((tries, draws, 2 * SIGNALS)), axis=-1)[..., :SIGNALS] + first
    scores = [
        _accuracies(np.take_along_axis(features, each[:, None, :], axis=2), targets, learnt, judging)[:, 0]
        for each in orders
    ]
    best: NDArray[np.int64] = orders[np.argmax(scores, axis=0), np.arange(draws)]
    return best


def _accuracies(features: Floats, targets: Floats, learnt: Any, judging: Any) -> Floats:
    draws, units = learnt.shape[:2]
    place = np.arange(draws)[:, None, None]
    known, asked = (
        features[place, rows].reshape(draws * units, -1, features.shape[2]) for rows in (learnt, judging)
    )
    values = ridge(known, targets[place, learnt].reshape(draws * units, -1, 1), asked)[..., 0]
    wanted = targets[place, judging].reshape(draws * units, -1)
    accuracies: Floats = ((values > 0) == (wanted > 0)).mean(axis=1).reshape(draws, units)
    return accuracies


def grouped_twins(draws: int, units: int, groups: int, each: int, *, seed: int) -> Floats:
    """Return the same of rows that come in groups, each of which has its own shift of features and targets.

    A unit draws whole groups, some of which judge.
    """
    chance = np.random.default_rng(seed)
    owner = np.repeat(np.arange(groups), each)
    found = []
    for _ in range(draws // BATCH):
        shape = (BATCH, groups * each, 2 * SIGNALS)
        features = (
            0.6 * chance.standard_normal(shape)
            + chance.standard_normal((BATCH, groups, 2 * SIGNALS))[:, owner]
        )
        own = chance.standard_normal((BATCH, groups))[:, owner] + chance.standard_normal(shape[:2])
        targets = np.where(features.sum(axis=2) + np.sqrt(SIGNALS) * own > 0, 1.0, -1.0)
        learnt, judging = (
            (each * part[..., None] + np.arange(each)).reshape(BATCH, units, -1)
            for part in _splits(chance, BATCH, units, groups)
        )
        found.append(_difference(features, targets, learnt, judging))
    return np.concatenate(found)


def windowed_twins(
    draws: int, units: int, rows: int, *, seed: int, likeness: float = 0.0, drift: float = 0.0
) -> Floats:
    """Return the same of rows in the order of time, in windows that roll as those of a table do.

    Each row is as alike to the one before as `likeness` says, and what the features mean wanders by `drift`
    until the end.
    """
    chance = np.random.default_rng(seed)
    order = [
        rows_of(_ordered(rows), 0, place, units) for place in range(units_possible(_ordered(rows), units))
    ]
    learnt = np.array([np.concatenate([each["train"], each["watch"]]) for each in order])
    judging = np.array([each["test"] for each in order])
    found = []
    for _ in range(draws // BATCH):
        shape = (BATCH, rows, 2 * SIGNALS)
        features = chance.standard_normal(shape)
        for row in range(1, rows if likeness else 0):
            features[:, row] *= np.sqrt(1 - likeness**2)
            features[:, row] += likeness * features[:, row - 1]
        strength = 1 + drift * np.cumsum(chance.standard_normal(shape), axis=1) / np.sqrt(rows)
        noise = np.sqrt(2 * SIGNALS) * chance.standard_normal(shape[:2])
        targets = np.where((features * strength).sum(axis=2) + noise > 0, 1.0, -1.0)
        spread = [np.broadcast_to(each, (BATCH, *each.shape)) for each in (learnt, judging)]
        found.append(_difference(features, targets, *spread))
    return np.concatenate(found)


def _ordered(rows: int) -> Table:
    """Return a table of so many rows, each later than the one before."""
    target = Target("y", "regression", np.zeros(rows), ())
    return Table((), target, None, (), Along("time", "time", np.arange(float(rows))))


def _difference(features: Floats, targets: Floats, learnt: Any, judging: Any) -> Floats:
    """Return the accuracies with the second half of the features, less those with the first."""
    one, other = (
        _accuracies(features[..., first : first + SIGNALS], targets, learnt, judging)
        for first in (0, SIGNALS)
    )
    difference: Floats = other - one
    return difference


def with_noise(
    name: str, columns: int, draws: int, units: int, *, seed: int, learner: Learner = ridge
) -> Floats:
    """Return what columns of pure noise add to the accuracy of a learner on a set that ships."""
    chance = np.random.default_rng(seed)
    rows, labels = SETS[name](return_X_y=True)
    hot = np.eye(labels.max() + 1)[labels]
    found: list[Sequence[float]] = []
    for _ in range(draws):
        (learnt,), (judging,) = _splits(chance, 1, units, len(rows))
        noise = chance.standard_normal((units, len(rows), columns))
        wider = np.concatenate([np.broadcast_to(rows, (units, *rows.shape)), noise], axis=2)
        place = np.arange(units)[:, None]
        plain, more = (
            (
                learner(each[place, learnt], hot[learnt], each[place, judging]).argmax(2) == labels[judging]
            ).mean(1)
            for each in (wider[..., : rows.shape[1]], wider)
        )
        found.append(more - plain)
    return np.array(found)
