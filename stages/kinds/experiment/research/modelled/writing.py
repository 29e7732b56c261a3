"""Requests the words of a paper from a model; each section is corrected or replaced.

Law: a paper is never lost to its words. A number that the model types in the place of a reference is
returned to it a bounded number of times; then the built-in words are used, and the log records it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import msgspec

from stages.kinds.experiment.paper.assertions import GENERATED, GENERATED_FIRST
from stages.kinds.experiment.paper.phrases import is_referable
from stages.kinds.experiment.paper.words import CITED_MAX, PARAGRAPHS_MAX, problems_of, write_words
from stages.kinds.experiment.record.numbers import Numbers, numbers_of
from stages.kinds.experiment.record.prose import SECTIONS, Prose
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.research.modelled import prompt
from stages.kinds.experiment.research.modelled.answer import one_line
from stages.kinds.experiment.research.modelled.failure_policy import ANSWER_TROUBLES
from stages.kinds.experiment.tree import Node
from stages.models.model import Model, ModelError, Question
from stages.models.structured import ask_for
from stages.ports import Say

REPAIRS_MAX: Final = 2  # times that a section is given back
PROBLEMS_MAX: Final = 8  # problems of one section that the model is told at once
TEXT_MAX: Final = 20_000  # characters of a paragraph that are looked at
NUMBERS_MAX: Final = 24_000
NUMBER_MAX: Final = 200
ABSTRACT_MAX: Final = 800
PLANS_MAX: Final = 8_000
TEMPERATURE: Final = 0.6
WANTED: Final = tuple(name for name in SECTIONS if name not in GENERATED)

Paragraphs = Annotated[list[str], msgspec.Meta(max_length=PARAGRAPHS_MAX)]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The whole paper, as the model answers."""

    sections: dict[str, Paragraphs]
    cited: list[int] = []


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One section anew, as the model answers."""

    paragraphs: Paragraphs


def ask_words(model: Model, record: Record, say: Say) -> Prose:
    """Return the words of the paper on `record`, by the model as far as they hold."""
    numbers = numbers_of(record)
    usual = write_words(record, numbers)
    question = _question(record, numbers)
    try:
        draft = ask_for(model, question, Draft)
    except ModelError as error:
        say(f"the words of the paper are built in: the model gave none ({error.trouble}: {error.message})")
        return usual
    works = min(len(record.works), CITED_MAX)
    check = _Check(numbers, works, usual, frozenset(problems_of(usual, numbers, works)))
    return _Editor(model, check, usual, question, say).edited(draft)


@dataclass(frozen=True, slots=True)
class _Check:
    """Finds what is wrong with a draft that is not wrong with the built-in words (`known`)."""

    numbers: Numbers
    works: int
    usual: Prose
    known: frozenset[str]

    def section(self, name: str, paragraphs: list[str]) -> list[str]:
        """Return what is wrong with one section."""
        prose = replace(self.usual, sections={**self.usual.sections, name: paragraphs})
        return [each for each in problems_of(prose, self.numbers, self.works) if each not in self.known]

    def cited(self, places: Sequence[int]) -> tuple[int, ...]:
        """Return the works among `places` that there are."""
        return tuple(sorted({each for each in places if 0 <= each < self.works}))


@dataclass(slots=True)
class _Editor:
    """Goes through a draft section by section; `asks` ends where the model cannot be asked any more."""

    model: Model
    check: _Check
    usual: Prose
    question: Question
    say: Say
    asks: bool = True

    def edited(self, draft: Draft) -> Prose:
        """Return the draft with every section that does not hold mended, or replaced."""
        sections = dict(self.usual.sections)
        replaced: list[str] = []
        for name in WANTED:
            own = draft.sections.get(name, [])
            if not own and name in GENERATED_FIRST:
                continue
            paragraphs = self._mended(name, own)
            if paragraphs is None:
                replaced.append(name)
            else:
                sections[name] = paragraphs
        if len(replaced) == len(WANTED):
            return self.usual
        author = self.model.name
        if replaced:
            author = f"{author}; built-in words in: {', '.join(replaced).replace('_', ' ')}"
        return Prose(sections=sections, author=author, cited=self.check.cited(draft.cited))

    def _mended(self, name: str, paragraphs: Sequence[str]) -> list[str] | None:
        """Return the section as it may be printed; None where the built-in words have to stand there."""
        shown = _plain(paragraphs)
        problems = self.check.section(name, shown)
        for _ in range(REPAIRS_MAX):
            if not problems or not self.asks:
                break
            try:
                shown = _plain(ask_for(self.model, self._again(name, shown, problems), Section).paragraphs)
            except ModelError as error:
                self.asks = error.trouble in ANSWER_TROUBLES
                problems = [f"{error.trouble}: {error.message}"]
                break
            problems = self.check.section(name, shown)
        if problems:
            self.say(
                f"the section {name} of the paper has built-in words; the model's were refused: {problems[0]}"
            )
            return None
        return shown

    def _again(self, name: str, paragraphs: list[str], problems: Sequence[str]) -> Question:
        written = prompt.fenced("draft", "\n\n".join(paragraphs) or "(nothing)")
        problem_list = "\n".join(f"- {one_line(each, NUMBER_MAX)}" for each in problems[:PROBLEMS_MAX])
        text = f"{self.question.text}\n\nNow only the section {name}, anew. You had written:\n{written}\nWhat is wrong with it:\n{problem_list}"
        return replace(self.question, text=text)


def _plain(paragraphs: Sequence[str]) -> list[str]:
    return [line for each in paragraphs if (line := one_line(each, TEXT_MAX))]


def _question(record: Record, numbers: Numbers) -> Question:
    verdicts = record.verdicts
    parts = (
        f"The idea:\n{prompt.idea_text(record.idea)}",
        f"What was measured:\n{prompt.fenced('claim', record.claim.sentence)}",
        f"The verdict, by measurement on splits that the search had not seen: {verdicts.conclusion}; {one_line(verdicts.reason, NUMBER_MAX)}.",
        f"What was tried:\n{prompt.fenced('plans', _plans(record), PLANS_MAX)}",
        f"What can be referred to, as key = what is printed for it:\n{prompt.fenced('numbers', _numbers(numbers))}",
        f"Earlier works that a look-up found, by index:\n{prompt.fenced('works', _works(record) or '(none)')}",
        "Write the words of the paper.",
    )
    return Question(
        purpose="write",
        system=prompt.system("write", sections=", ".join(WANTED)),
        text="\n\n".join(parts),
        temperature=TEMPERATURE,
    )


def _plans(record: Record) -> str:
    return "\n".join(
        line for stage in record.stages for line in _stage_lines(stage.nodes, stage.best, stage.name)
    )


def _stage_lines(nodes: Sequence[Node], best: Node, stage: str) -> Iterator[str]:
    yield f"{stage}:"
    for node in nodes[-prompt.TRIED_MAX :]:
        mark = ", handed on" if node.id == best.id else ", failed" if node.buggy else ""
        condition = f", {node.condition}" if node.condition else ""
        yield f"- {node.id} ({prompt.arm_of(node)}{condition}{mark}): {one_line(node.plan, prompt.PLAN_MAX)}"


def _numbers(numbers: Numbers) -> str:
    """Return as many keys that a sentence may refer to as there is room for, in their order, never half a line."""
    lines: list[str] = []
    left = NUMBERS_MAX
    for key in filter(is_referable, (*numbers.numbers, *numbers.quotes)):
        line = f"{{{key}}} = {one_line(numbers.text(key), NUMBER_MAX)}"
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _works(record: Record) -> str:
    return "\n".join(
        f"{{work.{index}}} {one_line(work.title, NUMBER_MAX)}; {one_line(', '.join(work.authors[:3]), NUMBER_MAX)}; "
        f"{one_line(work.abstract, ABSTRACT_MAX)}"
        for index, work in enumerate(record.works[:CITED_MAX])
    )
