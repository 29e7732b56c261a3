"""Which effect a statement claims, and by which margin; pure.

Law: the negation of a move is that it is smaller than the margin: the one that is said, else the smallest
effect of interest of the measure. A size is taken in the measure's own unit, or refused.
"""

from __future__ import annotations

from typing import Final

from events.kinds.space.effect import Direction, Effect, EffectKind, better, opposite
from events.kinds.space.metrics import Metric
from events.kinds.space.refusal import quoted, refused
from events.kinds.space.sentences.statement import Margin, Statement
from events.runtime.errors import NotMeasurable

_POINTS: Final = ("point", "percentage point", "% point")


def effect_of(said: Statement, metric: Metric, direction: Direction) -> Effect:
    """Return what a statement claims of a measure that it moves in `direction`. Raises `NotMeasurable`."""
    is_negative = said.move.startswith("not ")
    if said.negation and is_negative:
        raise _undecided([said.negation], "a second negation; say what happens", said)
    negated, is_most = said.is_negated or is_negative, said.margin is not None and said.margin.bound == "most"
    size = None if said.margin is None else _size(said.margin, metric, said)
    if said.move in ("any", "none"):
        if said.move == "none" and negated:
            raise _undecided([said.negation], "a negation of “no change”; say what happens", said)
        if said.move == "any" and not negated and not is_most:
            raise _open(said)
        if is_most and (negated or said.move == "none"):
            raise _undecided([str(said.margin)], "a bound of what does not happen", said)
        return _within("equivalent", better(metric), metric, size, said)
    if not negated and not is_most:
        return Effect(metric, direction, margin=size or 0.0)
    if negated and is_most:
        raise _undecided([str(said.margin)], "a bound of what does not happen", said)
    return _within("not_inferior", opposite(direction), metric, size, said)


def _size(margin: Margin, metric: Metric, said: Statement) -> float:
    """Return a margin as a difference of the measure. Raises `NotMeasurable`."""
    words = [margin.words]
    if margin.size is None:
        raise _undecided(words, "no size that can be tested; say “by at least” so much", said)
    if not margin.bound:
        raise _undecided(words, "a size without a bound; say “at least” or “at most”", said)
    if margin.unit in _POINTS:
        if metric.most != 1.0:
            raise _undecided(words, f"in points, which the {metric.title} does not have", said)
        value = margin.size / 100.0
    elif margin.unit in ("", metric.unit):
        value = margin.size
    else:
        what = "a share, and may be one of the baseline’s value; say it in the unit of the measure"
        raise _undecided(words, what, said)
    if not 0 < value < metric.most:
        raise _undecided(words, f"no difference that the {metric.title} can have", said)
    return value


def _within(
    kind: EffectKind, direction: Direction, metric: Metric, size: float | None, said: Statement
) -> Effect:
    """Return an effect that is smaller than its margin. Raises `NotMeasurable` where no margin is known."""
    if size is not None:
        return Effect(metric, direction, kind, size)
    if metric.margin is None:
        words = [each.words for each in said.bound if each.role in ("negation", "direction")]
        what = f"without a size, and the {metric.title} has no default; say “by more than” so much"
        raise _undecided([" ".join(words)], what, said)
    return Effect(metric, direction, kind, metric.margin, is_default=True)


def _open(said: Statement) -> NotMeasurable:
    words = " ".join(each.words for each in said.bound if each.role == "direction")
    return refused(f"{quoted([words])} leaves the direction open: say up or down.", words=[words], near=said)


def _undecided(words: list[str], what: str, said: Statement) -> NotMeasurable:
    return refused(f"It is understood and not measured: {quoted(words)} is {what}.", words=words, near=said)
