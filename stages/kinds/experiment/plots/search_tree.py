"""The search tree as a picture: parents and children, stage below stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stages.kinds.experiment.plots.canvas import BUGGY, QUIET, STAGE_COLOURS, Row, kept, short_id
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.record.record import Record, StageRecord
from stages.kinds.experiment.tree import Node

WIDTH_IN: Final = 7.2
LEVEL_IN: Final = 0.4  # between a node and the one below it, where there is room
HEIGHT_MAX_IN: Final = 7.4  # the picture and its caption go on one page
LEAVES_MIN: Final = 12  # a stage with fewer is not drawn wider
MARK_PT: Final = 17.0
MARK_MIN_PT: Final = 9.0  # labels that fit into a smaller mark cannot be read, and are left out
LETTER_WIDTH: Final = 0.68  # of its height, for a digit
POINTS_PER_IN: Final = 72.0

Spots = dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Band:
    """One stage's part of the picture: its nodes by their places, and the node handed over above them."""

    stage: StageRecord
    root: str | None
    spots: Spots
    bottom: float


def draw_tree(record: Record, folder: Path) -> Picture:
    """Draw every node below the one it was made from; each stage's tree stands below the one before."""
    bands = _bands(record)
    leaves = max(LEAVES_MIN, *(int(x) + 1 for band in bands for x, _ in band.spots.values()))
    depth = bands[-1].bottom
    level_in = min(LEVEL_IN, HEIGHT_MAX_IN / (depth + 1))
    mark_pt = min(MARK_PT, 0.85 * POINTS_PER_IN * min(WIDTH_IN / (leaves + 1), level_in))
    figure = Figure(figsize=(WIDTH_IN, 0.45 + level_in * (depth + 1)), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    rows: list[Row] = []
    for band, colour in zip(bands, _colours(record), strict=True):
        if not band.spots:
            continue
        shift = (leaves - 1 - max(x for x, _ in band.spots.values())) / 2
        spots = {name: (x + shift, y) for name, (x, y) in band.spots.items()}
        rows += _draw_band(axes, band, spots, colour, mark_pt)
    _explain(axes, record)
    axes.set(xlim=(-1.0, leaves), ylim=(-depth - 0.5, 0.5))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=7, frameon=False)
    names = (
        "Labels: stage and number."
        if mark_pt >= MARK_MIN_PT
        else "The nodes are too many for labels; search_tree.csv names them."
    )
    header = ("node", "parent", "stage", "x", "y", "metric", "buggy", "chosen")
    return kept(
        figure, folder, "search_tree", (header, rows),
        "The search tree, stage below stage. A node hangs below the node it was made from; the white one above a stage is "
        f"the node that the stage started from. Black rims: chosen. {names}",
    )  # fmt: skip


def _bands(record: Record) -> list[_Band]:
    bands: list[_Band] = []
    top = 0.0
    for stage in record.stages:
        if not stage.nodes:  # nothing was proposed that could be tried: it took over the node before
            bands.append(_Band(stage, None, {}, -top))
            continue
        own = {node.id for node in stage.nodes}
        root = next((node.parent for node in stage.nodes if node.parent and node.parent not in own), None)
        lowered = top - (1.0 if root else 0.0)
        spots = {name: (x, lowered - y) for name, (x, y) in layout(stage.nodes).items()}
        if root is not None:
            spots[root] = (max(x for x, _ in spots.values()) / 2, top)
        bottom = -min(y for _, y in spots.values())
        bands.append(_Band(stage, root, spots, bottom))
        top = -bottom - 1.2
    return bands


def _colours(record: Record) -> list[str]:
    return [STAGE_COLOURS[number % len(STAGE_COLOURS)] for number, _ in enumerate(record.stages)]


def _draw_band(axes: Axes, band: _Band, spots: Spots, colour: str, mark_pt: float) -> list[Row]:
    size = mark_pt**2
    rows: list[Row] = []
    for node in band.stage.nodes:
        x, y = spots[node.id]
        if node.parent in spots:
            above_x, above_y = spots[node.parent]
            axes.plot([above_x, x], [above_y, y], color=QUIET, linewidth=0.8, zorder=1)
        chosen = node.id == band.stage.best.id
        face = BUGGY if node.buggy else colour
        rim = "black" if chosen else "white"
        axes.scatter(
            [x], [y], s=size, color=face, edgecolors=rim, linewidths=mark_pt / 10, zorder=2, gid=node.id
        )
        _label(axes, x, y, node.id, "white", mark_pt)
        rows.append((node.id, node.parent or "", node.stage, x, y, node.metric, node.buggy, chosen))
    if band.root is not None:
        x, y = spots[band.root]
        rim = "black" if band.root == band.stage.best.id else QUIET
        axes.scatter([x], [y], s=size, color="white", edgecolors=rim, linewidths=mark_pt / 12, zorder=2)
        _label(axes, x, y, band.root, "black", mark_pt)
    return rows


def _label(axes: Axes, x: float, y: float, node: str, colour: str, mark_pt: float) -> None:
    """Write a node's name into its mark."""
    name = short_id(node)
    letter_pt = mark_pt / (LETTER_WIDTH * max(len(name), 3.5))
    if mark_pt >= MARK_MIN_PT:
        axes.text(x, y, name, ha="center", va="center", color=colour, fontsize=letter_pt, zorder=3)


def _explain(axes: Axes, record: Record) -> None:
    for stage, colour in zip(record.stages, _colours(record), strict=True):
        axes.scatter([], [], s=60, color=colour, label=stage.name.replace("_", " "))
    axes.scatter([], [], s=60, facecolors="none", edgecolors="black", linewidths=1.8, label="chosen")
    if any(node.buggy for stage in record.stages for node in stage.nodes):
        axes.scatter([], [], s=60, color=BUGGY, label="buggy")


def layout(nodes: Sequence[Node]) -> Mapping[str, tuple[float, int]]:
    """Return a place for each node: leaves side by side, parents in the middle above their children."""
    known = {node.id for node in nodes}
    children: dict[str | None, list[str]] = {}
    for node in nodes:
        children.setdefault(node.parent if node.parent in known else None, []).append(node.id)
    order: list[tuple[str, int]] = []  # every node before its children, from right to left
    left = [(name, 0) for name in children.get(None, [])]
    while left:
        name, depth = left.pop()
        order.append((name, depth))
        left += [(child, depth + 1) for child in children.get(name, [])]
    spots: dict[str, tuple[float, int]] = {}
    leaves = 0
    for name, depth in reversed(order):
        below = [spots[child][0] for child in children.get(name, [])]
        spots[name] = (sum(below) / len(below) if below else float(leaves), depth)
        leaves += not below
    return spots
