"""The units of a validation: each a split of its own of the same disguised rows, drawn by its seed.

Law: the parts of a unit have the sizes of the search's, in files of the same names, in a folder whose name
says nothing; a unit has other canaries, and a target has one value in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from events.files.tree_removal import remove_tree
from events.kinds.space.metrics import Metric
from stages.kinds.experiment.data.columns import Table
from stages.kinds.experiment.data.divisions import units_possible
from stages.kinds.experiment.data.loading import Facts, Part, divided
from stages.kinds.experiment.data.splits import Rows
from stages.kinds.experiment.judging.disguise import Disguise
from stages.kinds.experiment.judging.evaluation_set import Judges, write_evaluation_set
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.statistics.scores import naive_quality
from stages.kinds.experiment.trials.trial import write_data


@dataclass(frozen=True, slots=True)
class Unit:
    """A split that is written: what programs are given, what judges them, and what no learning reaches."""

    facts: Facts
    data: Path
    judges: Judges
    naive: float
    known: Part


@dataclass(frozen=True, slots=True)
class Units:
    """What all units are drawn from; `folder` is where their files lie, and there are at most `wanted` of them.

    Where there are rows of a `reserve`, they judge.
    """

    table: Table
    name: str
    wanted: int
    train_examples: int | None
    quality: Metric
    disguise: Disguise
    secret: Secret = field(repr=False)
    folder: Path
    reserve: Rows | None = None

    @property
    def possible(self) -> int:
        """Return how many there can be."""
        return units_possible(self.table, self.wanted)

    @contextmanager
    def opened(self, seed: int, place: int = 0) -> Iterator[Unit]:
        """Write the unit of a seed, the same each time, and remove its files afterwards.

        `place` is that of the unit among all, from which rows follow that are split by time.
        """
        plain = divided(
            self.table,
            self.name,
            seed=seed,
            train_examples=self.train_examples,
            unit=(place, self.wanted),
            reserve=self.reserve,
        )
        hidden = self.disguise.worn(plain)
        facts, known = hidden.data.facts, hidden.data.visible.train
        folder = self.folder / token_hex(8)
        try:
            judges = write_evaluation_set(folder, hidden, self.secret, seed).test()
            naive = naive_quality(self.quality, known.targets, judges.targets)
            yield Unit(facts, write_data(folder, hidden.data.visible), judges, naive, known)
        finally:
            remove_tree(folder)
