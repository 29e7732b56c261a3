"""Every figure of a run, one at a time: those over the whole run first, then each stage, then each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import matplotlib as mpl

from stages.kinds.experiment.plots.canvas import STYLE
from stages.kinds.experiment.plots.nodes import draw_node
from stages.kinds.experiment.plots.overview import (
    draw_ablation,
    draw_comparison,
    draw_learning_curves,
    draw_nodes,
)
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.plots.search_tree import draw_tree
from stages.kinds.experiment.plots.stages import draw_finalists, draw_stage
from stages.kinds.experiment.record.record import Record

Drawer = Callable[[], Picture | None]

OVERVIEWS = (draw_comparison, draw_learning_curves, draw_nodes, draw_finalists, draw_tree, draw_ablation)


def draw_all(record: Record, folder: Path) -> Iterator[Picture]:
    """Draw every figure of `record` into `folder`; one for which nothing was measured is left out."""
    return _drawn((*_of_the_run(record, folder), *_of_nodes(record, folder)))


def draw_shown(record: Record, folder: Path) -> Iterator[Picture]:
    """Draw all but those of single nodes, which no paper shows."""
    return _drawn(_of_the_run(record, folder))


def _drawn(drawers: Iterable[Drawer]) -> Iterator[Picture]:
    for drawer in drawers:
        with mpl.rc_context(dict(STYLE)):  # type: ignore[arg-type]  # the stubs list every key as a literal
            picture = drawer()
        if picture is not None:
            yield picture


def pictures_at_most(record: Record) -> int:
    """Return how many figures there can be, for progress."""
    return sum(1 for _ in (*_of_the_run(record, Path()), *_of_nodes(record, Path())))


def _of_the_run(record: Record, folder: Path) -> Iterator[Drawer]:
    for overview in OVERVIEWS:
        yield partial(overview, record, folder)
    for stage in record.stages:
        yield partial(draw_stage, record, stage, folder)


def _of_nodes(record: Record, folder: Path) -> Iterator[Drawer]:
    for stage in record.stages:
        for place, _ in enumerate(stage.nodes, start=1):
            yield partial(draw_node, record, stage, place, folder)
