"""Which part of a run a picture shows: a node, a stage of the search, or the whole, pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = Mapping[str, Any]

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PAPER: Final = "application/pdf"


@dataclass(frozen=True, slots=True)
class Figures:
    """The pictures of a run by what they show, each group in the order of the names."""

    whole: Sequence[Json]
    stages: Mapping[str, Sequence[Json]]
    nodes: Mapping[str, Sequence[Json]]


def figures(artifacts: Iterable[Json], nodes: Iterable[Json]) -> Figures:
    """Sort the pictures among `artifacts`; one that names a node in its path belongs to that node."""
    known = [(node["id"], _named(node["id"])) for node in nodes]
    stages = {node_id.partition("/")[0]: _named(node_id.partition("/")[0]) for node_id, _ in known}
    whole: list[Json] = []
    by_stage: dict[str, list[Json]] = {}
    by_node: dict[str, list[Json]] = {}
    for picture in sorted(pictures(artifacts), key=lambda each: str(each["name"])):
        name = picture["name"]
        if (node := next((each for each, pattern in known if pattern.search(name)), None)) is not None:
            by_node.setdefault(node, []).append(picture)
        elif (
            stage := next((each for each, pattern in stages.items() if pattern.search(name)), None)
        ) is not None:
            by_stage.setdefault(stage, []).append(picture)
        else:
            whole.append(picture)
    return Figures(whole, by_stage, by_node)


def pictures(artifacts: Iterable[Json]) -> list[Json]:
    """Return what a browser shows as a picture."""
    return [each for each in artifacts if each["contentType"] in IMAGES]


def papers(artifacts: Iterable[Json]) -> list[Json]:
    """Return the papers: the documents that are not another form of a picture beside them."""
    found = list(artifacts)
    drawn = {_stem(each) for each in pictures(found)}
    return [each for each in found if each["contentType"] == PAPER and _stem(each) not in drawn]


def _stem(artifact: Json) -> str:
    return str(artifact["name"]).rpartition(".")[0]


def _named(identity: str) -> re.Pattern[str]:
    """Return the pattern of a path that names a node or stage: `Stage_1/3`, `Stage_1-3` or `Stage_1_03`."""
    stage, _, number = identity.partition("/")
    if not number:
        return re.compile(rf"(?<![A-Za-z0-9]){re.escape(stage)}(?![A-Za-z0-9])", re.IGNORECASE)
    return re.compile(
        rf"(?<![A-Za-z0-9]){re.escape(stage)}[/_-]0*{re.escape(number)}(?![0-9])", re.IGNORECASE
    )
