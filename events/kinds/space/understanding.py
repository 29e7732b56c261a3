"""Reads an idea as a claim of the declared space: an intervention moves a metric in a direction.

Pure. Law: every word of the hypothesis is bound, and what is said is what is measured; else it is refused,
with the words that stand in the way. What it leaves open is filled in visibly (`notes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from events.kinds.idea import Idea
from events.kinds.space.beside import contradictions, named_beside
from events.kinds.space.claim import Claim
from events.kinds.space.comparison import Impossible, comparison_of
from events.kinds.space.data_sets import DEFAULT, SHARES, SHIPPED, DataSet
from events.kinds.space.effect import Direction, Effect
from events.kinds.space.interventions import Intervention
from events.kinds.space.margin import effect_of
from events.kinds.space.metrics import METRICS, OF_CLASS, QUALITY, Metric, metric_of_class
from events.kinds.space.refusal import quoted, refused
from events.kinds.space.sentences.grammar import Unread, readable_part, statement_of
from events.kinds.space.sentences.items import UNKNOWN, Item, items_of
from events.kinds.space.sentences.lexicon import ENTRIES, FILE, GIVEN, Entry, named_data
from events.kinds.space.sentences.statement import Measure, Role, Statement
from events.kinds.space.sentences.words import TEXT_MAX, WORDS_MAX, plain
from events.runtime.errors import NotMeasurable

ROWS_MIN: Final = 10  # to train on, and two of each class
_FILE: Final = re.compile(
    r"(?<!\S)[\"'`(]*([\w./~+-]+\.(?:csv(?:\.gz)?|npz|parquet)(?:#[\w-]+)?)(?!\w|\.\w)[\"'`)]*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Understood:
    """An idea as it is measured: the claim, and the intervention of the declared space."""

    claim: Claim
    intervention: Intervention


def understand(idea: Idea, wanted: DataSet | None = None) -> Understood:
    """Return the claim of `idea`; `wanted` is the data set that its run names. Raises `NotMeasurable`."""
    if len(idea.short_hypothesis) > TEXT_MAX:
        raise refused(f"A claim has at most {TEXT_MAX:,} characters.")
    files = list(dict.fromkeys(_FILE.findall(idea.short_hypothesis)))
    if len(files) > 1:
        raise refused(f"It names several files of data: {quoted(files)}.", words=files)
    text = _text(idea.short_hypothesis)
    if text.count(" ") >= WORDS_MAX:
        raise refused(f"A claim has at most {WORDS_MAX} words.")
    items = items_of(text, _entries(wanted))
    found = statement_of(items)
    if isinstance(found, Unread):
        what = "It is more than one claim, or no whole one, with" if found.is_known else "Not understood:"
        reason = f"{what} {quoted(found.words)}." if found.words else "It says nothing."
        raise refused(reason, words=found.words, near=readable_part(items))
    return _measured(found, idea, wanted)


def statement_in(text: str) -> Statement | Unread:
    """Return what a sentence says, or the words that are not understood in it."""
    return statement_of(items_of(_text(text)))


def file_named_in(idea: Idea) -> str | None:
    """Return the file of data, as `dataset` takes it, that the idea's own claim points to."""
    found = (_FILE.search(text[:TEXT_MAX]) for text in (idea.short_hypothesis, idea.title))
    return next((each[1] for each in found if each), None)


def _text(text: str) -> str:
    """Return plain words with one word for the first file that is named; another is a word like others."""
    text = text[:TEXT_MAX]
    first = _FILE.search(text)
    return plain(_FILE.sub(lambda found: FILE if first and found[1] == first[1] else found[0], text))


def _entries(wanted: DataSet | None) -> Sequence[Entry]:
    """Return the lexicon, with the name of the user's own data unless its words mean something else."""
    name = plain(wanted.title) if wanted is not None and wanted.location else ""
    is_name = any(each.sign in (UNKNOWN, "D") for each in items_of(name))
    return (named_data(name), *ENTRIES) if is_name else ENTRIES


