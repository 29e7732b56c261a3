"""Removes the sentences of a paper's author that nothing in the run supports; pure.

Law: what a model writes is printed only in a form that is bound: the question, the verdict, a pointer to a table,
a result that is called what it is, or words of a work as they stand there. Each form has a list of its words, and no list
of forbidden ones is needed. The sentences that carry the verdict, the method and the limits are generated, and
come first. What is true and cannot be bound is removed as well.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from events.catalog import Conclusion
from events.kinds.space.metrics import METRICS, metric_named
from stages.kinds.experiment.paper import phrases
from stages.kinds.experiment.record.numbers import REFERENCE, Number, Numbers
from stages.kinds.experiment.record.prose import Prose
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.statistics.validation import Judgement
from stages.ports.literature import Work

GENERATED: Final = frozenset({"abstract", "method", "validation"})  # nothing of a model is taken here
GENERATED_WHY: Final = "this section is generated"
GENERATED_FIRST: Final = frozenset({"related_work", "results", "ablations", "limitations", "conclusion"})
LENGTH_MAX: Final = 400  # characters of a sentence; what is longer says more than one thing
KEYS_MAX: Final = 8  # references of a sentence, for the same reason
SENTENCES_MAX: Final = 40  # of a paragraph
WORKS_MAX: Final = 64  # whose words are kept

_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "e", "y")
_STEM_MIN: Final = 3

_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+|\n+")
_TOKEN: Final = re.compile(r"\{[^{}]*\}|[^\W_]+")
_SIGNS: Final = re.compile(r"[\w ,:()'’=-]*\.?")  # no other sign: an arrow or a bracket may assert as well
_WORK: Final = re.compile(r"work\.([0-9]{1,4})")


_ARM: Final = re.compile(r"(?:^|\.)(baseline|intervention|without|with)(?:\Z|\.)")
_BOTH: Final = ["baseline", "intervention"]
_ARM_OF: Final = {"without": "baseline", "with": "intervention"}
_FROM_TO: Final = re.compile(r"\bfrom (\{[^{}]*\})([^{}]*) to (\{[^{}]*\})")
_THAN: Final = re.compile(r"\bthan(?: for| with)?(?: the (?:baseline|intervention))?(?= |\Z)")
_THAN_BASELINE: Final = re.compile(r"\b(?:than|over)(?: for| with)? the baseline\b")
_COMPARATIVE: Final = "(?:better|greater|higher|larger|lower|smaller|worse)"
_BETWEEN: Final = re.compile(
    rf"\}}[^{{]* {_COMPARATIVE} than\b[^{{]*\{{"
)  # what is compared stands on both sides
_CHANGE: Final = re.compile(
    r"\b(?:by|(?:change|decrease|difference|drop|fall|gain|improvement|increase|reduction|rise)(?: [a-z]+){0,6}) "
    rf"(?:average )?\{{[^{{}}]*\}}|\}} (?:average )?{_COMPARATIVE}\b"
)
_DIFFERENCE: Final = re.compile(r"effect\.(?:mean|in_test_rows)|ablation_\d+\.difference")
_OF_CHANGES: Final = phrases.listed("by change changed changes difference")
_STAGE: Final = re.compile(r"\b(?:first|second|third|fourth) stage\b")
_PROGRAM: Final = re.compile(r"\b(?:baseline|intervention)\b")
_VERDICT: Final = re.compile(
    r"(?:under the conditions described )?the (?:claim|verdict) is ([a-z]+)\b(?: under the conditions described)? ?"
)
_QUESTION: Final = re.compile(
    r"(?:we (?:ask|test|measure)|this paper (?:asks|tests)|the question is) whether "
)
# Sentences that stand as they are: the claim and the idea as such, and the limit of every run.
_WHOLE: Final = re.compile(
    r"(?:the claim(?: that was (?:tested|measured))? (?:is|reads) \{claim\}|the idea (?:is|reads) \{idea\}|"
    r"(?:whether the (?:claim|difference|result) holds (?:for|on) )?other (?:data|data sets|tasks) (?:was|were) not "
    r"(?:examined|measured|tested|tried|used)|only one data set was used)"
)
_ZERO: Final = re.compile(r"\b(?:the interval )?(includes|excludes) zero\b")
_POINTER: Final = re.compile(
    r"(?:the|this) (?:tables?|figures?|section|paper) (?:shows?|lists?|gives?|describes?|is about) "
)


@dataclass(frozen=True, slots=True)
class Removed:
    """A sentence that is not printed, and why."""

    section: str
    sentence: str
    reason: str


def supported_prose(
    record: Record, prose: Prose, usual: Prose, numbers: Numbers
) -> tuple[Prose, list[Removed]]:
    """Return `prose` without what nothing supports, behind the generated words `usual`, and what was removed.

    Paragraphs of `usual` are generated and stand as they are, so its own words come out unchanged.
    """
    ground = _Ground.of(record, numbers)
    sections: dict[str, Sequence[str]] = {}
    removed: list[Removed] = []
    for name, generated in usual.sections.items():
        own = [each for each in prose.sections.get(name, ()) if each not in generated]
        kept = []
        for paragraph in own:
            good = []
            for place, sentence in enumerate(_sentences(paragraph)):
                if name in GENERATED:
                    why: str | None = GENERATED_WHY
                elif place >= SENTENCES_MAX:
                    why = f"the paragraph has more than {SENTENCES_MAX} sentences"
                else:
                    why = ground.problem(sentence)
                if why is None:
                    good.append(sentence)
                else:
                    removed.append(Removed(name, sentence, why))
            if good:
                kept.append(" ".join(good))
        sections[name] = kept if kept and name not in GENERATED_FIRST else [*generated, *kept]
    return replace(prose, sections=sections), removed


def _sentences(paragraph: str) -> list[str]:
    return [each.strip() for each in _SENTENCE.split(paragraph) if each.strip()]


def _tokens(text: str) -> str:
    """Return the words and references of a text in lower case, between single spaces."""
    return " ".join(each if each[0] == "{" else each.lower() for each in _TOKEN.findall(text))


def _stem(word: str) -> str:
    """Return a word without its ending, crudely: both sides of a comparison are treated alike."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_MIN:
            return word.removesuffix(ending)
    return word


