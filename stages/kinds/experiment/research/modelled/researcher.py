"""The researcher that is a language model: it writes the programs, the words of the paper, and reviews.

Law: the model never decides which node is best, which arm a program belongs to, or what is tried next. It
is given these. Its output is text; only the sandbox executes its programs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from events.kinds.experiment import Arm
from events.kinds.idea import Idea
from events.kinds.space.claim import Claim
from events.kinds.space.recipe import Value
from stages.kinds.experiment.record.prose import Prose
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.record.reviews import Review
from stages.kinds.experiment.research.modelled import prompt
from stages.kinds.experiment.research.modelled.answer import (
    ProgramFilter,
    Written,
    read_program,
    substance,
)
from stages.kinds.experiment.research.modelled.failure_policy import given_up
from stages.kinds.experiment.research.modelled.reviewing import ask_reviews
from stages.kinds.experiment.research.modelled.writing import ask_words
from stages.kinds.experiment.research.proposal import Proposal
from stages.kinds.experiment.seeds import seed_for
from stages.kinds.experiment.tree import UNVARIED, Node, Tree, is_unvaried
from stages.models.model import Model, ModelError, Question
from stages.models.structured import ask_for_code
from stages.ports import Notes, Say

INVENTING: Final = 0.9  # temperatures: for what shall differ from all before
CAREFUL: Final = 0.3  # for what shall be right

_FOCI: Final = (
    "the learning rate and its schedule",
    "the size of the model",
    "the optimiser and its weight decay",
    "the batch size and the length of the training",
    "how the features are prepared, and how the weights begin",
    "what kind of model it is",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One question for a program: the text that asks it, what it starts from, and what will become of it."""

    text: str
    arm: Arm
    temperature: float
    parent: Node | None = None
    condition: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)

    @property
    def varies(self) -> bool:
        """Return whether the model has to name what it varies."""
        return self.text == "vary"