def _measured(said: Statement, idea: Idea, wanted: DataSet | None) -> Understood:
    """Return a statement as a claim that can be measured. Raises `NotMeasurable`."""
    for each in (said, *said.also):
        _check_is_decided(each)
    notes: list[str] = []
    beside = named_beside(idea)
    data = _data_of(said, idea, wanted, beside["D"], notes)
    try:
        intervention = comparison_of(said.arm, said.against)
    except Impossible as error:
        reason = f"It cannot be tried as it is said: {error}."
        raise _refused(reason, said, "intervention", "comparator") from error
    _check_needs(intervention, data, said)
    claim = Claim(
        subject=intervention.title,
        effects=tuple(_effects_of(said, data, beside["M"], notes)),
        data=data,
        train_examples=_rows_of(said, data),
    )
    claim = replace(claim, notes=(*notes, *contradictions(idea, beside, said, claim)))
    return Understood(claim, intervention)


def _check_is_decided(said: Statement) -> None:
    """Refuse what no measurement decides."""
    more = "" if said.is_negated else said.negation
    for words, what in (
        (more, "a negation of more than the effect; say what happens"),
        (said.hedge, "a hedge; say what happens, without it"),
    ):
        if words:
            reason = f"It is understood and not measured: {quoted([words])} is {what}."
            raise refused(reason, words=[words], near=said)


def _effects_of(said: Statement, data: DataSet, beside: Sequence[Item], notes: list[str]) -> Iterator[Effect]:
    """Yield what a statement claims of each of its measures. Raises `NotMeasurable`."""
    known: set[str] = set()
    for each in (said, *said.also):
        metric, measure = _metric_of(each, data, beside, notes)
        if metric.name in known:
            raise _refused(f"It says two things of the {metric.title}.", each, "metric", "direction")
        known.add(metric.name)
        effect = effect_of(each, metric, _direction_of(each, measure, metric))
        rows = round(data.open_rows * SHARES["test"])
        if effect.kind == "equivalent" and metric.counts_rows and effect.margin * rows < 1:
            notes.append(
                f"Of the {rows} rows that judge, one is more than {effect.size}, so this cannot be shown."
            )
        yield effect


def _data_of(
    said: Statement, idea: Idea, wanted: DataSet | None, beside: Sequence[Item], notes: list[str]
) -> DataSet:
    if wanted is not None:
        _check_is_wanted(said, idea, wanted)
        return wanted
    if said.data == FILE:
        file = str(file_named_in(idea))
        raise refused(f"It names the file {file}: give it as `dataset`.", words=[file], near=said)
    if said.data == GIVEN:
        raise _refused("It speaks of data that it does not name: give them as `dataset`.", said, "data")
    if said.data:
        return SHIPPED[said.data]
    known = dict.fromkeys(each.meaning for each in beside if each.meaning in SHIPPED)
    if len(known) > 1:
        raise refused(
            f"The hypothesis names no data set, and the texts beside it several: {', '.join(known)}.",
            near=said,
        )
    if known:
        found = SHIPPED[next(iter(known))]
        notes.append(f"It names no data set; {found.title} is used, which is named beside it.")
        return found
    notes.append(f"It names no data set; {DEFAULT.title} is used.")
    return DEFAULT


def _check_is_wanted(said: Statement, idea: Idea, wanted: DataSet) -> None:
    """Refuse words that name other data than the run. Raises `NotMeasurable`."""
    named = said.data
    if named == FILE:
        fits = _is_file(file_named_in(idea) or "", wanted)
    else:
        fits = named in ("", GIVEN) or (not wanted.location and named == wanted.name)
    if not fits:
        told = file_named_in(idea) if named == FILE else named
        raise refused(
            f"It is about {told}, and `dataset` names {wanted.title}.", words=[str(told)], near=said
        )


def _is_file(named: str, wanted: DataSet) -> bool:
    """Return whether a file is the wanted one, as far as both say its folder and what is predicted."""
    path, _, target = named.partition("#")
    mine, theirs = (PurePath(each).parts[::-1] for each in (path, wanted.location))
    return all(map(str.__eq__, mine, theirs)) and bool(mine) and target in ("", wanted.target or target)


