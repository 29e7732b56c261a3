"""Draws the figures of a run, each beside the CSV of the data that drew it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")  # draws into files; a pod has no display

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stages.experiment.record import Record
from stages.experiment.researcher import UNVARIED
from stages.experiment.tree import Node

DPI: Final = 160
BASELINE: Final = "#4477aa"
INTERVENTION: Final = "#cc6633"
QUIET: Final = "#999999"
BUGGY: Final = "#bb2222"
STAGE_COLOURS: Final = ("#4477aa", "#228833", "#cc6633", "#aa3377")
STYLE: Final[Mapping[str, object]] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Picture:
    """One finished figure: its picture, its data, and the sentence below it."""

    name: str
    image: Path
    table: Path
    caption: str


def draw_all(record: Record, folder: Path) -> Iterable[Picture]:
    """Draw every figure of `record` into `folder`, one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    drawers: tuple[Callable[[Record, Path], Picture], ...] = (
        draw_comparison,
        draw_learning_curves,
        draw_nodes,
        draw_tree,
        draw_ablation,
    )
    for drawer in drawers:
        with mpl.rc_context(dict(STYLE)):  # type: ignore[arg-type]  # the stubs list every key as a literal
            yield drawer(record, folder)


def draw_learning_curves(record: Record, folder: Path) -> Picture:
    """Draw training and validation loss of both chosen nodes."""
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows: list[Row] = []
    arms = (("baseline", "Stage_2", BASELINE), ("intervention", "Stage_3", INTERVENTION))
    for arm, stage, colour in arms:
        curve = record.stage(stage).curve
        epochs = [point.epoch for point in curve.points]
        label = f"{arm} ({curve.node})"
        left.plot(epochs, [point.train_loss for point in curve.points], color=colour, label=label)
        right.plot(epochs, [point.watch_loss for point in curve.points], color=colour, label=label)
        rows += [(arm, curve.node, p.epoch, p.train_loss, p.watch_loss) for p in curve.points]
    for axes, title in ((left, "training loss"), (right, "validation loss")):
        axes.set(xlabel="epoch", ylabel=title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if min(float(np.min(line.get_ydata())) for line in axes.lines) > 0:
            axes.set_yscale("log")
    right.legend()
    header = ("arm", "node", "epoch", "train_loss", "validation_loss")
    return _kept(
        figure, folder, "learning_curves", header, rows,
        "Learning curves of the chosen baseline and of the chosen intervention, averaged over the repeats of "
        "each node. The training loss is the one that was minimised, so a regulariser may raise it by itself.",
    )  # fmt: skip


def draw_nodes(record: Record, folder: Path) -> Picture:
    """Draw the validation metric of every node in the order of the search."""
    metric = record.claim.selection
    figure = Figure(figsize=(7.2, 3.1), layout="constrained")
    axes = figure.subplots()
    rows: list[Row] = []
    place = 0
    for stage, colour in zip(record.stages, STAGE_COLOURS, strict=True):
        places = range(place + 1, place + len(stage.nodes) + 1)
        place += len(stage.nodes)
        good = [
            (x, node.metric) for x, node in zip(places, stage.nodes, strict=True) if node.metric is not None
        ]
        label = stage.name.replace("_", " ")
        axes.scatter([x for x, _ in good], [y for _, y in good], color=colour, s=26, label=label, zorder=3)
        broken = [x for x, node in zip(places, stage.nodes, strict=True) if node.buggy]
        axes.scatter(
            broken, [0.02] * len(broken), color=BUGGY, marker="x", s=28, transform=axes.get_xaxis_transform()
        )
        for x, node in zip(places, stage.nodes, strict=True):
            rows.append(
                (x, stage.name, node.id, node.metric, node.buggy, node.id == stage.best.id, node.plan)
            )
            if node.id == stage.best.id and node.metric is not None:
                axes.scatter([x], [node.metric], s=95, facecolors="none", edgecolors="black", zorder=4)
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
    return _kept(
        figure, folder, "nodes", ("place", "stage", "node", "metric", "buggy", "chosen", "plan"), rows,
        f"The validation {metric.title} of every node ({better} is better). Circles mark the node that a stage "
        "handed on; a stage without a circle handed on the node it was given.",
    )  # fmt: skip


def draw_tree(record: Record, folder: Path) -> Picture:
    """Draw who grew out of whom."""
    nodes = [node for stage in record.stages for node in stage.nodes]
    spots = _layout(nodes)
    chosen = {stage.best.id for stage in record.stages}
    depth = max(y for _, y in spots.values())
    width = max(x for x, _ in spots.values()) + 1
    figure = Figure(
        figsize=(min(14.0, max(7.2, 0.36 * width)), 1.2 + 0.75 * (depth + 1)), layout="constrained"
    )
    axes = figure.subplots()
    axes.grid(visible=False)
    size = 330.0 if width <= 24 else 210.0
    rows: list[Row] = []
    for node in nodes:
        x, y = spots[node.id]
        colour = STAGE_COLOURS[int(node.stage.removeprefix("Stage_")) - 1]
        if node.parent is not None:
            px, py = spots[node.parent]
            axes.plot([px, x], [-py, -y], color=QUIET, linewidth=0.9, zorder=1)
        face = BUGGY if node.buggy else colour
        edge = "black" if node.id in chosen else "white"
        axes.scatter([x], [-y], s=size, color=face, edgecolors=edge, linewidths=1.8, zorder=2)
        label = node.id.removeprefix("Stage_").replace("/", ".")
        axes.text(
            x,
            -y,
            label,
            ha="center",
            va="center",
            color="white",
            fontsize=7 if width <= 24 else 5.5,
            zorder=3,
        )
        rows.append(
            (node.id, node.parent or "", node.stage, x, y, node.metric, node.buggy, node.id in chosen)
        )
    for number, stage in enumerate(record.stages):
        axes.scatter([], [], s=60, color=STAGE_COLOURS[number], label=stage.name.replace("_", " "))
    axes.scatter([], [], s=60, facecolors="none", edgecolors="black", linewidths=1.8, label="chosen")
    if any(node.buggy for node in nodes):
        axes.scatter([], [], s=60, color=BUGGY, label="buggy")
    axes.set(xlim=(-0.8, width - 0.2), ylim=(-depth - 0.6, 0.6))
    axes.set_axis_off()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False)
    return _kept(
        figure, folder, "search_tree", ("node", "parent", "stage", "x", "depth", "metric", "buggy", "chosen"), rows,
        "The search tree. A node is labelled by its stage and number, and hangs below the node it was made from; "
        "black rims mark the nodes that stages handed on.",
    )  # fmt: skip


