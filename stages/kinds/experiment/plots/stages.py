"""A stage's end as a picture: its finalists with error bars over seeds, or its nodes where it had none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stages.kinds.experiment.plots.canvas import (
    BUGGY,
    QUIET,
    STAGE_COLOURS,
    Row,
    finite,
    kept,
    label_of,
    short_id,
)
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.numbers import stage_key
from stages.kinds.experiment.record.record import Finalist, Record, StageRecord

HEADER: Final = ("stage", "node", "chosen", "seed", "value", "mean", "standard_error")
NODES_MAX: Final = 40  # rows of a stage's own figure


def draw_stage(record: Record, stage: StageRecord, folder: Path) -> Picture | None:
    """Draw the candidates of one stage, the one chosen marked; None where nothing was tried in it."""
    key, metric = stage_key(stage), record.claim.selection
    colour = STAGE_COLOURS[record.stages.index(stage) % len(STAGE_COLOURS)]
    finalists = [each for each in stage.finalists if finite(each.values)]
    count = len(finalists) or min(len(stage.nodes), NODES_MAX)
    if count == 0:
        return None
    figure = Figure(figsize=(6.2, 1.2 + 0.26 * count), layout="constrained")
    axes = figure.subplots()
    if finalists:
        rows = _draw_finalists(axes, stage, finalists, colour)
        caption = (
            f"{{{key}.name}}: the finalists, each trained again from the seeds that its small points show "
            f"(n = {_counts(stage, finalists)}). Diamonds and bars: mean and standard error of the validation {{selection}}. "
            "Filled: chosen."
        )
    else:
        rows = _draw_nodes(axes, record, stage, colour)
        which = "each node" if len(rows) == len(stage.nodes) else f"the best of the {{{key}.nodes}} nodes"
        caption = (
            f"{{{key}.name}}: the validation {{selection}} of {which}, from one seed each, so without error bars. "
            "Filled: chosen. Crosses: buggy."
        )
    axes.set_xlabel(
        f"validation {metric.title} ({'higher' if metric.higher_is_better else 'lower'} is better)"
    )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.grid(visible=False, axis="y")
    if finalists:
        _explain(figure, axes, colour)
    return kept(figure, folder, f"stages/{stage.name}", (HEADER, rows), caption)


def _explain(figure: Figure, axes: Axes, colour: str) -> None:
    axes.scatter([], [], color=colour, s=9, alpha=0.45, label="one seed")
    axes.errorbar(
        [], [], xerr=[], color=colour, fmt="D", markersize=5.5, markerfacecolor="white",
        label="mean and standard error",
    )  # fmt: skip
    axes.scatter([], [], marker="D", s=30, color=colour, label="chosen")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)


def _counts(stage: StageRecord, finalists: Sequence[Finalist]) -> str:
    """Return references to how many seeds each finalist has, each different count once."""
    places = {len(each.values): stage.finalists.index(each) + 1 for each in finalists}
    return ", ".join(f"{{{stage_key(stage)}.finalist_{place}.seeds}}" for place in places.values())


def _draw_finalists(axes: Axes, stage: StageRecord, finalists: Sequence[Finalist], colour: str) -> list[Row]:
    rows: list[Row] = []
    for place, each in enumerate(finalists):
        chosen = each.node == stage.best.id
        values = finite(each.values)
        axes.scatter(values, [place] * len(values), color=colour, s=9, alpha=0.45, zorder=2)
        axes.errorbar(
            [each.mean], [place], xerr=finite([each.standard_error]) or None, color=colour, fmt="D", markersize=5.5,
            capsize=3, linewidth=1.3, markerfacecolor=colour if chosen else "white", zorder=3,
        )  # fmt: skip
        rows += [
            (stage.name, each.node, chosen, seed, value, each.mean, each.standard_error)
            for seed, value in zip(each.seeds, each.values, strict=True)
        ]
    axes.set_yticks(range(len(finalists)), [label_of(each.node, 18) for each in finalists])
    axes.set_ylim(len(finalists) - 0.4, -0.6)
    return rows


def _draw_nodes(axes: Axes, record: Record, stage: StageRecord, colour: str) -> list[Row]:
    """Draw a stage's nodes in the order they were tried; the best ones where they are too many."""
    sign = -1.0 if record.claim.selection.higher_is_better else 1.0
    ranked = sorted(
        stage.nodes, key=lambda node: (node.id != stage.best.id, node.buggy, sign * (node.metric or 0.0))
    )
    shown = {node.id for node in ranked[:NODES_MAX]}
    nodes = [node for node in stage.nodes if node.id in shown]
    for y, node in enumerate(nodes):
        if node.metric is None:
            place = axes.get_yaxis_transform()
            axes.text(0.01, y, "×  buggy", color=BUGGY, va="center", fontsize=7.5, transform=place)
            continue
        face = colour if node.id == stage.best.id else "white"
        axes.scatter([node.metric], [y], s=36, edgecolors=colour, facecolors=face, zorder=3)
    axes.set_yticks(range(len(nodes)), [label_of(node.id, 18) for node in nodes])
    axes.set_ylim(len(nodes) - 0.4, -0.6)
    if all(node.buggy for node in nodes):
        axes.set_xticks([])
    return [(stage.name, node.id, node.id == stage.best.id, "", node.metric, "", "") for node in nodes]


def draw_finalists(record: Record, folder: Path) -> Picture | None:
    """Draw the finalists of all stages side by side; None where no stage had any."""
    metric = record.claim.selection
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    axes = figure.subplots()
    rows: list[Row] = []
    names: list[str] = []
    for number, stage in enumerate(record.stages):
        colour = STAGE_COLOURS[number % len(STAGE_COLOURS)]
        for each in stage.finalists:
            if not finite(each.values):
                continue
            x, chosen = len(names), each.node == stage.best.id
            values = finite(each.values)
            axes.scatter([x] * len(values), values, color=colour, s=9, alpha=0.45, zorder=2)
            axes.errorbar(
                [x], [each.mean], yerr=finite([each.standard_error]) or None, color=colour, fmt="D", markersize=5.5,
                capsize=3, linewidth=1.3, markerfacecolor=colour if chosen else "white", zorder=3,
            )  # fmt: skip
            names.append(short_id(each.node))
            rows += [
                (stage.name, each.node, chosen, seed, value, each.mean, each.standard_error)
                for seed, value in zip(each.seeds, each.values, strict=True)
            ]
        if stage.finalists:
            axes.scatter([], [], marker="D", s=30, color=colour, label=stage.name.replace("_", " "))
            axes.axvline(len(names) - 0.5, color=QUIET, linewidth=0.6, linestyle=":")
    if not rows:
        return None
    axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 16 else 0)
    axes.set(
        xlim=(-0.6, len(names) - 0.4), ylabel=f"validation {metric.title}", xlabel="finalist (stage.number)"
    )
    axes.grid(visible=False, axis="x")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False)
    better = "higher" if metric.higher_is_better else "lower"
    return kept(
        figure, folder, "finalists", (HEADER, rows),
        "The finalists of each stage, trained again from several seeds (small points). Diamonds and bars: mean and "
        f"standard error of the validation {{selection}} ({better} is better). Filled: chosen.",
    )  # fmt: skip
