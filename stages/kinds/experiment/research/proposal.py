"""The protocol between search and researcher: requests and proposals.

Law: `None` means that nothing is left to propose from here. A researcher that cannot answer raises
`NoProposal`; the search goes on without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from events.kinds.experiment import Arm
from events.kinds.space.claim import Claim
from events.kinds.space.recipe import Value
from stages.kinds.experiment.record.prose import Prose
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.record.reviews import Review
from stages.kinds.experiment.tree import Node, Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What to try next: a whole program with a plan for people.

    `params` are the choices in it that a reader should see, `changed` those that differ from its
    parent, `condition` what an ablation varies.
    """

    plan: str
    code: str
    arm: Arm
    params: Mapping[str, Value] = field(default_factory=dict)
    changed: Mapping[str, Value] = field(default_factory=dict)
    condition: str = ""


class NoProposal(Exception):
    """The researcher has no answer this time, and why; a run that ends by it gets `code`."""

    def __init__(self, reason: str, code: str = "NO_PROPOSAL") -> None:
        super().__init__(reason)
        self.code = code


class Researcher(Protocol):
    """Proposes programs, writes, and reviews; `claim` is what it chose to measure."""

    @property
    def name(self) -> str:
        """Return who does the research, for people."""
        ...

    @property
    def claim(self) -> Claim: ...

    @property
    def switched(self) -> frozenset[str] | None:
        """Return the choices that belong to the intervention; None where only a program says so."""
        ...

    def draft(self, tree: Tree) -> Proposal | None:
        """Propose another first implementation without the intervention."""
        ...

    def tune(self, parent: Node, tree: Tree) -> Proposal | None:
        """Propose a better baseline, still without the intervention."""
        ...

    def improve(self, parent: Node, tree: Tree) -> Proposal | None:
        """Propose a strength or variant of the intervention on the baseline, the tree's root, or other choices
        with it.
        """
        ...

    def ablate(self, parent: Node, tree: Tree) -> Proposal | None:
        """Propose a part to take away or to vary from the best node, the tree's root."""
        ...

    def debug(self, node: Node, tree: Tree) -> Proposal | None:
        """Propose a repair of a buggy node."""
        ...

    def write(self, record: Record) -> Prose:
        """Return the words of the paper, which name numbers by reference only."""
        ...

    def review(self, paper: str, count: int) -> Sequence[Review]:
        """Return independent reviews of the paper's text; none without a reviewer."""
        ...
