"""Parses an idea's words as a claim of the declared space: an intervention moves a metric in a direction.

Pure. Law: what the text leaves open is filled in visibly (`notes`), and a measure that does not exist here
is refused with a list of those that do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from events.kinds.idea import Idea
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import DEFAULT, SHARES, SHIPPED, DataSet
from events.kinds.space.effects import read_effect
from events.kinds.space.interventions import INTERVENTIONS, Intervention
from events.kinds.space.limits import beyond
from events.kinds.space.mentions import Mention, mentions, plain
from events.kinds.space.recipe import described, shown

FEW_ROWS: Final = range(24, 301)  # how many "few training examples" may be
ROWS_MIN: Final = 10  # to train on, whatever the text says


@dataclass(frozen=True, slots=True)
class Understood:
    """An idea as the built-in researcher reads it: the claim, and the intervention of the declared space."""

    claim: Claim
    intervention: Intervention


_DATASET_WORDS: Final = (
    ("breast_cancer", r"breast ?cancer|wdbc"),
    ("digits", r"digits?(?: data ?set)?|hand ?written digits?"),
    ("wine", r"wines?"),
    ("iris", r"iris(?:es)?"),
    ("diabetes", r"diabetes|diabetic"),
    ("diabetes", r"(?<!logistic )(?<!softmax )regression(?: tasks?| problems?)?(?! error)"),
)
_FOREIGN_DATASETS: Final = (
    r"(?:fashion ?|e ?|k ?)?mnist|cifar ?\d*|(?:tiny ?)?image ?net\w*|svhn|coco|celeb ?a|glue|superglue|squad|wiki ?text\w*|c4|imdb"
    r"|ag ?news|penn tree ?bank|librispeech|ogbn?\w*|california housing|boston housing|adult census|covertype|kitti|ade20k|openwebtext"
    r"|wine quality|pima(?: indians?)?(?: diabetes)?|titanic|olivetti|(?:20 ?)?newsgroups"
)
_COUNTED: Final = (
    r"(\d{1,5}) (?:(?!percent)\w+ ){0,2}?(?:examples|samples|images|rows|(?:training|data) points)"
    r"|(?:only|just|with) (\d{1,5}) (?:\w+ )?labels"
)
_SHARE: Final = r"(\d{1,2}(?:\.\d+)?) ?(?:%|percent) of (?:the |its |all )?(?:training |labell?ed )?(?:data|examples|samples|images|rows|set)"
_FEW: Final = (
    r"(?:small|tiny) (?:training (?:data(?: ?sets?)?|sets?)|samples)|(?:little|limited|scarce) (?:training |labell?ed )?data"
    r"|(?:few|limited|scarce) (?:training |labell?ed )?(?:examples|samples|labels|images)|low data|few shot|data scarc\w+"
    r"|(?:training )?data (?:is|are) (?:scarce|limited)|(?:examples|samples|labels) are (?:scarce|few|limited)"
)
_SMALL: Final = (
    r"(?:small|tiny|little) data(?: ?sets?)?"  # some data sets that are named are small by themselves
)
_REMOVAL: Final = (
    r"remov(?:ing|al of)|dropping|disabling|omitting|eliminating|turning off|switching off|leaving out|without|no"
    r"|ablating|absence of|lack of|weaker|less|lower|lowering|smaller|reduced|reducing|decreased|decreasing"
)
_REMOVED: Final = r"(?:is|are|was|were|being|gets?) (?:removed|omitted|disabled|eliminated|left out|turned off|switched off|taken away|ablated|missing|absent)"
_USE: Final = r"adding|using|applying|introducing|increasing|more|stronger|higher|larger|greater|raising|employing|training with"
_INSTEAD: Final = (
    r"(?:instead of|in place of|rather than|than|than with|than those (?:trained )?with|over|versus|vs|against|unlike|(?:switch|mov|go|chang|shift|step)\w* (?:over |away )?from|compared (?:to|with)"
    r"|relative to|replacing|swapping|exchanging|outperforms?|beats?|surpass(?:es)?|exceeds?)"
)
_REPLACED: Final = r"(?:is|are|was|were|being) (?:replaced|swapped|exchanged) (?:by|with|for)"


def understand(idea: Idea, wanted: DataSet | None = None) -> Understood:
    """Return the claim of `idea`; `wanted` overrules its words about data.

    Raises `PipelineError` with the code CONFIG and the list of what is known, where no claim that can be
    measured was found.
    """
    texts = [text for text in map(plain, _fields(idea)) if text]
    found = next((hit for hit in map(_intervention, texts) if hit), None)
    if found is None:
        raise beyond("The idea names no intervention that the built-in researcher knows.")
    intervention, blanked, notes = found
    texts = [blanked, *texts]  # its own words, such as "higher learning rate", say nothing of the metric
    if wanted is None and (file := file_named_in(idea)) is not None:
        raise beyond(f"The idea points to the file {file}: give it as `dataset`, and its rows are read.")
    data = wanted or _data_set(texts, notes)
    _check_needs(intervention, data)
    effect = read_effect(texts, data.task, notes)
    claim = Claim(
        subject=intervention.title,
        metric=effect.metric,
        direction=effect.direction,
        data=data,
        train_examples=_train_examples(texts, data, notes),
        notes=tuple(notes),
    )
    return Understood(claim, intervention)


def file_named_in(idea: Idea) -> str | None:
    """Return the file of data, as `dataset` takes it, that the idea's own claim points to."""
    for text in (idea.short_hypothesis, idea.title):
        found = re.search(
            r"(?<!\S)[\"'`(]*([\w./~+-]+\.(?:csv(?:\.gz)?|npz|parquet)(?:#[\w-]+)?)(?!\w|\.\w)", text, re.I
        )
        if found:
            return found[1]
    return None


