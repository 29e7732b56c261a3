"""Checks that the reading of somebody else, such as a language model, binds every word; pure.

Law: the reader trusts a quotation of the sentence, and nothing more. Words that the lexicon knows keep their
meaning: a negation, a hedge or a size of the effect is measured by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED, DataSet
from events.kinds.space.metrics import METRICS, OF_CLASS, QUALITY, metric_of_class
from events.kinds.space.sentences.items import UNKNOWN, Item, items_of
from events.kinds.space.sentences.lexicon import ENTRIES, FOREIGN
from events.kinds.space.sentences.words import TEXT_MAX, plain

Field = Literal["intervention", "metric", "direction", "data", "condition"]
FIELDS: Final[tuple[Field, ...]] = ("intervention", "metric", "direction", "data", "condition")
_UNDECIDED: Final = {"n": "a negation", "h": "a hedge", "m": "a size of the effect"}
_COMPARING: Final = "cCsrR"
_REMOVING: Final = "xX"
_KNOWN: Final = (*ENTRIES, *FOREIGN)


def binding_problems(sentence: str, quotes: Mapping[Field, Sequence[str]], claim: Claim) -> list[str]:
    """Return why the quotations do not bind the sentence to the claim; nothing where they do."""
    if len(sentence) > TEXT_MAX:
        return [f"the sentence has over {TEXT_MAX:,} characters"]
    words = plain(sentence).split()
    owner: list[Field | None] = [None] * len(words)
    problems: list[str] = []
    for field, parts in quotes.items():
        for part in parts:
            place = _place_of(plain(part).split(), words)
            if place is None:
                problems.append(f"“{part[:80]}” is no part of the sentence")
            elif any(each not in (None, field) for each in owner[place]):
                problems.append(f"“{part[:80]}” is bound twice")
            else:
                owner[place] = [field] * (place.stop - place.start)
    return problems or [*_unbound(words, owner), *_disagreements(words, owner, claim)]


def _place_of(part: Sequence[str], words: Sequence[str]) -> slice | None:
    size = len(part)
    found = (at for at in range(len(words) - size + 1) if words[at : at + size] == part)
    first = next(found, None) if size else None
    return None if first is None else slice(first, first + size)


def _unbound(words: Sequence[str], owner: Sequence[Field | None]) -> Iterator[str]:
    """Yield the words that no quotation has and that are no fillers."""
    left = " ".join(word for word, field in zip(words, owner, strict=True) if field is None)
    named = [each.words for each in items_of(left) if each.sign not in "_uw" or each.sign == UNKNOWN]
    if named:
        yield f"not bound: {', '.join(f'“{each}”' for each in named)}"


def _disagreements(words: Sequence[str], owner: Sequence[Field | None], claim: Claim) -> Iterator[str]:
    """Yield where the quoted words mean something else to the lexicon."""
    yield from _lost(words, claim)
    for item in _items(" ".join(words)):
        if item.sign in _UNDECIDED:
            yield f"“{item.words}” is {_UNDECIDED[item.sign]}"
        if (
            item.sign == "N"
            and f" {item.words} " not in f" {plain(claim.subject)} "
            and not _is_rows(item, claim)
            and item.words != claim.metric.of_class
        ):
            yield f"“{item.words}” is not in the subject"
        if item.sign == "F" and item.parts.get("rows") != str(claim.train_examples):
            yield f"“{item.words}” is not what is trained on"
        if item.sign == "D" and not _is_of(item, claim.data):
            yield f"“{item.words}” is not {claim.data.title}"
    bound = {field: _items_in(words, owner, field) for field in FIELDS}
    named = " ".join(word for word, field in zip(words, owner, strict=True) if field == "metric")
    for item in bound["metric"]:
        if item.sign == "M" and not _fits(item, claim):
            yield f"“{item.words}” is not the {claim.metric.title}"
    if f" {claim.metric.of_class} " not in f" {named}  ":
        yield f"no word that is bound to the metric names class {claim.metric.of_class}"
    if not bound["intervention"]:
        yield "no word of the sentence is bound to the intervention"
    if not bound["direction"]:
        yield "no word of the sentence is bound to the direction"
    if claim.train_examples is not None and not bound["condition"]:
        yield "no word of the sentence is bound to the rows to train on"
    yield from _turned(bound, claim)


def _lost(words: Sequence[str], claim: Claim) -> Iterator[str]:
    """Yield what the sentence tries, compares with or removes, and the subject does not name."""
    said, subject = (_items(text) for text in (" ".join(words), plain(claim.subject)))
    tried = {each.meaning for each in subject if each.sign == "I"}
    signs = {each.sign for each in subject}
    for item in said:
        if item.sign == "I" and item.meaning not in tried:
            yield f"“{item.words}” is not in the subject"
        if item.sign in _COMPARING and not signs & {*_COMPARING}:
            yield f"“{item.words}” compares, and the subject does not name with what"
        if item.sign in _REMOVING and not signs & {*_REMOVING, "n"}:
            yield f"“{item.words}” removes, and the subject does not say so"


def _turned(bound: Mapping[Field, Sequence[Item]], claim: Claim) -> Iterator[str]:
    """Yield the words of direction that say the opposite of the claim."""
    inverse = any(each.sign == "M" and _is_inverse(each, claim) for each in bound["metric"])
    for item in bound["direction"]:
        if item.sign != "E":
            continue
        move = item.meaning.rstrip("*?")
        is_open = item.meaning.endswith("?") and not claim.metric.higher_is_better and not inverse
        if is_open or move not in ("good", "bad", "up", "down"):
            yield f"“{item.words}” names no direction"
            continue
        is_up = (
            (move == "good") == claim.metric.higher_is_better
            if move in ("good", "bad")
            else (move == "up") != inverse
        )
        if is_up != (claim.direction == "increase"):
            yield f"“{item.words}” says the opposite"


def _items_in(words: Sequence[str], owner: Sequence[Field | None], wanted: Field) -> list[Item]:
    return _items(" ".join(word for word, field in zip(words, owner, strict=True) if field == wanted))


def _items(text: str) -> list[Item]:
    """Return the items of a text, of which those that turn a meaning are known in other languages too."""
    return items_of(text, _KNOWN)


def _fits(item: Item, claim: Claim) -> bool:
    name = item.meaning.removeprefix("-")
    if claim.metric.of_class:
        known_class = item.parts.get("of", claim.metric.of_class)
        return metric_of_class(name, known_class) == claim.metric if name in OF_CLASS else False
    if item.parts:
        return False
    known = {"quality": QUALITY[claim.task].name, "error": QUALITY[claim.task].name}
    known["loss"] = METRICS["nll" if claim.task == "classification" else "rmse"].name
    return known.get(name, name) == claim.metric.name


def _is_of(item: Item, data: DataSet) -> bool:
    """Return whether a phrase for data means these: by their name, or as what the run names itself."""
    return bool(data.location) if item.meaning not in SHIPPED else item.meaning == data.name


def _is_inverse(item: Item, claim: Claim) -> bool:
    return item.meaning.startswith("-") or (item.meaning == "error" and claim.metric.higher_is_better)


def _is_rows(item: Item, claim: Claim) -> bool:
    return claim.train_examples is not None and item.words.split()[0] == str(claim.train_examples)