@dataclass(frozen=True, slots=True)
class ModelResearcher:
    """Asks a language model for every proposal; `say` writes a line of the run's log.

    `idea` is what the claim was read from; `seed` decides where the tuning looks first.
    """

    model: Model
    claim: Claim
    idea: Idea
    seed: int
    notes: Notes
    say: Say

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def switched(self) -> frozenset[str] | None:
        return None

    def draft(self, tree: Tree) -> Proposal | None:
        return self._asked(_Step(text="draft", arm="baseline", temperature=INVENTING, parent=tree.root), tree)

    def tune(self, parent: Node, tree: Tree) -> Proposal | None:
        shown = self._program_of(parent) | {"focus": self._focus(tree)}
        step = _Step(text="tune", arm="baseline", temperature=INVENTING, parent=parent, shown=shown)
        return self._asked(step, tree)

    def improve(self, parent: Node, tree: Tree) -> Proposal | None:
        shown = self._program_of(parent)
        if parent.arm == "baseline":
            shown |= {"strength": _strength(tree)}
            step = _Step(text="apply", arm="intervention", temperature=CAREFUL, parent=parent, shown=shown)
        else:
            shown |= {"baseline": _baseline(tree)}
            step = _Step(text="refine", arm="intervention", temperature=INVENTING, parent=parent, shown=shown)
        return self._asked(step, tree)

    def ablate(self, parent: Node, tree: Tree) -> Proposal | None:
        """Run the best node again and with its switch off; then vary one part after another, each so."""
        if not is_unvaried(tree, "intervention"):
            return replace(
                _switched_off(parent, UNVARIED), plan=f"the program of {parent.id} again", arm="intervention"
            )
        if not is_unvaried(tree, "baseline"):
            return _switched_off(parent, UNVARIED)
        lonely = next((node for node in tree.nodes if _is_lonely(node, tree)), None)
        if lonely is not None:
            return _switched_off(lonely, lonely.condition)
        shown = self._program_of(parent)
        step = _Step(text="vary", arm="intervention", temperature=INVENTING, parent=parent, shown=shown)
        return self._asked(step, tree)

    def debug(self, node: Node, tree: Tree) -> Proposal | None:
        shown = self._program_of(node) | {
            "arm": prompt.arm_of(node),
            "error": prompt.fenced("error", node.error or "no reason given", prompt.ERROR_MAX),
            "log": prompt.fenced("log", node.log_tail or "(empty)", prompt.LOG_MAX),
        }
        step = _Step(
            text="debug",
            arm=node.arm,
            temperature=CAREFUL,
            parent=node,
            condition=node.condition,
            shown=shown,
        )
        return self._asked(step, tree)

    def write(self, record: Record) -> Prose:
        return ask_words(self.model, record, self.say)

    def review(self, paper: str, count: int) -> Sequence[Review]:
        return ask_reviews(self.model, paper, count, self.say)

    def _asked(self, step: _Step, tree: Tree) -> Proposal:
        """Ask for one program. Raises `NoProposal`, and `PipelineError` where asking is over for good."""
        program_filter = ProgramFilter(
            known=frozenset(substance(node.code) for node in _around(step, tree)),
            conditions=_conditions(tree) if step.varies else frozenset(),
            varies=step.varies,
            switches=step.arm == "intervention",
        )
        question = Question(
            purpose=step.text,
            system=prompt.system("programmer"),
            text=self._text(step, tree),
            temperature=step.temperature,
        )
        try:
            code = ask_for_code(self.model, question, program_filter.problem)
        except ModelError as error:
            raise given_up(error) from error
        written = read_program(code, varies=step.varies)
        assert isinstance(written, Written)  # the filter accepted it
        return Proposal(
            plan=written.plan,
            code=code,
            arm=step.arm,
            params=written.params,
            changed=_changed(written.params, step.parent),
            condition=written.condition or step.condition,
        )

    def _text(self, step: _Step, tree: Tree) -> str:
        return prompt.question(
            step.text,
            setting=prompt.setting(self.claim, self.idea),
            notes=prompt.notes_text(self.notes.all()),
            tried=prompt.tried_text(tree, self.claim.selection),
            condition=prompt.joined([step.condition]),
            conditions=prompt.joined(sorted(_conditions(tree))),
            **step.shown,
        )

    def _program_of(self, node: Node) -> dict[str, str]:
        measured = prompt.measured(node, self.claim.selection)
        return {"program": prompt.fenced("program", node.code), "metric": measured}

    def _focus(self, tree: Tree) -> str:
        order = random.Random(seed_for(self.seed, "focus")).sample(_FOCI, len(_FOCI))  # noqa: S311 - an order, no secret
        return order[(len(tree.nodes) + len(tree.pending)) % len(order)]


def _around(step: _Step, tree: Tree) -> Iterator[Node]:
    """Yield every node whose program must not come again."""
    yield from tree.known
    if step.parent is not None:
        yield step.parent


def _switched_off(node: Node, condition: str) -> Proposal:
    """Return the very program of a node, to be run with its switch off."""
    return Proposal(
        plan=f"the program of {node.id} with its switch off",
        code=node.code,
        arm="baseline",
        params=dict(node.params),
        condition=condition,
    )


def _is_lonely(node: Node, tree: Tree) -> bool:
    """Return whether an ablation kept the intervention, and no node is the same without it."""
    paired = {each.condition for each in tree.known if each.arm == "baseline"}
    is_kept = not node.buggy and node.arm == "intervention" and bool(node.condition)
    return is_kept and node.condition not in paired


def _conditions(tree: Tree) -> frozenset[str]:
    return frozenset(node.condition for node in tree.known if node.condition)


def _strength(tree: Tree) -> str:
    if any(node.arm == "intervention" for node in tree.known):
        return "Choose a strength or a variant that differs from those tried above."
    return "Begin with its usual strength."


def _baseline(tree: Tree) -> str:
    root = tree.root
    known = root is not None and root.arm == "baseline"
    return prompt.fenced("baseline", root.code) if root is not None and known else "(not at hand)"


def _changed(params: Mapping[str, Value], parent: Node | None) -> dict[str, Value]:
    """Return the choices that differ from the parent's; all of them where there is none."""
    before: Mapping[str, Value] = parent.params if parent is not None else {}
    return {name: value for name, value in params.items() if name not in before or before[name] != value}