def _check_needs(intervention: Intervention, data: DataSet, said: Statement) -> None:
    if "images" in intervention.needs and data.image_side is None:
        raise _refused(
            f"{intervention.title} needs images, and {data.title} has none; digits has.", said, "intervention"
        )
    if "classes" in intervention.needs and data.task != "classification":
        raise _refused(
            f"{intervention.title} needs classes, and {data.title} has none.", said, "intervention"
        )


def _metric_of(
    said: Statement, data: DataSet, beside: Sequence[Item], notes: list[str]
) -> tuple[Metric, Measure]:
    """Return what is measured, and the word for it. Raises `NotMeasurable`."""
    quality = QUALITY[data.task]
    measure = said.measure
    if measure is None:
        named = dict.fromkeys(each.meaning for each in beside if each.meaning in METRICS)
        metric = METRICS[next(iter(named))] if len(named) == 1 else quality
        notes.append(f"It names no metric; {metric.title} is measured.")
        measure = Measure("quality" if metric is quality else metric.name)
    elif measure.k:
        raise _refused(f"It is understood and not measured: “{_words_of(said, 'metric')}”.", said, "metric")
    elif measure.name in OF_CLASS:
        metric = _metric_of_class(said, measure, data, notes)
    elif measure.name == "quality":
        notes.append(f"It speaks of quality in general; {quality.title} is measured.")
        metric = quality
    elif measure.name == "error":
        metric, measure = quality, Measure(quality.name, inverse=quality.higher_is_better)
    elif measure.name == "loss":
        metric = METRICS["nll" if data.task == "classification" else "rmse"]
    else:
        metric = METRICS[measure.name]
    if data.task not in metric.tasks:
        kind = "classes" if "classification" in metric.tasks else "values"
        raise _refused(
            f"The {metric.title} needs {kind} to predict, and {data.title} has none.", said, "metric"
        )
    return metric, measure


def _metric_of_class(said: Statement, measure: Measure, data: DataSet, notes: list[str]) -> Metric:
    """Return the measure of one class. Raises `NotMeasurable` for a class that the data lack."""
    title, words = OF_CLASS[measure.name].title, measure.of_class
    if not words:
        raise _refused(f"It does not say of which class: say “{title} …”.", said, "metric")
    known = class_words(data.classes)
    if known and known.count(words) != 1:
        has = "two of that name" if words in known else f"{', '.join(known)}"
        raise _refused(f"{data.title} has no one class {words}: its classes are {has}.", said, "metric")
    metric = metric_of_class(measure.name, words)
    if any(each.role == "metric" and each.words.startswith(("accuracy", "error")) for each in said.bound):
        notes.append(
            f"Measured is the recall of class {words}: the share of its rows that is answered right."
        )
    return metric


def class_words(classes: Sequence[str]) -> list[str]:
    """Return the names of classes as a claim says them: in plain words, without the word class."""
    return [plain(each).removeprefix("class ").removesuffix(" .") for each in classes]


def _direction_of(said: Statement, measure: Measure, metric: Metric) -> Direction:
    move = said.move.removeprefix("not ")
    if move in ("good", "bad") or measure.name == "quality":
        is_better = move in ("good", "up")
        return "increase" if is_better == metric.higher_is_better else "decrease"
    return "increase" if (move == "up") != measure.inverse else "decrease"


def _rows_of(said: Statement, data: DataSet) -> int | None:
    """Return how many rows are trained on; None for all that there are. Raises `NotMeasurable`."""
    there = int(data.open_rows * SHARES["train"])
    if said.share is not None and data.location:
        raise _refused("A share of the rows of a file is not measured: say how many.", said, "condition")
    wanted = said.rows if said.share is None else round(there * min(said.share, 1e3) / 100.0)
    least = max(ROWS_MIN, 2 * data.outputs)
    if wanted is not None and not least <= wanted <= there:
        reason = f"{data.title} has {there} rows to train on, and at least {least} are needed."
        raise _refused(reason, said, "condition")
    return wanted


def _refused(reason: str, said: Statement, *roles: Role) -> NotMeasurable:
    """Return the refusal of a statement for the words of some of its fields."""
    words = [words for role in roles if (words := _words_of(said, role))]
    return refused(reason, words=words, near=said)


def _words_of(said: Statement, role: Role) -> str:
    return " ".join(each.words for each in said.bound if each.role == role)
