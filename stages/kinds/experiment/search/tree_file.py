"""The search trees of a run as one file: every node with its program, its outcome, and why it was chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from stages.context import Context
from stages.kinds.experiment.record.record import StageRecord
from stages.kinds.experiment.tree import Node

NAME: Final = "tree.json"


@dataclass(slots=True)
class TreeFile:
    """Grows as nodes become known, in the order in which they do.

    `begun` are proposals; one without a node of its own was not tried to its end, and is kept as such.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    begun: dict[str, Node] = field(default_factory=dict)
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def begin(self, node: Node) -> None:
        """Take a node that shall be tried."""
        self.begun[node.id] = node

    def add(self, node: Node) -> None:
        """Take a node that was tried."""
        self.nodes[node.id] = node

    def choose(self, record: StageRecord) -> None:
        """Note what a stage hands on, and why."""
        self.chosen[record.name] = {
            "node": record.best.id,
            "why": record.reason,
            "ended": record.ended,
            "candidates": [asdict(each) for each in record.finalists],
        }

    @contextmanager
    def kept(self, context: Context, folder: Path) -> Iterator[None]:
        """Keep the file when the search is over, also where it ends by a failure."""
        try:
            yield
        except Exception:
            self._keep(context, folder)
            raise
        self._keep(context, folder)

    def _keep(self, context: Context, folder: Path) -> None:
        known = {**self.nodes, **{name: node for name, node in self.begun.items() if name not in self.nodes}}
        if not known:
            return
        stages = sorted({node.stage for node in known.values()})
        content = [
            {
                "stage": stage,
                "chosen": self.chosen.get(stage),
                "nodes": [
                    {**asdict(node), "tried": name in self.nodes, "buggy": node.buggy and name in self.nodes}
                    for name, node in known.items()
                    if node.stage == stage
                ],
            }
            for stage in stages
        ]
        path = folder / NAME
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        context.keep(path, NAME)
