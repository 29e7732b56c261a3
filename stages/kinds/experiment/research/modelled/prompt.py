"""The prompts of a model: the texts of `prompts/`, filled in by the search; pure but for reading them.

Law: no foreign word enters a system prompt, and foreign text is between marks that it cannot close. All is
bounded: prompts of a run with many nodes are no longer than those of one with few.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import Final

from events.kinds.idea import Idea
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import DataSet
from events.kinds.space.metrics import Metric
from events.kinds.space.recipe import described
from events.queue.notes import Note
from stages.kinds.experiment.research.modelled.answer import CODE_MAX_BYTES, one_line
from stages.kinds.experiment.tree import Node, Tree

TRIED_MAX: Final = 12  # nodes that a question shows, the newest ones
LOG_MAX: Final = 4_000
ERROR_MAX: Final = 2_000
PLAN_MAX: Final = 400
PARAMS_MAX: Final = 400
IDEA_MAX: Final = 8_000
NOTE_MAX: Final = 2_000
NOTES_MAX: Final = 8_000  # characters of all notes together; the oldest give way

_MARKS: Final = (
    "idea", "claim", "note", "program", "baseline", "error", "log", "tried", "condition", "plans", "numbers", "works",
    "paper", "draft",
)  # fmt: skip
_MARK: Final = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_MARKS)})\b)", re.IGNORECASE)


def system(name: str, **words: str) -> str:
    """Return the system text `name`; `words` are our own."""
    return _template(name).substitute(words)


def question(name: str, **parts: str) -> str:
    """Return the question `name`; each part is bounded and fenced already."""
    return _template(name).substitute(parts).strip()


def _template(name: str) -> Template:
    text = (
        files("stages.kinds.experiment.research")
        .joinpath("prompts", f"{name}.txt")
        .read_text(encoding="utf-8")
    )
    return Template(text)


def fenced(mark: str, text: str, length: int = CODE_MAX_BYTES) -> str:
    """Return `text` between marks that nothing in it can close, cut to `length` in its middle."""
    assert mark in _MARKS
    return f"<{mark}>\n{_harmless(middle_out(text, length))}\n</{mark}>"


def _harmless(text: str) -> str:
    sound = text.encode("utf-8", "replace").decode("utf-8")
    plain = "".join(
        each for each in sound if each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cf")
    )
    return _MARK.sub("\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", plain)


def middle_out(text: str, length: int) -> str:
    """Return `text` with its middle left out where it is too long."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}\n[... left out ...]\n{text[-half:]}"


def setting(claim: Claim, idea: Idea) -> str:
    """Return what is to be found out, and on what."""
    better = "higher" if claim.selection.higher_is_better else "lower"
    few = f" Only {claim.train_examples} rows are for training." if claim.train_examples else ""
    lines = [
        f"The idea:\n{idea_text(idea)}",
        f"What shall be supported or contradicted in the end, and the intervention that it is about:\n{fenced('claim', claim.sentence)}",
        f"The data: {facts_of(claim.data)}.{few}",
        f"While we search, programs are compared by the {claim.selection.title} ({claim.selection.name}) of their answers; "
        f"{better} is better.",
    ]
    return "\n".join(lines)


def facts_of(data: DataSet) -> str:
    """Return what is known of a data set as one phrase."""
    predicted = f"{data.outputs} classes" if data.task == "classification" else "one value"
    image = f", images of {data.image_side} by {data.image_side} pixels" if data.image_side else ""
    return f"{one_line(data.title, 80)}: {data.task}, {data.rows} rows in all, {data.features} features{image}, {predicted}"


def idea_text(idea: Idea) -> str:
    """Return the idea, field by field, between marks."""
    fields: Sequence[tuple[str, str | list[str]]] = (
        ("Title", idea.title or idea.name),
        ("Short Hypothesis", idea.short_hypothesis),
        ("Abstract", idea.abstract),
        ("Experiments", idea.experiments),
        ("Risk Factors and Limitations", idea.risks),
    )
    texts = [f"{name}: {text if isinstance(text, str) else '; '.join(text)}" for name, text in fields if text]
    return fenced("idea", "\n".join(texts), IDEA_MAX)


def notes_text(notes: Sequence[Note]) -> str:
    """Return what people have written to the run, newest last."""
    if not notes:
        return ""
    texts: list[str] = []
    left = NOTES_MAX
    for note in reversed(notes):
        text = fenced("note", f"{one_line(note.by, 80)}: {note.text}", NOTE_MAX)
        left -= len(text)
        if left < 0:
            texts.append(f"({len(notes) - len(texts)} older notes are left out.)")
            break
        texts.append(text)
    return "\n".join(["Notes by people to this run, the newest last:", *reversed(texts)])


def tried_text(tree: Tree, metric: Metric) -> str:
    """Return what was tried so far, a line each, newest last."""
    if not tree.known:
        return "Nothing was tried yet."
    shown = tree.known[-TRIED_MAX:]
    lines = [_line(node, metric, pending=node in tree.pending) for node in shown]
    left_out = len(tree.known) - len(shown)
    more = f", without the {left_out} oldest" if left_out else ""
    return f"Tried so far{more}:\n{fenced('tried', chr(10).join(lines))}"


def _line(node: Node, metric: Metric, *, pending: bool) -> str:
    if pending:
        outcome = "under way"
    elif node.metric is None:
        outcome = f"failed: {one_line(node.error or 'no reason given', 200)}"
    else:
        outcome = measured(node, metric)
    params = one_line(described(node.params), PARAMS_MAX) if node.params else "no choices named"
    condition = f" [{node.condition}]" if node.condition else ""
    return f"- {node.id} ({arm_of(node)}{condition}) {outcome} | {one_line(node.plan, PLAN_MAX)} | {params}"


def arm_of(node: Node) -> str:
    """Return whether the node has the intervention, in words."""
    return "with the intervention" if node.arm == "intervention" else "without the intervention"


def measured(node: Node, metric: Metric) -> str:
    """Return the node's number as a phrase."""
    return f"no {metric.title}" if node.metric is None else f"{metric.title} {node.metric:.6g}"


def joined(words: Iterable[str]) -> str:
    """Return words that came from a model as one harmless phrase."""
    return _harmless("; ".join(one_line(each, 80) for each in words)) or "none"
