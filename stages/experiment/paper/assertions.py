"""Removes the sentences of a paper's author that nothing in the run supports; pure.

Law: what a model writes is printed only if its words are those of this paper, and only if what it asserts can be
read off a result it refers to, or stands in the work it cites. The sentences that carry the verdict, the method
and the limits are generated, and come first. What is true and cannot be bound is removed as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from events.catalog import Conclusion
from events.kinds.space.metrics import METRICS
from stages.experiment.record.ablations import ablations_of
from stages.experiment.record.numbers import REFERENCE, Number, Numbers
from stages.experiment.record.prose import Prose
from stages.experiment.record.record import Record
from stages.literature import Work

GENERATED: Final = frozenset({"abstract", "method", "validation"})  # nothing of a model is taken here
GENERATED_WHY: Final = "this section is generated"
GENERATED_FIRST: Final = frozenset({"results", "ablations", "limitations", "conclusion"})
OWN_SHARE_MIN: Final = 0.5  # of a cited sentence's content words: those that the work has, too

_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+|\n+")
_WORD: Final = re.compile(r"[^\W_]+")
_NOT: Final = re.compile(r"n['’]t\b", re.IGNORECASE)
_WORK: Final = re.compile(r"work\.([0-9]{1,4})")
_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "e", "y")
_STEM_MIN: Final = 3

# Words that say nothing about the world: any author may use them.
_PLAIN: Final = """
a about above according across after again against along also although among an and another appear apply are
arm as ask at available average baseline be become been before begin being below beside between both but by can
change chance choice choose claim code column come compare comparison complete conclusion condition consider
contain count data dataset decide decision describe description design detail difference direction do document
does during each earlier either end epoch estimate event example experiment explain feature figure final finalist
follow following for form found from further get give given go had has have he here how however idea if in
include inconclusive independent index information input instead interpret interval into introduction is it
its itself keep know label later layer learn less limit limitation list listing literature look made make many
material may mean meaning measure measurement mention method metric might model more much name namely near need
neither next node nor not note now number object obtain of off on once one open or order other our out output over
own page pair paper parameter part particular people per perform place plan point possible prediction preset
present print procedure process program protocol publication purpose put question random range rate rather read
reader refer reference register relate related remain repeat report research respect rest result review row rule
run same sample say score search second section see seed select selection sentence separate set setting show since
single size so some speak split stage standard start state step still subject such summary table take target task
tell term test text than that the their them then there these they thing this those through time to together train
training tree trial try tune two under unit until up us use used value variance variation verdict version was way we
well were what when where whether which while who whole why will with within without word work would write
"""

_MOVES: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        [
            "higher",
            "greater",
            "larger",
            "more",
            "increases",
            "increased",
            "increase",
            "increasing",
            "rises",
            "rose",
            "rise",
            "rising",
            "risen",
            "raises",
            "raised",
            "raise",
            "raising",
            "grows",
            "grew",
            "gains",
            "gained",
            "gain",
        ],
        1,
    ),
    **dict.fromkeys(
        [
            "lower",
            "smaller",
            "less",
            "fewer",
            "decreases",
            "decreased",
            "decrease",
            "decreasing",
            "falls",
            "fell",
            "fall",
            "falling",
            "fallen",
            "lowers",
            "lowered",
            "lowering",
            "reduces",
            "reduced",
            "reduce",
            "reducing",
            "reduction",
            "drops",
            "dropped",
            "drop",
            "shrinks",
            "shrank",
        ],
        -1,
    ),
}
_GRADES: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        [
            "better",
            "improves",
            "improved",
            "improve",
            "improving",
            "improvement",
            "outperforms",
            "outperformed",
            "outperform",
            "beats",
            "beat",
            "exceeds",
            "exceeded",
            "surpasses",
            "surpassed",
            "helps",
            "helped",
            "help",
            "benefits",
            "benefited",
            "superior",
        ],
        1,
    ),
    **dict.fromkeys(
        [
            "worse",
            "worsens",
            "worsened",
            "degrades",
            "degraded",
            "hurts",
            "hurt",
            "harms",
            "harmed",
            "inferior",
            "underperforms",
            "loses",
            "lost",
        ],
        -1,
    ),
}
_COMPARED: Final = frozenset(
    [
        "than",
        "faster",
        "slower",
        "stronger",
        "weaker",
        "earlier",
        "similar",
        "similarly",
        "comparable",
        "equal",
        "equally",
        "equivalent",
        "identical",
        "alike",
        "significant",
        "significantly",
        "insignificant",
    ]
)
_BEYOND: Final[Mapping[str, re.Pattern[str]]] = {
    "a cause": re.compile(
        r"\b(?:because|caus\w*|due|owing|thanks|leads?|led|therefore|thus|hence|consequen\w*|explain\w*|reasons?|"
        r"results? in|resulted|driv\w*|enabl\w*|prevent\w*|attribut\w*|responsible|so that|makes?|allows?)\b"
    ),
    "a superlative": re.compile(
        r"\b(?:best|worst|most|least|highest|lowest|largest|smallest|greatest|strongest|fastest|optimal|optimum|"
        r"unique|novel|unprecedented|perfect\w*|ideal\w*|state of the art|outstanding|remarkabl\w*|impressive\w*|"
        r"dramatic\w*|substantial\w*|considerabl\w*|strong|strongly|large|huge|great|greatly|excellent|good|far)\b"
    ),
    "something universal": re.compile(
        r"\b(?:all|every\w*|always|never|any\w*|none|nobody|nowhere|general\w*|universal\w*|guarante\w*|certain\w*|"
        r"cannot|must|no|nothing|entire\w*|undoubted\w*|clear\w*|obvious\w*|broad\w*|widel?y?|usual\w*|typical\w*|"
        r"other (?:data|models?|tasks?|domains?|pods?|programs?|methods?))\b"
    ),
    "evidence": re.compile(
        r"\b(?:prov\w+|proof|confirm\w*|demonstrat\w*|establish\w*|evidence|evident\w*|stud(?:y|ies)|survey\w*|known|"
        r"shown?s? that|showed|finds?|findings?|found that|holds?|valid\w*|verif\w*|replicat\w*|reproduc\w*|"
        r"independent\w*|people|experts?|publish\w*|agree\w*|consensus|works|reliabl\w*|robust\w*|effective\w*)\b"
    ),
}
_FAILED: Final = re.compile(r"\b(?:fail\w*|bugg?y|bugs?|crash\w*|collaps\w*|diverg\w*|converg\w*|error\w*)\b")
_SPELLED: Final = re.compile(
    r"\b(?:zero|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|hundreds?|thousands?|millions?|"
    r"billions?|half|halves?|halved|thirds?|quarters?|twice|doubl\w*|tripl\w*|percent|tenfold|fold|points?)\b"
)
# What a sentence has to speak of where it refers to a result by such a key.
_ABOUT: Final[Sequence[tuple[str, str]]] = (
    (r"effect\.mean", r"mean|average|change|difference|effect|by"),
    (r"effect\.(?:low|high)", r"interval|confidence"),
    (r"effect\.p_value", r"p|probability|chance"),
    (r"effect\.", r"effect|rows?|shown|seen"),
    (r"mean\.", r"mean|average|over|from"),
    (r"units\.failed", r"fail\w*"),
    (r"units\.|unit_", r"units?|rows?|seeds?"),
    (r"(?:nodes|stage_\d+)\.(?:nodes|tried)", r"nodes?|programs?"),
    (r"(?:nodes|stage_\d+)\.buggy", r"buggy|fail\w*"),
    (r"stage_\d+\.", r"stage|node|program|search|finalists?|validation"),
    (r"ablation", r"ablations?|conditions?|pairs?|differences?|with|without"),
)
_ARM: Final = re.compile(r"\.(baseline|intervention|without|with)$")
# How a sentence names the programs of such results.
_ARMS: Final = (
    (frozenset({"baseline", "intervention"}), re.compile(r"\b(baseline|intervention)\b")),
    (frozenset({"without", "with"}), re.compile(r"\b(without|with)\b(?= (?:the intervention|it)\b)")),
)
_OBJECT: Final = re.compile(
    r"\b(?:than|over|against|to|with)(?: that of)?(?: the| its)? (?:baseline|program without)\b"
)
_QUESTION: Final = re.compile(
    r"^(?:we (?:ask|test|measure|consider)|this paper (?:asks|tests)|the question is|the claim (?:is|says)) "
    r"(?:whether|that) (?!.*\b(?:and|but|or|which|as|since|for|so)\b)[^,;:()–—]*$",
    re.IGNORECASE,
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
    ground = _Ground.of(record, usual, numbers)
    sections: dict[str, Sequence[str]] = {}
    removed: list[Removed] = []
    for name, generated in usual.sections.items():
        own = [each for each in prose.sections.get(name, ()) if each not in generated]
        kept = []
        for paragraph in own:
            good = []
            for sentence in _sentences(paragraph):
                why = GENERATED_WHY if name in GENERATED else ground.problem(sentence)
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


def _stem(word: str) -> str:
    """Return a word without its ending, crudely: both sides of a comparison are treated alike."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_MIN:
            return word.removesuffix(ending)
    return word


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, references left out."""
    return [each.lower() for each in _WORD.findall(_NOT.sub(" not", REFERENCE.sub(" ", text)))]


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(_stem, _words(text)))


_PLAIN_STEMS: Final = _stems(_PLAIN)
_ASSERTING: Final = frozenset({*_MOVES, *_GRADES, *_COMPARED})


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a sentence can be bound to: the words of this paper, its numbers, the works found, the verdict."""

    known: frozenset[str]
    numbers: Numbers
    works: Sequence[Work]
    conclusion: Conclusion
    metric: str
    selection: str

    @classmethod
    def of(cls, record: Record, usual: Prose, numbers: Numbers) -> _Ground:
        claim = record.claim
        texts = [claim.sentence, claim.metric.title, claim.selection.title, claim.data.title]
        texts += [text for section in usual.sections.values() for text in section]
        texts += [each.condition for each in ablations_of(record)]
        return cls(
            _PLAIN_STEMS | _stems(" ".join(texts)), numbers, record.works,
            record.verdicts.judgement.conclusion, claim.metric.name, claim.selection.name,
        )  # fmt: skip

    def problem(self, sentence: str) -> str | None:
        """Return why nothing supports a sentence; None if it asserts nothing, or is bound."""
        return next(self._problems(sentence), None)

    def _problems(self, sentence: str) -> Iterator[str]:
        words = _words(sentence)
        text = " ".join(words)
        keys = REFERENCE.findall(sentence)
        cited = [self.works[int(match[1])] for key in keys if (match := _WORK.fullmatch(key))]
        source = _stems(" ".join(f"{work.title} {work.abstract}" for work in cited))
        results = [key for key in keys if not _WORK.fullmatch(key)]
        for word in words:
            if word not in _ASSERTING and _stem(word) not in self.known | source:
                yield f"it speaks of {word!r}, which is neither of this run nor of a work that it cites"
        if (spelled := _SPELLED.search(text)) and _stem(spelled[0]) not in source:
            yield f"{spelled[0]!r} is a number in words; a number is referred to"
        yield from self._against_the_verdict(text)
        for kind, pattern in _BEYOND.items():
            yield from (
                f"{each[0]!r} asserts {kind}, which no result of a run shows, and no work that it cites says"
                for each in pattern.finditer(text)
                if not _stems(each[0]) <= source
            )
        if cited and not results:
            yield from self._beside_the_source(words, source)
            return
        if _FAILED.search(text) and not any("failed" in key or "buggy" in key for key in results):
            yield "it speaks of failures, and refers to no count of them"
        yield from self._misnamed(text, results)
        if _ASSERTING & {*words} and not _QUESTION.match(sentence):
            yield from self._unmeasured(text, words, results)

    def _against_the_verdict(self, text: str) -> Iterator[str]:
        wrong = (
            *(each for each in get_args(Conclusion) if each != self.conclusion),
            "refuted",
            "true",
            "false",
        )
        for word in wrong:
            if re.search(rf"\b{word}\b", text):
                yield f"it says {word!r}, and the verdict is {self.conclusion}"
        if re.search(rf"\b(?:not|hardly|barely)\b.*\b{self.conclusion}\b", text):
            yield f"it denies the verdict, which is {self.conclusion}"

    def _beside_the_source(self, words: Sequence[str], source: frozenset[str]) -> Iterator[str]:
        """Judge a sentence about works by the words of their titles and abstracts."""
        content = [each for each in words if each in _ASSERTING or _stem(each) not in _PLAIN_STEMS]
        foreign = [each for each in content if _stem(each) not in source]
        asserted = [each for each in foreign if each in _ASSERTING]
        if asserted or len(foreign) > (1 - OWN_SHARE_MIN) * len(content):
            yield f"{(asserted or foreign)[0]!r} is not in the title or abstract that it cites"

    def _misnamed(self, text: str, results: Sequence[str]) -> Iterator[str]:
        """Judge whether a sentence calls its results what they are."""
        for key in results:
            wanted = next((words for pattern, words in _ABOUT if re.match(pattern, key)), None)
            if wanted is not None and not re.search(rf"\b(?:{wanted})\b", text):
                yield f"it refers to {{{key}}}, and does not call it what it is ({wanted.replace('|', ', ')})"
        arms = [match[1] for key in results if (match := _ARM.search(key))]
        for family, named in _ARMS:
            if (wanted_arms := [each for each in arms if each in family]) and named.findall(
                text
            ) != wanted_arms:
                yield "it does not name the program of each result that it refers to, in their order"
        measured = {match[1] for key in results if (match := re.match(r"mean\.([a-z_]+)\.", key))}
        measured |= {self.metric for key in results if key.startswith("effect.")}
        if measured and (other := self._metrics_in(text) - measured):
            yield f"it speaks of the {METRICS[min(other)].title}, and refers to another measure"

    def _metrics_in(self, text: str) -> set[str]:
        stems = _stems(text)
        found = {name for name, each in METRICS.items() if _stems(each.title) <= stems}
        return found | ({"nll"} if "likelihood" in stems else set())

    def _unmeasured(self, text: str, words: Sequence[str], results: Sequence[str]) -> Iterator[str]:
        """Judge a comparison by the signs of the numbers that it refers to."""
        numbers = [self.numbers.numbers[key] for key in results if key in self.numbers.numbers]
        if {"not", "hardly", "barely"} & {*words}:
            yield "it denies a comparison, which cannot be read off a number"
        names = self._metrics_in(text)
        metric = METRICS[min(names) if len(names) == 1 else self.metric]
        up = 1 if metric.higher_is_better else -1
        signs = {_MOVES[each] for each in words if each in _MOVES}
        signs |= {up * _GRADES[each] for each in words if each in _GRADES}
        difference = _difference(numbers, is_from=bool(re.search(r"\bfrom\b.*\bto\b", text)))
        if difference is None or len(signs) != 1:
            yield "it compares, and refers to no one difference, or to no two results, that show it"
        elif difference * min(signs) <= 0:
            yield "it compares, and the numbers that it refers to show the opposite"
        if any(each.key.startswith("effect.") for each in numbers):
            if self.conclusion == "inconclusive":
                yield "it asserts an effect, and the verdict is inconclusive"
            if "baseline" in _OBJECT.sub(" ", text):
                yield "the effect is that of the intervention, and not of the baseline"
        elif re.search(r"\b(?:in)?significant", text):
            yield "only the effect was tested for significance"


def _difference(numbers: Sequence[Number], *, is_from: bool) -> float | None:
    """Return the one difference that numbers show: itself, or the first minus the second, as they are named."""
    measured = [
        each for each in numbers if not each.key.startswith(("effect.low", "effect.high", "effect.p"))
    ]
    differences = [each for each in measured if each.rule == "difference" or each.key == "effect.mean"]
    levels = [each for each in measured if each.rule == "same" and each not in differences]
    if len(differences) == 1:
        return differences[0].value
    if differences or len(levels) != 2 or len({_measure(each) for each in levels}) != 1:
        return None
    first, second = levels
    return second.value - first.value if is_from else first.value - second.value


def _measure(number: Number) -> str:
    """Return what is compared: two results must be of one kind."""
    return _ARM.sub("", re.sub(r"\d+", "", number.key))