def _slug(metric: str) -> str:
    return metric.replace("_", "")


def _is_effect(judgement: Judgement) -> bool:
    interval = judgement.interval
    is_decided = judgement.conclusion != "inconclusive"
    return is_decided and interval is not None and not interval.low <= 0 <= interval.high


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a sentence can be bound to: the numbers, the works found, the verdict, and the names of the claim."""

    numbers: Numbers
    works: Sequence[Work]
    conclusion: Conclusion  # of all claims together
    is_effect: bool  # whether the first one's interval lies on one side of zero, and decides
    metric: str
    selection: str
    sign: int  # of the claim
    idea: frozenset[str]
    names: Mapping[str, str]  # what is said, and the one name that it gets here
    naming: re.Pattern[str]
    measures: frozenset[str]

    @classmethod
    def of(cls, record: Record, numbers: Numbers) -> _Ground:
        claim = record.claim
        measures = [*METRICS.values(), *(each.metric for each in claim.effects)]
        names = {_tokens(each.title): _slug(each.name) for each in measures}
        names |= {"training time": _slug("training_seconds"), _tokens(claim.data.title): "the data"}
        names |= {_tokens(claim.subject): "the intervention"}
        longest = sorted(filter(None, names), key=len, reverse=True)
        naming = re.compile(rf"(?<!\S)(?:the )?({'|'.join(map(re.escape, longest))})(?!\S)")
        idea = phrases.listed(_tokens(record.idea.short_hypothesis))
        return cls(
            numbers, record.works, record.verdicts.conclusion, _is_effect(record.verdicts.judgement),
            claim.metric.name, claim.selection.name,
            1 if claim.direction == "increase" else -1, idea | {*map(_stem, idea)}, names, naming,
            frozenset(_slug(each.name) for each in measures),
        )  # fmt: skip

    def problem(self, sentence: str) -> str | None:
        """Return why nothing supports a sentence; None if it is bound."""
        return next(self._problems(sentence), None)

    def _problems(self, sentence: str) -> Iterator[str]:
        keys = REFERENCE.findall(sentence[:LENGTH_MAX])
        if len(sentence) > LENGTH_MAX or len(keys) > KEYS_MAX:
            yield f"it has more than {LENGTH_MAX} characters, or more than {KEYS_MAX} references"
        elif not _SIGNS.fullmatch(REFERENCE.sub(" ", sentence)):
            yield "it has other signs than words, commas and one full stop"
        elif any(map(_WORK.fullmatch, keys)):
            yield from self._of_works(sentence, keys)
        elif not _WHOLE.fullmatch(_tokens(sentence)):
            yield from self._of_run(self._named(sentence), keys)

    def _named(self, sentence: str) -> str:
        """Return a sentence's words, with the parts of the claim and the programs called by one name each."""
        text = self.naming.sub(
            lambda match: self.names[match[1]], _tokens(REFERENCE.sub(self._spelled, sentence))
        )
        text = re.sub(r"\b(with|without) it\b", r"\1 the intervention", text)
        text = re.sub(r"\b(?:the program )?without the intervention\b", "the baseline", text)
        text = re.sub(r"\b(than|to|with|and) (?:that|those) of\b", r"\1", text)
        return re.sub(r"\bon average\b", "average", text)

    def _spelled(self, match: re.Match[str]) -> str:
        """Return the text of a reference that is judged as if its author had written it; others stay."""
        key = match[1]
        if key in phrases.NAMES:
            return self.numbers.quotes[key].said
        if key.endswith(".name"):
            return phrases.STAGES.get(key, match[0])
        if key.endswith(".condition") and key in self.numbers.quotes:
            words = _tokens(self.numbers.quotes[key].said).split()
            return (
                " " if all(word in phrases.OF_CONDITIONS or word.isdecimal() for word in words) else match[0]
            )
        return match[0]

    def _of_run(self, text: str, keys: Sequence[str]) -> Iterator[str]:
        """Judge a sentence that cites no work by its form."""
        if (verdict := _VERDICT.match(text)) is not None:
            if verdict[1] != self.conclusion:
                yield f"it says {verdict[1]!r}, and the verdict is {self.conclusion}"
            text = text[verdict.end() :]
        if results := REFERENCE.findall(text):
            yield from self._of_results(text, results, {key for key in keys if key.endswith(".condition")})
        elif (question := _QUESTION.match(text)) is not None:
            yield from self._of_questions(text[question.end() :])
        elif (pointer := _POINTER.match(text)) is not None:
            pointed = text[pointer.end() :].replace("learning curves", "curves")
            yield from _unsupported(pointed, phrases.OF_POINTERS | self.measures)
        elif text or verdict is None:
            yield "it refers to no result and no work, and is neither the question nor the verdict"

    def _of_questions(self, text: str) -> Iterator[str]:
        """Judge whether a question is that of the claim."""
        rest = _THAN_BASELINE.sub("", text)
        yield from _unsupported(
            rest, phrases.OF_QUESTIONS | phrases.ASSERTING | self.idea | {_slug(self.metric)}
        )
        asserted = [each for each in rest.split() if each in phrases.ASSERTING]
        if len(asserted) != 1 or _sign(asserted[0], self.metric) != self.sign:
            yield "it asks another question than the claim's"

    def _of_works(self, sentence: str, keys: Sequence[str]) -> Iterator[str]:
        """Judge whether each work has the words of a sentence in one sentence of its own."""
        words = _tokens(REFERENCE.sub(" ", sentence)).split()
        content = [word for word in words if word not in phrases.OF_SOURCES]
        if not content and not {"related", "question", "subject"} & {*words}:
            yield "it says nothing about the work that it cites"
        for key in {*keys}:
            if (match := _WORK.fullmatch(key)) is None:
                yield "it refers to a work and to something else"
            elif int(match[1]) >= len(self.works) or not _is_said(content, self.works[int(match[1])]):
                yield "no sentence of the title or abstract that it cites has its words as they stand there"

    def _of_results(self, text: str, results: Sequence[str], conditions: set[str]) -> Iterator[str]:
        """Judge whether a sentence calls its results what they are, and whether they show what it compares."""
        forms = {key: found for key in results for found in [phrases.said(key)] if found}
        abouts = {about for key, (about, _) in forms.items() if key != "units.registered"}
        if len(forms) < len({*results}) or len(abouts) > 1:
            yield "it refers to what is in the tables only, or mixes the test, the search and failures"
            return
        words = {*text.split()}
        if ("validation" in words) != ("validation" in abouts) or ("test" in words and "test" not in abouts):
            yield "it takes results of the search for results of the test, or names neither"
        yield from self._misnamed(words, results, self.selection if "validation" in abouts else self.metric)
        yield from _misplaced(text, results, conditions)
        rest = (_THAN if _arms(results) else _THAN_BASELINE).sub("", _FROM_TO.sub(r"\1\2 \3", text))
        for key, (_, form) in forms.items():
            if f"{{{key}}}" in rest and not form.search(rest):
                yield f"it refers to {{{key}}}, and does not call it what it is"
            rest = form.sub("", rest)
        if (zero := _ZERO.search(rest)) is not None:
            ends = [each.value for each in self.numbers if each.key in ("effect.low", "effect.high")]
            if not ends or abouts != {"test"} or (zero[1] == "includes") != (min(ends) <= 0 <= max(ends)):
                yield "it says of the interval and zero what is not so"
        rest = _STAGE.sub("", _ZERO.sub("", rest))
        allowed = (
            phrases.OF_RESULTS
            | self.measures
            | (phrases.FAILING if "failures" in abouts else phrases.ASSERTING)
        )
        allowed |= phrases.OF_ABLATIONS if conditions else frozenset()
        if _slug("training_seconds") in words:
            allowed |= {"seconds"}
        yield from _unsupported(rest, allowed)
        if asserted := [word for word in rest.split() if word in phrases.ASSERTING]:
            yield from self._unmeasured(text, asserted, results)
            if not self.is_effect and "test" in abouts:
                yield "it asserts an effect, and the interval includes none, or nothing was concluded"

    def _misnamed(self, words: set[str], results: Sequence[str], about: str) -> Iterator[str]:
        """Judge whether a sentence says that means are means, and of which measure its results are."""
        if (
            any(key.startswith(("effect.mean", "mean.")) for key in results)
            and not {"mean", "average"} & words
        ):
            yield "it does not say that a result is a mean"
        measured = {_slug(match[1]) for key in results if (match := re.match(r"mean\.([a-z0-9_]+)\.", key))}
        named = words & self.measures
        if named - (measured or {_slug(about)}) or (measured and named != measured):
            yield "it does not name the measure of each result that it refers to"

    def _unmeasured(self, text: str, asserted: Sequence[str], results: Sequence[str]) -> Iterator[str]:
        """Judge a comparison by the signs of the numbers that it refers to."""
        is_from = _FROM_TO.search(text) is not None
        difference = _difference([self.numbers.numbers[key] for key in results], is_from=is_from)
        is_said = is_from or not _arms(results) or _BETWEEN.search(text)
        metric = next((name for name in METRICS if _slug(name) in text.split()), self.metric)
        if difference is None or len(asserted) != 1 or not is_said:
            yield "it compares, and refers to no one difference, or to no two results, that show it"
        elif difference * _sign(asserted[0], metric) <= 0:
            yield "it compares, and the numbers that it refers to show the opposite"


