"""The ablations, read as pairs: what one varied choice does without and with the intervention; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.tree import UNVARIED, Node

ABLATIONS: Final = "Stage_4"


@dataclass(frozen=True, slots=True)
class Ablation:
    """One condition with the node of each arm; None where that arm was not tried under it."""

    condition: str
    without: Node | None = None
    with_it: Node | None = None

    @property
    def difference(self) -> float | None:
        """Return with minus without, where both were measured."""
        if self.without is None or self.with_it is None:
            return None
        if self.without.metric is None or self.with_it.metric is None:
            return None
        return self.with_it.metric - self.without.metric


def ablations_of(record: Record) -> tuple[Ablation, ...]:
    """Return every condition in the order it was tried; the chosen node as it is, tried anew, comes first.

    The same condition tried twice in one arm counts with the later good node.
    """
    found = {UNVARIED: Ablation(UNVARIED, with_it=record.intervention)}
    nodes = [node for stage in record.stages if stage.name == ABLATIONS for node in stage.nodes]
    for node in nodes:
        if not node.condition:
            continue
        old = found.get(node.condition, Ablation(node.condition))
        if node.arm == "intervention" and (not node.buggy or old.with_it is None):
            found[node.condition] = Ablation(node.condition, old.without, node)
        elif node.arm == "baseline" and (not node.buggy or old.without is None):
            found[node.condition] = Ablation(node.condition, node, old.with_it)
    return tuple(found.values())
