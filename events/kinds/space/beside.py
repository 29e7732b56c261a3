"""What the texts beside a hypothesis name: it fills in what is left open, or contradicts the claim; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from events.kinds.idea import Idea
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.metrics import OF_CLASS, QUALITY, metric_of_class
from events.kinds.space.sentences.arms import arms_in, value_of
from events.kinds.space.sentences.grammar import Unread, statement_of
from events.kinds.space.sentences.items import Item, items_of
from events.kinds.space.sentences.lexicon import NAMING
from events.kinds.space.sentences.statement import Arm, Statement
from events.kinds.space.sentences.words import WORDS_MAX, plain

BESIDE_MAX: Final = 200  # words of each text


def named_beside(idea: Idea) -> Mapping[str, Sequence[Item]]:
    """Return by sign the data and the metrics in the first of the other texts of an idea that names any."""
    found: dict[str, Sequence[Item]] = {"D": (), "M": ()}
    for text in _texts(idea):
        items = items_of(text, NAMING)
        found = {sign: seen or [each for each in items if each.sign == sign] for sign, seen in found.items()}
    return found


def contradictions(
    idea: Idea, beside: Mapping[str, Sequence[Item]], said: Statement, claim: Claim
) -> Iterator[str]:
    """Yield what the other texts of an idea say against the claim of its hypothesis, which is measured."""
    data = [each.meaning for each in beside["D"] if each.meaning in SHIPPED]
    if data and claim.data.name not in data:
        yield f"The texts beside it name {', '.join(dict.fromkeys(data))}; {claim.data.title} is used."
    metrics = beside["M"]
    if metrics and not claim.metrics & {_metric_of(each, claim) for each in metrics}:
        named = ", ".join(dict.fromkeys(each.words for each in metrics))
        yield f"The texts beside it name {named}; {claim.metric.title} is measured."
    if idea.title and _is_another(plain(idea.title), said):
        yield "The title says something else than the hypothesis; the hypothesis is measured."


def _is_another(title: str, said: Statement) -> bool:
    if title.count(" ") >= WORDS_MAX:
        return False
    items = items_of(title)
    stated = statement_of(items)
    if not isinstance(stated, Unread):
        return not _is_alike(said, stated)
    own = [said.arm, *([said.against] if isinstance(said.against, Arm) else [])]
    arms = [each.arm for each in arms_in(items) if each.arm is not None]
    mine = {*_numbers(own), said.against}
    theirs = {*_numbers(arms), *(value_of(each) for each in items if each.sign == "N")}
    return not {each.name for each in arms} <= {each.name for each in own} or not theirs <= mine


def _numbers(arms: Sequence[Arm]) -> set[float | None]:
    return {number for each in arms for number in (each.value, each.from_value)} | {None}


def _is_alike(one: Statement, other: Statement) -> bool:
    """Return whether a title differs in the words for metric and direction at most, or names no size."""
    mine, theirs = ((each.arm, each.against, each.negation, each.rows, each.share) for each in (one, other))
    moves = {one.move, other.move}
    is_opposite = moves == {"good", "bad"} or (moves == {"up", "down"} and one.measure == other.measure)
    return mine == theirs and not is_opposite and (other.margin is None or _size(one) == _size(other))


def _size(said: Statement) -> tuple[str, float | None, str] | None:
    return None if said.margin is None else (said.margin.bound, said.margin.size, said.margin.unit)


def _metric_of(item: Item, claim: Claim) -> str:
    name, quality = item.meaning.removeprefix("-"), QUALITY[claim.task].name
    if name in OF_CLASS and "of" in item.parts:
        return metric_of_class(name, item.parts["of"]).name
    loss = "nll" if claim.task == "classification" else "rmse"
    return {"error": quality, "quality": quality, "loss": loss}.get(name, name)


def _texts(idea: Idea) -> Iterator[str]:
    experiments = idea.experiments if isinstance(idea.experiments, str) else ". ".join(idea.experiments)
    for text in (idea.title, idea.name, idea.abstract, experiments):
        yield " ".join(plain(text).split(" ", BESIDE_MAX)[:BESIDE_MAX])
