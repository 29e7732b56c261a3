"""A run's search tree as circles and lines: a column for each step down, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = Mapping[str, Any]

COLUMN: Final = 112.0
LINE: Final = 34.0
LEFT: Final = 20.0
TOP: Final = 44.0
RADIUS: Final = 8.0
NODES_MAX: Final = 400
PLAN_CHARS_MAX: Final = 400  # of what is said beside the pointer
# A sign beside the colour, so that no outcome is told by colour alone.
SIGNS: Final[Mapping[str, str]] = {"good": "", "buggy": "✗", "executing": "…", "created": "…"}


@dataclass(frozen=True, slots=True)
class Circle:
    """One node: its position and its label."""

    id: str
    x: float
    y: float
    status: str
    is_best: bool
    sign: str
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Edge:
    """The line from a node to a child, from left to right."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def path(self) -> str:
        """Return the curve as the path data of SVG."""
        middle = (self.x1 + self.x2) / 2
        return (
            f"M{self.x1:g} {self.y1:g}C{middle:g} {self.y1:g} {middle:g} {self.y2:g} {self.x2:g} {self.y2:g}"
        )


@dataclass(frozen=True, slots=True)
class TreePicture:
    """A picture with its own units."""

    circles: Sequence[Circle]
    edges: Sequence[Edge]
    stages: Sequence[tuple[str, float]]
    width: float
    height: float
    radius: float = RADIUS
    left_out: int = 0


def tree_picture(nodes: Sequence[Json]) -> TreePicture | None:
    """Return the picture of the first `NODES_MAX` nodes; None if there are none."""
    shown = nodes[:NODES_MAX]
    if not shown:
        return None
    known = {node["id"]: node for node in shown}
    depths: dict[str, int] = {}
    for node in shown:
        depths[node["id"]] = _depth(node, known, depths)
    columns: dict[tuple[str, int], list[str]] = {}
    for stage in dict.fromkeys(node["stage"] for node in shown):
        of_stage = [node["id"] for node in shown if node["stage"] == stage]
        for depth in range(max(depths[each] for each in of_stage) + 1):
            columns[stage, depth] = [each for each in of_stage if depths[each] == depth]
    places: dict[str, tuple[float, float]] = {}
    stages: list[tuple[str, float]] = []
    for number, ((stage, depth), ids) in enumerate(columns.items()):
        x = LEFT + number * COLUMN
        if depth == 0:
            stages.append((stage, x))
        places |= {node_id: (x, TOP + row * LINE) for row, node_id in enumerate(ids)}
    circles = [_circle(node, *places[node["id"]]) for node in shown]
    edges = [
        Edge(places[node["parent"]][0] + RADIUS, places[node["parent"]][1], x - RADIUS, y)
        for node in shown
        if node["parent"] in places
        for x, y in (places[node["id"]],)
    ]
    rows = max(len(ids) for ids in columns.values())
    return TreePicture(
        circles,
        edges,
        stages,
        width=LEFT + len(columns) * COLUMN,
        height=TOP + rows * LINE,
        left_out=len(nodes) - len(shown),
    )


def _depth(node: Json, known: Mapping[str, Json], depths: Mapping[str, int]) -> int:
    """Return the distance of a node from the root of its stage; a parent precedes its children."""
    parent = known.get(node["parent"] or "")
    if parent is None or parent["stage"] != node["stage"]:
        return 0
    return depths.get(parent["id"], 0) + 1


def _circle(node: Json, x: float, y: float) -> Circle:
    metric = node["metric"]
    number = f"{metric:.3g}" if isinstance(metric, int | float) else ""
    is_best = bool(node["best"])
    words = [
        node["id"],
        node["bestOf"] or "",
        node["status"],
        f"{node['metricName'] or 'metric'} {number}" if number else "",
    ]
    plan = f": {node['plan'][:PLAN_CHARS_MAX]}" if node["plan"] else ""
    return Circle(
        id=node["id"],
        x=x,
        y=y,
        status=node["status"],
        is_best=is_best,
        sign="★" if is_best else SIGNS.get(node["status"], ""),
        label=number,
        title=", ".join(each for each in words if each) + plan,
    )