def _fields(idea: Idea) -> Iterator[str]:
    """Yield the texts of an idea, the most binding one first."""
    experiments = idea.experiments if isinstance(idea.experiments, str) else ". ".join(idea.experiments)
    yield from (idea.short_hypothesis, idea.title, idea.name, idea.abstract, experiments)


def _intervention(text: str) -> tuple[Intervention, str, list[str]] | None:
    """Return the intervention that `text` is about, and the text without the words that name it."""
    named = _interventions_in(text)
    if not named:
        return None
    rivals = [each for each in named if _is_rival(text, each)]
    first = next((each for each in named if each not in rivals), None)
    if first is None:
        raise beyond(
            f"The idea names {INTERVENTIONS[named[0].name].title} as what it compares with, and nothing that "
            "the built-in researcher knows to compare it to."
        )
    chosen = INTERVENTIONS[first.name]
    notes: list[str] = []
    for other in (INTERVENTIONS[mention.name] for mention in named if mention != first):
        if chosen.competes_with(other):
            chosen = chosen.instead_of(other)
            break
    chosen = _at_its_strength(text, first, chosen, notes)
    if _preceded(text, first, _REMOVAL) or _followed(text, first, _REMOVED):
        chosen = chosen.reversed()
        notes.append(f"The idea takes something away: the baseline has {described(chosen.off)}.")
    unused = {INTERVENTIONS[mention.name].title for mention in named} - {INTERVENTIONS[first.name].title}
    unused = {title for title in unused if title not in chosen.title}
    if unused:
        notes.append(f"The idea also names {', '.join(sorted(unused))}; only the first is tested.")
    return chosen, _blanked(text, named), notes


def _interventions_in(text: str) -> list[Mention]:
    """Return every intervention named in `text`, in order; an earlier entry of the space wins an overlap."""
    found: list[Mention] = []
    for intervention in INTERVENTIONS.values():
        hits = (
            Mention(hit.start(), hit.end(), intervention.name) for hit in mentions(intervention.words, text)
        )
        found.extend([hit for hit in hits if not any(hit.overlaps(each) for each in found)])
    return sorted(found, key=lambda mention: mention.start)


def _is_rival(text: str, mention: Mention) -> bool:
    """Return whether what is mentioned is what the idea compares with."""
    return _preceded(text, mention, _INSTEAD) or _followed(text, mention, _REPLACED)


def _preceded(text: str, mention: Mention, words: str) -> bool:
    return (
        re.search(rf"\b(?:{words}) (?:(?:the|a|an|any|use of|plain|amount of) )*$", text[: mention.start])
        is not None
    )


def _followed(text: str, mention: Mention, words: str) -> bool:
    return re.match(rf" (?:{words})\b", text[mention.end :]) is not None


