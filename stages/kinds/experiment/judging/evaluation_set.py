"""The rows that judge: one file for validation and test alike, with canaries among them.

Law: a program cannot distinguish the rows that count now, nor the canaries. A canary lies half way between
two rows of different targets; a random bit decides which side is right. A program that is right about more
canaries than chance allows has read the bits, and so may have read everything else that judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from stages.kinds.experiment.data.loading import Data, Part
from stages.kinds.experiment.judging.disguise import Disguised, Law
from stages.kinds.experiment.judging.program_output import Known
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.statistics.scores import Floats

CANARIES: Final = 40
CHANCE_MAX: Final = 1e-9  # of an honest program to be taken for one that knows the answers
NEIGHBOURS_LOOKED_AT: Final = 200  # rows, to learn how far neighbours are
LAW_MIN: Final = 1e-12
HAS_READ: Final = "so it has read what judges it, and its answers count for nothing"


@dataclass(frozen=True, slots=True)
class Canaries:
    """Rows that do not count, by their numbers in the file, and on which side of each the coin fell.

    `sides` has the shape (canaries, 2): the target that the coin chose, and the other one.
    """

    rows: NDArray[np.int64]
    sides: NDArray[Any]

    def check(self, answers: Floats) -> None:
        """Raise `Known` where the answers to these rows, in the file's order, know the coins."""
        if answers.ndim == 2:
            chosen, other = (answers[self.rows, self.sides[:, side]] for side in (0, 1))
            hits = int((chosen > other).sum())
        else:
            given = answers[self.rows]
            hits = int((abs(given - self.sides[:, 0]) < abs(given - self.sides[:, 1])).sum())
        count = len(self.rows)
        if count and binom.sf(hits - 1, count, 0.5) < CHANCE_MAX:
            raise Known(
                f"the program is right about {hits} of {count} rows whose answers a coin decided, {HAS_READ}"
            )


@dataclass(frozen=True, slots=True)
class Judges:
    """Some of the rows of a file: their numbers in it, and their targets, which stay outside.

    `total` counts all rows of the file, for each of which a program answers.
    """

    features: Path
    total: int
    rows: NDArray[np.int64]
    targets: NDArray[Any]
    canaries: Canaries
    law: Law | None = None

    def judged(self, answers: Floats) -> Floats:
        """Return the answers that count, in the order of `targets`. Raises `Known` for what no program can know."""
        self.canaries.check(answers)
        counted = answers[self.rows]
        if self.law is not None:
            _check_against(self.law, counted, self.targets)
        return counted


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """The file of the rows that judge, and what is known of it in this process alone."""

    disguised: Disguised
    features: Path
    order: NDArray[np.int64]  # the row of the file in which each stands: validation, test, canaries
    sides: NDArray[Any]
    mark: str  # of the secret: what was measured by another one belongs to other rows

    @property
    def validation(self) -> Judges:
        """Return what judges the search."""
        part = self.disguised.data.visible.validation
        return self._judges(0, part, self.disguised.validation)

    def test(self) -> Judges:
        """Open what judges at the end; only the validation does this."""
        part = self.disguised.data.sealed.open()
        return self._judges(len(self.disguised.data.visible.validation), part, self.disguised.test)

    def _judges(self, start: int, part: Part, law: Law | None) -> Judges:
        canaries = Canaries(self.order[len(self.order) - len(self.sides) :], self.sides)
        rows = self.order[start : start + len(part)]
        return Judges(self.features, len(self.order), rows, part.targets, canaries, law)


def write_evaluation_set(
    folder: Path, disguised: Disguised, secret: Secret, unit: int | None = None
) -> EvaluationSet:
    """Write the features of all rows that judge; the targets stay in this process.

    `unit` is the seed of a unit's split, None for that of the search: each has other canaries.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = disguised.data
    place = () if unit is None else ("unit", str(unit))
    chance = secret.chance("exam", *place)
    canaries, sides = _canaries(data, chance)
    canaries = _strayed(canaries, data.visible.train.features, secret.chance("canaries", *place))
    rows = np.concatenate([data.visible.validation.features, data.sealed.features, canaries])
    places = chance.permutation(len(rows))
    shuffled = np.empty_like(rows)
    shuffled[places] = rows
    file = folder / "judge.npy"
    np.save(file, shuffled, allow_pickle=False)
    mark = secret.mark if len(data.left) == 0 else f"{secret.mark} of all rows"
    return EvaluationSet(disguised, file, places, sides, mark)


def _canaries(data: Data, chance: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the features of the canaries, and their two targets, the one that the coin chose first."""
    known = data.visible.train
    one, other = chance.integers(len(known), size=(2, 50 * CANARIES))
    usable = np.flatnonzero(known.targets[one] != known.targets[other])[:CANARIES]
    one, other = one[usable], other[usable]
    share = chance.uniform(0.4, 0.6, size=(len(usable), 1)).astype(np.float32)
    features = share * known.features[one] + (1 - share) * known.features[other]
    sides = np.stack([known.targets[one], known.targets[other]], axis=1)
    fallen = chance.random(len(sides)) < 0.5
    sides[fallen] = sides[fallen, ::-1]
    return features.astype(np.float32), sides


def _strayed(
    canaries: NDArray[np.float32], known: NDArray[np.float32], chance: np.random.Generator
) -> NDArray[np.float32]:
    """Return canaries as far from where they stood as rows are from their neighbours.

    Right on the line between two rows that a program is given, every one could be found by arithmetic.
    """
    rows = known[:NEIGHBOURS_LOOKED_AT].astype(np.float64)
    lengths = (rows**2).sum(axis=1)
    squares = np.maximum(lengths[:, None] + lengths[None] - 2.0 * rows @ rows.T, 0.0)
    np.fill_diagonal(squares, np.inf)
    usual = float(np.sqrt(np.median(squares.min(axis=1)))) if len(rows) > 1 else 0.0
    step = chance.standard_normal(canaries.shape) * usual / np.sqrt(max(canaries.shape[1], 1))
    strayed: NDArray[np.float32] = (canaries + step).astype(np.float32)
    return strayed


def _check_against(law: Law, answers: Floats, targets: NDArray[Any]) -> None:
    """Raise `Known` for answers that fit the targets better than a program without knowledge of them can.

    The targets were drawn from `law`. For a program that has not seen them, the likelihood ratio of answers
    to law exceeds 1 / c with a chance of c at most (Markov), and errors are no smaller than the drawn noise.
    """
    if law.probabilities is not None:
        picked = np.arange(len(targets)), targets
        ratio = np.log(np.maximum(answers[picked], LAW_MIN)) - np.log(
            np.maximum(law.probabilities[picked], LAW_MIN)
        )
        is_known = float(ratio.sum()) > -log(CHANCE_MAX)
    else:
        squares = float(((answers - targets) ** 2).sum()) / max(law.deviation, LAW_MIN) ** 2
        is_known = squares < float(chi2.ppf(CHANCE_MAX, len(targets)))
    if is_known:
        raise Known(
            f"the answers fit targets that were drawn by chance better than chance allows, {HAS_READ}"
        )
