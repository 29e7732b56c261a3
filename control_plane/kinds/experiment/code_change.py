"""What of a node's code is not its parent's: one stretch of lines, found in one pass over both; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

AROUND: Final = 3  # lines before and behind what differs
SHARE_MAX: Final = 0.5  # of the code; of what differs in more, the whole is as easily read


@dataclass(frozen=True, slots=True)
class CodeChange:
    """The lines `first` to `last` of `of`, counted from 1: the others are those of the node `parent`."""

    parent: str
    first: int
    last: int
    of: int
    lines: str


def code_change(code: str, parents: str, parent: str) -> CodeChange | None:
    """Return in which stretch a code differs from its parent's; None where most of it does."""
    mine, theirs = code.splitlines(), parents.splitlines()
    before = _same(mine, theirs)
    behind = _same(mine[before:][::-1], theirs[before:][::-1])
    first, end = max(0, before - AROUND), min(len(mine), len(mine) - behind + AROUND)
    if not mine or end - first > SHARE_MAX * len(mine):
        return None
    return CodeChange(parent, first + 1, end, len(mine), "\n".join(mine[first:end]))


def with_changes(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return nodes, each with the `change` of its code; None where the whole code is to be shown.

    That is so for a first program, and for one that a stage hands on.
    """
    codes = {node["id"]: node["code"] for node in nodes if node["code"]}
    return [{**node, "change": _change(node, codes)} for node in nodes]


def _change(node: Mapping[str, Any], codes: Mapping[str, str]) -> CodeChange | None:
    parents = codes.get(node["parent"])
    if node["best"] or not node["code"] or parents is None or node["parent"] == node["id"]:
        return None
    return code_change(node["code"], parents, node["parent"])


def _same(mine: Sequence[str], theirs: Sequence[str]) -> int:
    pairs = zip(mine, theirs, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
