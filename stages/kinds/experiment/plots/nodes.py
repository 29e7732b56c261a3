"""One small figure a node: its learning curve, its place among the stage's nodes, or why it failed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from events.kinds.space.metrics import metric_named
from stages.kinds.experiment.plots.canvas import (
    BASELINE,
    BUGGY,
    INTERVENTION,
    QUIET,
    Row,
    finite,
    kept,
    label_of,
    log_where_positive,
)
from stages.kinds.experiment.plots.glyphs import LAST_RESORT
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.numbers import metric_text
from stages.kinds.experiment.record.record import Curve, Record, StageRecord
from stages.kinds.experiment.tree import Node

SIZE: Final = (6.2, 2.1)
SCORES_MAX: Final = 7
ERROR_LINES: Final = 9
ERROR_COLUMNS: Final = 88
ERROR_COLUMNS_BESIDE: Final = 36  # beside a learning curve
HEADER: Final = ("kind", "name", "step", "value")


def draw_node(record: Record, stage: StageRecord, place: int, folder: Path) -> Picture:
    """Draw the `place`-th node of a stage, counted from 1."""
    node = stage.nodes[place - 1]
    curve = next((each for each in (*stage.curves, stage.curve) if each.node == node.id), Curve(node.id))
    figure = Figure(figsize=SIZE)
    if node.buggy and not curve.points:
        _draw_error(figure.subplots(), node, ERROR_COLUMNS)
    else:
        left, right = figure.subplots(1, 2, width_ratios=(5, 4))
        _draw_curve(left, curve)
        if node.buggy:
            _draw_error(right, node, ERROR_COLUMNS_BESIDE)
        else:
            _draw_scores(right, record, stage, node)
    figure.subplots_adjust(left=0.1, right=0.98, bottom=0.22, top=0.86, wspace=0.28)
    figure.suptitle(label_of(f"{node.id}: {node.plan}", 88), fontsize=8, x=0.02, ha="left")
    return kept(
        figure, folder, f"nodes/{stage.name}-{place}", (HEADER, _rows(record, stage, node, curve)),
        f"{label_of(node.id, 80)}: its learning curve, and {'why it failed' if node.buggy else 'its scores'}.",
    )  # fmt: skip


def _rows(record: Record, stage: StageRecord, node: Node, curve: Curve) -> list[Row]:
    name = record.claim.selection.name
    rows: list[Row] = [("metric", name, "", node.metric)] if not node.buggy else []
    if not node.buggy:
        rows += [(each.id, name, "", each.metric) for each in _others(stage, node)]
    rows += [("score", name, "", value) for name, value in node.scores.items()]
    for point in curve.points:
        rows.append(("curve", "train_loss", point.epoch, point.train_loss))
        rows.append(("curve", "validation_loss", point.epoch, point.watch_loss))
    if node.buggy:
        rows.append(("error", "", "", node.error or "no reason given"))
    return rows


def _draw_curve(axes: Axes, curve: Curve) -> None:
    epochs = [point.epoch for point in curve.points]
    losses = {
        "training": ([point.train_loss for point in curve.points], QUIET),
        "validation": ([point.watch_loss for point in curve.points], BASELINE),
    }
    if not any(finite(values) for values, _ in losses.values()):
        _say(axes, "no learning curve was reported", QUIET)
        return
    for name, (values, colour) in losses.items():
        axes.plot(
            epochs, values, color=colour, label=name, linewidth=1.3, marker="." if len(epochs) < 3 else ""
        )
    log_where_positive(axes, finite([*losses["training"][0], *losses["validation"][0]]))
    axes.set_xlabel("epoch", fontsize=8)
    axes.set_ylabel("loss", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.legend(fontsize=7)


def _draw_scores(axes: Axes, record: Record, stage: StageRecord, node: Node) -> None:
    """Draw the node's metric among those of its stage, its other scores as words below."""
    metric = record.claim.selection
    others = finite(each.metric for each in _others(stage, node))
    axes.scatter(others, [0.0] * len(others), color=QUIET, s=16, alpha=0.7)
    axes.scatter(
        finite([node.metric]), [0.0], color=INTERVENTION if node.arm == "intervention" else BASELINE, s=44
    )
    axes.set(ylim=(-3.2, 0.5), yticks=[])
    axes.set_xlabel(f"validation {metric.title}", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    shown = list(node.scores.items())[:SCORES_MAX] or [(metric.name, node.metric or 0.0)]
    lines = [f"{label_of(_title(name), 30)}  {metric_text(value, _decimals(name))}" for name, value in shown]
    axes.text(0.02, 0.72, "\n".join(lines), transform=axes.transAxes, fontsize=6.5, va="top")


def _others(stage: StageRecord, node: Node) -> list[Node]:
    """Return the good nodes beside which one is shown."""
    return [each for each in stage.nodes if each.id != node.id and not each.buggy]


def _title(name: str) -> str:
    return metric.title if (metric := metric_named(name)) is not None else name


def _decimals(name: str) -> int:
    return metric.decimals if (metric := metric_named(name)) is not None else 4


def _draw_error(axes: Axes, node: Node, columns: int) -> None:
    """Write why a node failed, in letters of one width, so that a line's length is known."""
    reason = label_of(node.error or "no reason given", columns * ERROR_LINES, LAST_RESORT)
    lines = textwrap.wrap(reason, columns)
    if len(lines) > ERROR_LINES:
        lines = [*lines[: ERROR_LINES - 1], "…"]
    _say(axes, "\n".join(("buggy:", *lines)), BUGGY, family="DejaVu Sans Mono")


def _say(axes: Axes, words: str, colour: str, family: str = "DejaVu Sans") -> None:
    axes.set_axis_off()
    axes.text(
        0.0, 0.5, words, transform=axes.transAxes, color=colour, fontsize=6.5, va="center", family=family
    )