def _unsupported(text: str, allowed: frozenset[str]) -> Iterator[str]:
    yield from (
        f"it says {word!r}, which no bound sentence needs" for word in text.split() if word not in allowed
    )


def _sign(word: str, metric: str) -> int:
    """Return where a comparing word says that a measure went: up or down."""
    known = metric_named(metric)
    up = 1 if known is not None and known.higher_is_better else -1
    return {
        word in phrases.UP: 1,
        word in phrases.DOWN: -1,
        word in phrases.GOOD: up,
        word in phrases.BAD: -up,
    }[True]


@functools.lru_cache(maxsize=WORKS_MAX)
def _told(work: Work) -> Mapping[frozenset[str], str]:
    """Return the words of each sentence of a work, by what negates in it."""
    told: dict[frozenset[str], str] = {}
    for sentence in (work.title, *_sentences(work.abstract)):
        words = [
            each for each in _tokens(sentence.replace("{", " ")).split() if each not in phrases.OF_SOURCES
        ]
        negating = phrases.NEGATING & {*words}
        told[negating] = f"{told.get(negating, '')} {' '.join(map(_stem, words))} ."
    return told


def _is_said(words: Sequence[str], work: Work) -> bool:
    """Return whether one sentence of a work has these words one after the other, and denies what they deny."""
    return (
        f" {' '.join(map(_stem, words))} " in f" {_told(work).get(phrases.NEGATING & {*words}, '')} "
        or not words
    )