def _at_its_strength(
    text: str, mention: Mention, intervention: Intervention, notes: list[str]
) -> Intervention:
    """Return the intervention at the strength that stands at its mention; notes one that cannot be tried."""
    value = _number_at(text, mention)
    knob = intervention.knob
    if value is None or (knob is None and len(intervention.strengths) == 1):
        return intervention
    if knob is not None and knob.low <= value <= knob.high:
        return intervention.pinned(value)
    tried = "; ".join(described(changes) for changes in intervention.strengths)
    notes.append(f"The idea names {shown(value)} for {intervention.title}; what is tried instead: {tried}.")
    return intervention


def _number_at(text: str, mention: Mention) -> float | None:
    """Return the number in, behind or before a mention."""
    number = r"(\d*\.?\d+) ?(%|percent)?"
    after = re.match(
        rf" (?:from \S+ (?=to ))?(?:(?:rate|probability|of|at|p|alpha|epsilon|sigma|strength|decay|with|a|size|to) )*{number}(?!\w)",
        text[mention.end :],
    )
    before = re.search(rf"(?<!\S){number} (?:members? )?$", text[: mention.start])
    inside = re.search(rf"(?<!\S){number}(?!\w)", text[mention.start : mention.end])
    match = after or inside or before
    return float(match[1]) / (100.0 if match[2] else 1.0) if match else None


def _blanked(text: str, named: list[Mention]) -> str:
    """Return `text` without the interventions and the words of degree before them."""
    for mention in reversed(named):
        head = re.sub(
            rf"\b(?:{_USE}|{_REMOVAL})(?: (?:the|a|an|use of|amount of))? $", "", text[: mention.start]
        )
        tail = re.sub(rf"^ {_REMOVED}\b", "", text[mention.end :])
        text = f"{head}_ {tail.lstrip()}"
    return text


def _data_set(texts: list[str], notes: list[str]) -> DataSet:
    for text in texts:
        foreign = [Mention(hit.start(), hit.end(), hit[0]) for hit in mentions(_FOREIGN_DATASETS, text)]
        known = [
            Mention(hit.start(), hit.end(), name)
            for name, words in _DATASET_WORDS
            for hit in mentions(words, text)
        ]
        known = [each for each in known if not any(each.overlaps(other) for other in foreign)]
        if foreign and (not known or any("mnist" in each.name for each in foreign)):
            raise beyond(f"The data set {foreign[0].name!r} is not at hand.")
        if known:
            first = min(known, key=lambda each: each.start)
            others = {each.name for each in (*known, *foreign)} - {first.name}
            if others:
                rest = ", ".join(sorted(name.replace("_", " ") for name in others))
                notes.append(f"The idea also names {rest}; only {SHIPPED[first.name].title} is used.")
            return SHIPPED[first.name]
    notes.append(f"The idea names no data set; {DEFAULT.title} is used.")
    return DEFAULT


def _check_needs(intervention: Intervention, data: DataSet) -> None:
    if "images" in intervention.needs and data.image_side is None:
        raise beyond(
            f"{intervention.title} needs images, and {data.title} has none; the data set digits has."
        )
    if "classes" in intervention.needs and data.task != "classification":
        classes = ", ".join(sorted(name for name, each in SHIPPED.items() if each.task == "classification"))
        raise beyond(f"{intervention.title} needs classes, and {data.title} has none; try {classes}.")


def _train_examples(texts: list[str], data: DataSet, notes: list[str]) -> int | None:
    """Return how many rows the idea wants to train on; None where it does not name a number."""
    is_unnamed = not any(next(mentions(words, text), None) for _, words in _DATASET_WORDS for text in texts)
    for text in texts:
        for counted in mentions(_COUNTED, text):
            if re.search(r"\bbatch(?:es| size)?(?: size)?(?: of)? $", text[: counted.start()]) is None:
                return _at_hand(int(counted[1] or counted[2]), data, notes)
        share = next(mentions(_SHARE, text), None)
        if share:
            return _at_hand(round(data.rows * float(share[1]) / 100), data, notes)
        if next(mentions(_FEW, text), None) or (is_unnamed and next(mentions(_SMALL, text), None)):
            rows = min(max(data.rows // 6, FEW_ROWS.start), FEW_ROWS.stop - 1)
            notes.append(f"The idea speaks of few examples; {rows} are trained on.")
            return rows
    return None


def _at_hand(wanted: int, data: DataSet, notes: list[str]) -> int | None:
    """Return how many rows can be trained on; None for all that there are."""
    there = int(data.rows * SHARES["train"])
    if wanted < there:
        return max(ROWS_MIN, wanted)
    notes.append(
        f"The idea wants {wanted} training examples; there are {there} to train on, and all are used."
    )
    return None
