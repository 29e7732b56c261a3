"""Finds the part of a run that a picture shows: a node, a stage of the search, or the whole run, pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from events.answers.artifacts import Artifact

Json = Mapping[str, Any]

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PAPER: Final = "application/pdf"
WORDS_MAX: Final = 16  # of a name that is looked for
WORD: Final = re.compile(r"\d+|[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Figures:
    """The pictures of a run by the part that they show, each group ordered by name."""

    whole: Sequence[Artifact]
    stages: Mapping[str, Sequence[Artifact]]
    nodes: Mapping[str, Sequence[Artifact]]


class Names:
    """Names of nodes or stages, searched in paths in a time that does not depend on their number."""

    def __init__(self, names: Iterable[str]) -> None:
        self._root = _Step()
        for place, name in enumerate(dict.fromkeys(names)):
            words = words_of(name)
            if not 0 < len(words) <= WORDS_MAX:
                continue
            step = self._root
            for word in words:
                step = step.next.setdefault(word, _Step())
            if step.end is None:
                step.end = (place, name)

    def first_in(self, words: Sequence[str]) -> str | None:
        """Return the first of the names whose words occur in a path in sequence; None without one."""
        found: list[tuple[int, str]] = []
        for first in range(len(words)):
            step: _Step | None = self._root
            for word in words[first:]:
                step = step.next.get(word) if step else None
                if step is None:
                    break
                if step.end is not None:
                    found.append(step.end)
        return min(found)[1] if found else None


@dataclass(slots=True)
class _Step:
    """The possible next words, and the name that ends here with its index."""

    next: dict[str, _Step] = field(default_factory=dict)
    end: tuple[int, str] | None = None


def words_of(name: str) -> list[str]:
    """Return the words and numbers of a name; `Stage_1/3`, `stage_1-3` and `Stage_01_03` have the same."""
    return [word.lstrip("0") or "0" if word.isdecimal() else word for word in WORD.findall(name.lower())]


def figures(artifacts: Iterable[Artifact], nodes: Iterable[Json]) -> Figures:
    """Sort the pictures among `artifacts`; one that names a node in its path belongs to that node."""
    known = [node["id"] for node in nodes]
    names = Names(known), Names(node_id.partition("/")[0] for node_id in known)
    whole: list[Artifact] = []
    by_stage: dict[str, list[Artifact]] = {}
    by_node: dict[str, list[Artifact]] = {}
    for picture in sorted(pictures(artifacts), key=lambda each: each.name):
        words = words_of(picture.name)
        if (node := names[0].first_in(words)) is not None:
            by_node.setdefault(node, []).append(picture)
        elif (stage := names[1].first_in(words)) is not None:
            by_stage.setdefault(stage, []).append(picture)
        else:
            whole.append(picture)
    return Figures(whole, by_stage, by_node)


def pictures(artifacts: Iterable[Artifact]) -> list[Artifact]:
    """Return the files that a browser shows as pictures."""
    return [each for each in artifacts if each.content_type in IMAGES]


def papers(artifacts: Iterable[Artifact]) -> list[Artifact]:
    """Return the papers: the documents that are not a second format of a picture."""
    found = list(artifacts)
    drawn = {_stem(each) for each in pictures(found)}
    return [each for each in found if each.content_type == PAPER and _stem(each) not in drawn]


def _stem(artifact: Artifact) -> str:
    return artifact.name.rpartition(".")[0]