def _layout(nodes: Sequence[Node]) -> dict[str, tuple[float, int]]:
    """Return a place for each node: leaves side by side, parents in the middle above their children."""
    children: dict[str | None, list[Node]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    spots: dict[str, tuple[float, int]] = {}
    leaves = 0

    def place(node: Node, depth: int) -> float:
        nonlocal leaves
        below = [place(child, depth + 1) for child in children.get(node.id, [])]
        if below:
            x = sum(below) / len(below)
        else:
            x, leaves = float(leaves), leaves + 1
        spots[node.id] = (x, depth)
        return x

    for node in children.get(None, []):
        place(node, 0)
    return spots


def draw_comparison(record: Record, folder: Path) -> Picture:
    """Draw what decided: both arms per fresh seed, and the mean difference with its interval."""
    judgement, metric = record.verdicts.judgement, record.claim.metric
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    rows: list[Row] = []
    for pair in judgement.pairs:
        rows.append((pair.seed, pair.baseline, pair.intervention, pair.difference))
        if pair.baseline is not None and pair.intervention is not None:
            left.plot([0, 1], [pair.baseline, pair.intervention], color=QUIET, linewidth=0.8, zorder=1)
            left.scatter([0], [pair.baseline], color=BASELINE, s=28, zorder=2)
            left.scatter([1], [pair.intervention], color=INTERVENTION, s=28, zorder=2)
    left.set_xticks([0, 1], ["baseline", "intervention"])
    left.set(xlim=(-0.4, 1.4), ylabel=f"test {metric.title}")
    left.grid(visible=False, axis="x")
    left.yaxis.set_major_locator(MaxNLocator(nbins=5))
    _difference(right, record)
    return _kept(
        figure, folder, "comparison", ("seed", "baseline", "intervention", "difference"), rows,
        f"The measurement that decided, on test data with {len(judgement.pairs)} fresh seeds. Left: both arms, "
        "one line per seed. Right: each seed's difference (intervention minus baseline), their mean, and its "
        "95 % confidence interval; the shaded side is the claimed one.",
    )  # fmt: skip


def _difference(axes: Axes, record: Record) -> None:
    judgement = record.verdicts.judgement
    differences = [pair.difference for pair in judgement.pairs if pair.difference is not None]
    axes.scatter(differences, np.linspace(0.25, 0.75, len(differences)), color=QUIET, s=20, label="one seed")
    if judgement.interval is not None:
        mean, low, high = judgement.interval.mean, judgement.interval.low, judgement.interval.high
        axes.errorbar(
            [mean], [1.0], xerr=[[mean - low], [high - mean]], color="black", fmt="D", markersize=5, capsize=4,
            label="mean, 95 %",
        )  # fmt: skip
        differences += [low, high]
    reach = max((abs(each) for each in differences), default=1.0) * 1.15 or 1.0
    near = min(0.0, min(differences, default=0.0)) - 0.1 * reach
    far = max(0.0, max(differences, default=0.0)) + 0.1 * reach
    axes.set(xlim=(near, far), ylim=(0.0, 1.45), yticks=[], xlabel="difference on test data")
    claimed = (0.0, far) if record.claim.direction == "increase" else (near, 0.0)
    axes.axvspan(*claimed, color="#228833", alpha=0.09, linewidth=0)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.legend(loc="upper center", ncols=2, fontsize=8)


def draw_ablation(record: Record, folder: Path) -> Picture:
    """Draw each condition of the ablations with and without the intervention."""
    metric = record.claim.selection
    pairs = ablation_pairs(record)
    figure = Figure(figsize=(7.2, 1.3 + 0.36 * len(pairs)), layout="constrained")
    axes = figure.subplots()
    rows: list[Row] = []
    for place, (condition, (without, with_it)) in enumerate(pairs.items()):
        values = [node.metric for node in (without, with_it) if node is not None and node.metric is not None]
        rows.append((condition, _metric_of(without), _metric_of(with_it)))
        axes.plot(values, [place] * len(values), color=QUIET, linewidth=1.4, zorder=1)
        for node, colour in ((without, BASELINE), (with_it, INTERVENTION)):
            if node is not None and node.metric is not None:
                axes.scatter([node.metric], [place], color=colour, s=36, zorder=2)
    axes.set_yticks(range(len(pairs)), list(pairs))
    axes.set(ylim=(len(pairs) - 0.5, -0.5), xlabel=f"validation {metric.title}")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.scatter([], [], color=BASELINE, s=36, label="without the intervention")
    axes.scatter([], [], color=INTERVENTION, s=36, label="with the intervention")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return _kept(
        figure, folder, "ablation", ("condition", "without", "with"), rows,
        "Ablations: the chosen node with and without the intervention, while one other choice is varied at a "
        "time (validation data).",
    )  # fmt: skip


def ablation_pairs(record: Record) -> dict[str, tuple[Node | None, Node | None]]:
    """Return, per condition, the node without and the node with the intervention."""
    pairs: dict[str, tuple[Node | None, Node | None]] = {}
    for node in record.stage("Stage_4").nodes:
        if not node.condition:
            continue
        without, with_it = pairs.get(node.condition, (None, None))
        if node.condition == UNVARIED:
            with_it = record.intervention
        if record.has_intervention(node):
            with_it = node
        else:
            without = node
        pairs[node.condition] = (without, with_it)
    return pairs


def _metric_of(node: Node | None) -> float | None:
    return node.metric if node is not None else None


def _kept(figure: Figure, folder: Path, name: str, header: Row, rows: Iterable[Row], caption: str) -> Picture:
    """Write the picture and, beside it, the rows that drew it."""
    image, table = folder / f"{name}.png", folder / f"{name}.csv"
    figure.savefig(image, dpi=DPI)
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return Picture(name, image, table, caption)