def _arms(results: Sequence[str]) -> list[str]:
    return [_ARM_OF.get(match[1], match[1]) for key in results if (match := _ARM.search(key))]


def _misplaced(text: str, results: Sequence[str], conditions: set[str]) -> Iterator[str]:
    """Judge whether a sentence says of which programs, stages and conditions its results are, and in which order."""
    arms, ends = _arms(results), _FROM_TO.findall(text)
    named = _PROGRAM.findall(REFERENCE.sub(" ", text if arms else _THAN_BASELINE.sub("", text)))
    is_about_both = (
        any(key.startswith("effect.") or key.endswith(".difference") for key in results) and not arms
    )
    if named != arms and not (is_about_both and {*named} <= {"intervention"}):
        yield "it does not name the program of each result that it refers to, in their order"
    if any(_arms([one[1:-1], two[1:-1]]) != _BOTH and one != "{effect.low}" for one, _, two in ends):
        yield "it goes from one result to another, which is no change that was measured"
    is_difference = any(map(_DIFFERENCE.fullmatch, results))
    if is_difference and (not _CHANGE.search(text) or (arms and not ends)):
        yield "it does not say that a result is a difference"
    if not is_difference and not ends and _OF_CHANGES & {*text.split()}:
        yield "it speaks of a difference, and refers to none"
    stages = dict.fromkeys(each for each in results if each.startswith("stage_"))
    stages = dict.fromkeys(f"{key.partition('.')[0]}.name" for key in stages)
    if [f"the {each}" for each in _STAGE.findall(text)] != [phrases.STAGES[each] for each in stages]:
        yield "it does not name the stage of each result that it refers to, in their order"
    pairs = {key.partition(".")[0] for key in results if key.startswith("ablation_")}
    if {f"{pair}.condition" for pair in pairs} != conditions:
        yield "it does not name the condition of each ablation that it refers to"


def _difference(numbers: Sequence[Number], *, is_from: bool) -> float | None:
    """Return the one difference that numbers show: itself, or the first minus the second, as they are named."""
    differences = [each for each in numbers if each.rule == "difference" or each.key == "effect.mean"]
    levels = [each for each in numbers if each.rule == "same" and _ARM.search(each.key)]
    if len(differences) == 1:
        return differences[0].value
    if differences or len(levels) != 2 or len({_ARM.sub("", each.key) for each in levels}) != 1:
        return None
    first, second = levels
    return second.value - first.value if is_from else first.value - second.value
