"""The figures over a whole run: what decided, how both arms learnt, every node, and the ablations."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stages.kinds.experiment.plots.canvas import (
    BASELINE,
    BUGGY,
    INTERVENTION,
    QUIET,
    STAGE_COLOURS,
    Row,
    finite,
    kept,
    label_of,
    log_where_positive,
)
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.ablations import ablations_of
from stages.kinds.experiment.record.numbers import measure_of
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.tree import Node

CONDITIONS_MAX: Final = 20  # more would not fit on a page


def draw_comparison(record: Record, folder: Path) -> Picture:
    """Draw what decided: both arms in each unit, and the mean difference with its interval."""
    judgement = record.verdicts.judgement
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    rows: list[Row] = []
    for pair in judgement.pairs:
        rows.append((pair.seed, pair.baseline, pair.intervention, pair.difference))
        if pair.difference is not None:
            left.plot([0, 1], [pair.baseline, pair.intervention], color=QUIET, linewidth=0.8, zorder=1)
        for x, value, colour in ((0, pair.baseline, BASELINE), (1, pair.intervention, INTERVENTION)):
            if value is not None:
                left.scatter([x], [value], color=colour, s=28, zorder=2)
    if not left.collections:
        left.text(0.5, 0.5, "nothing could be measured", transform=left.transAxes, ha="center", color=BUGGY)
    left.set_xticks([0, 1], ["baseline", "intervention"])
    left.set(xlim=(-0.4, 1.4), ylabel=measure_of(record.claim.metric))
    left.grid(visible=False, axis="x")
    left.yaxis.set_major_locator(MaxNLocator(nbins=5))
    _difference(right, record)
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    return kept(
        figure, folder, "comparison", (("seed", "baseline", "intervention", "difference"), rows),
        "The measurement that decided: the {measure} in {units.registered} units. Left: both programs, one line for each "
        "unit. Right: each unit’s difference (intervention minus baseline), their mean, and its {confidence} "
        "confidence interval; shaded is where the claim holds.",
    )  # fmt: skip


def _difference(axes: Axes, record: Record) -> None:
    judgement = record.verdicts.judgement
    differences = finite(pair.difference for pair in judgement.pairs)
    axes.scatter(differences, np.linspace(0.25, 0.75, len(differences)), color=QUIET, s=20, label="one unit")
    if judgement.interval is not None:
        mean, low, high = judgement.interval.mean, judgement.interval.low, judgement.interval.high
        axes.errorbar(
            [mean], [1.0], xerr=[[mean - low], [high - mean]], color="black", fmt="D", markersize=5, capsize=4,
            label="mean and interval",
        )  # fmt: skip
        differences += [low, high]
    reach = max((abs(each) for each in differences), default=1.0) * 1.15 or 1.0
    region = judgement.plan.region
    shown = [0.0, *differences, *finite((region.low, region.high))]
    near, far = min(shown) - 0.1 * reach, max(shown) + 0.1 * reach
    axes.set(xlim=(near, far), ylim=(0.1, 1.15), yticks=[], xlabel="intervention minus baseline")
    axes.axvspan(
        max(region.low, near),
        min(region.high, far),
        color="#228833",
        alpha=0.09,
        linewidth=0,
        label="claimed",
    )
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))


def draw_learning_curves(record: Record, folder: Path) -> Picture | None:
    """Draw training and validation loss of both arms; None where neither reported a curve."""
    figure = Figure(figsize=(7.2, 2.7), layout="constrained")
    rows: list[Row] = []
    panels = figure.subplots(1, 2)
    drawn: tuple[list[float], list[float]] = ([], [])
    for arm, stage, colour in (("baseline", "Stage_2", BASELINE), ("intervention", "Stage_3", INTERVENTION)):
        curve = record.stage(stage).curve
        epochs = [point.epoch for point in curve.points]
        losses = ([point.train_loss for point in curve.points], [point.watch_loss for point in curve.points])
        for axes, values, seen in zip(panels, losses, drawn, strict=True):
            if finite(values):
                axes.plot(epochs, values, color=colour, label=f"{arm} ({label_of(curve.node, 16)})", linewidth=1.4,
                          marker="." if len(epochs) < 3 else "")  # fmt: skip
                seen += finite(values)
        rows += [(arm, curve.node, p.epoch, p.train_loss, p.watch_loss) for p in curve.points]
    if not all(drawn):
        return None
    for axes, title, seen in zip(panels, ("training loss", "validation loss"), drawn, strict=True):
        axes.set(xlabel="epoch", ylabel=title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        log_where_positive(axes, seen)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return kept(
        figure, folder, "learning_curves", (("arm", "node", "epoch", "train_loss", "validation_loss"), rows),
        "Learning curves of the baseline {baseline.id} and of the intervention {intervention.id}, as far as their "
        "programs reported them. The training loss is the one that was minimised, so a regulariser may raise it by itself.",
    )  # fmt: skip


def draw_nodes(record: Record, folder: Path) -> Picture:
    """Draw the validation metric of every node in the order of the search."""
    metric = record.claim.selection
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    axes = figure.subplots()
    rows: list[Row] = []
    place = 0
    for number, stage in enumerate(record.stages):
        colour = STAGE_COLOURS[number % len(STAGE_COLOURS)]
        axes.scatter([], [], color=colour, s=26, label=stage.name.replace("_", " "))
        for node in stage.nodes:
            place += 1
            rows.append(
                (place, stage.name, node.id, node.metric, node.buggy, node.id == stage.best.id, node.plan)
            )
            if node.metric is None:
                axes.scatter(
                    [place], [0.02], color=BUGGY, marker="x", s=28, transform=axes.get_xaxis_transform()
                )
                continue
            axes.scatter([place], [node.metric], color=colour, s=26, zorder=3)
            if node.id == stage.best.id:
                axes.scatter([place], [node.metric], s=95, facecolors="none", edgecolors="black", zorder=4)
        axes.axvline(place + 0.5, color=QUIET, linewidth=0.6, linestyle=":")
    axes.set(
        xlabel="node, in the order of the search",
        ylabel=f"validation {metric.title}",
        xlim=(0.3, place + 0.7),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.scatter([], [], s=95, facecolors="none", edgecolors="black", label="chosen")
    if any(node.buggy for stage in record.stages for node in stage.nodes):
        axes.scatter([], [], color=BUGGY, marker="x", s=28, label="buggy")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False)
    better = "higher" if metric.higher_is_better else "lower"
    return kept(
        figure, folder, "nodes", (("place", "stage", "node", "metric", "buggy", "chosen", "plan"), rows),
        f"The validation {{selection}} of each of the {{nodes.tried}} nodes ({better} is better). Circles mark the node that "
        "a stage chose at its end; a stage without a circle kept the node it started from.",
    )  # fmt: skip


def draw_ablation(record: Record, folder: Path) -> Picture | None:
    """Draw each condition of the ablations with and without the intervention; None where none was measured."""
    metric = record.claim.selection
    tried = ablations_of(record)
    pairs = [each for each in tried if finite((_metric(each.without), _metric(each.with_it)))][
        :CONDITIONS_MAX
    ]
    figure = Figure(figsize=(7.2, 1.2 + 0.3 * len(pairs)), layout="constrained")
    axes = figure.subplots()
    for place, each in enumerate(pairs):
        values = finite((_metric(each.without), _metric(each.with_it)))
        axes.plot(values, [place] * len(values), color=QUIET, linewidth=1.4, zorder=1)
        for node, colour in ((each.without, BASELINE), (each.with_it, INTERVENTION)):
            for value in finite([_metric(node)]):
                axes.scatter([value], [place], color=colour, s=36, zorder=2)
    if len(pairs) < 2:
        return None
    axes.set_yticks(range(len(pairs)), [label_of(each.condition) for each in pairs])
    axes.set(ylim=(len(pairs) - 0.5, -0.5), xlabel=f"validation {metric.title}")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.scatter([], [], color=BASELINE, s=36, label="without the intervention")
    axes.scatter([], [], color=INTERVENTION, s=36, label="with the intervention")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    more = " Further conditions are in the table." if len(pairs) == CONDITIONS_MAX else ""
    rows = [(each.condition, _metric(each.without), _metric(each.with_it)) for each in pairs]
    return kept(
        figure, folder, "ablation", (("condition", "without", "with"), rows),
        "Ablations: the program with the intervention and without it, while one other choice is varied at a time "
        f"(validation data, one seed for each mark). A mark that is missing: buggy, or not tried.{more}",
    )  # fmt: skip


def _metric(node: Node | None) -> float | None:
    return node.metric if node is not None else None
