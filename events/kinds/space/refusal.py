"""The refusal of a claim: the reason, what can be measured, the nearest claims; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from events.kinds.space.data_sets import DEFAULT, SHIPPED
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.metrics import METRICS, OF_CLASS, QUALITY, Metric
from events.kinds.space.sentences.statement import Arm, Statement
from events.runtime.errors import NotMeasurable

NEAREST_MAX: Final = 3
WORDS_MAX: Final = 10  # that a message repeats
WORD_CHARS_MAX: Final = 80
ALIKE: Final = 0.75  # of the letters of a word and of a title's word
BEYOND: Final = (
    "With `researcher: model` a pod that has a language model may read what this reader cannot: "
    "one with OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY."
)
MEASURABLE: Final[Mapping[str, Sequence[str]]] = {
    "interventions": [each.title for each in INTERVENTIONS.values()],
    "metrics": [each.title for each in (*METRICS.values(), *OF_CLASS.values())],
    "data_sets": sorted(SHIPPED),
}


def known_space() -> str:
    """Return the interventions, metrics and data sets that can be tried, as text."""
    return (
        f"Known interventions: {', '.join(MEASURABLE['interventions'])}. "
        f"Known metrics: {', '.join(MEASURABLE['metrics'])}. "
        f"Known data sets: {', '.join(MEASURABLE['data_sets'])}, "
        "and files that `dataset` names (CSV, NPZ, Parquet)."
    )


def refused(reason: str, *, words: Sequence[str] = (), near: Statement | None = None) -> NotMeasurable:
    """Return the refusal of a claim; `near` is what is left of it without what cannot be measured."""
    shown = [_cut(each) for each in words[:WORDS_MAX]]
    nearest = _nearest(shown, near)
    parts = [reason]
    if nearest:
        parts.append(f"Nearest: {' '.join(nearest)}")
    parts += [known_space(), BEYOND]
    return NotMeasurable(" ".join(parts), words=shown, measurable=MEASURABLE, nearest=nearest)


def quoted(words: Sequence[str]) -> str:
    """Return words as a message names them."""
    named = ", ".join(f"“{_cut(each)}”" for each in words[:WORDS_MAX])
    more = f" and {len(words) - WORDS_MAX} more" if len(words) > WORDS_MAX else ""
    return f"{named}{more}"


def _cut(text: str) -> str:
    return text if len(text) <= WORD_CHARS_MAX else f"{text[:WORD_CHARS_MAX]}…"


def _nearest(words: Sequence[str], near: Statement | None) -> list[str]:
    """Return claims that can be measured and say nearly the same."""
    if near is not None:
        return _plain_claims(near)
    parts = {
        part.lower(): each for each in INTERVENTIONS.values() for part in (each.title, *each.title.split())
    }
    found = [hit for word in words for hit in get_close_matches(word, parts, 1, ALIKE)]
    chosen = list(dict.fromkeys(parts[each].name for each in found))
    return [
        _sentence(Arm(name), QUALITY[DEFAULT.task], DEFAULT.title, "higher") for name in chosen[:NEAREST_MAX]
    ]


def _plain_claims(near: Statement) -> list[str]:
    """Return the claims of a statement without its margin, hedge and negation."""
    chosen, word = INTERVENTIONS[near.arm.name], near.measure.name if near.measure else ""
    data = SHIPPED.get(near.data, DEFAULT)
    metric = METRICS.get("nll" if word == "loss" else word, QUALITY[data.task])
    if data.task not in metric.tasks:
        data = next(each for each in SHIPPED.values() if each.task in metric.tasks)
    has_needs = {"images": data.image_side is not None, "classes": data.task == "classification"}
    if not all(has_needs[each] for each in chosen.needs):
        data, metric = DEFAULT, metric if DEFAULT.task in metric.tasks else QUALITY[DEFAULT.task]
    is_possible = near.arm.value is None or chosen.can_be(near.arm.value)
    arm = near.arm if is_possible else Arm(near.arm.name, is_removed=near.arm.is_removed)
    improves = "higher" if metric.higher_is_better else "lower"
    other = "lower" if improves == "higher" else "higher"
    is_inverse = (near.measure is not None and near.measure.inverse) or (
        word == "error" and metric.higher_is_better
    )
    moves = {
        "good": [improves], "bad": [other], "not good": [improves], "not bad": [other],
        "any": [improves, other], "none": [improves, other],
        "up": ["lower" if is_inverse else "higher"], "down": ["higher" if is_inverse else "lower"],
    }[near.move]  # fmt: skip
    other_arm = near.against if isinstance(near.against, Arm) and near.against.value is None else None
    rival = other_arm if other_arm is not None and other_arm.name != arm.name else None
    return [_sentence(arm, metric, data.title, each, rival) for each in moves]


def _sentence(arm: Arm, metric: Metric, data: str, move: str, rival: Arm | None = None) -> str:
    value = "" if arm.value is None else f" of {arm.value:.10f}".rstrip("0").rstrip(".")
    if value and arm.name in ("longer_training", "shorter_training"):
        value += " times the length"
    opening = "Without" if arm.is_removed else "With"
    against = "" if rival is None else f" instead of {INTERVENTIONS[rival.name].title}"
    subject = f"{INTERVENTIONS[arm.name].title}{value}{against}"
    return f"{opening} {subject}, the {metric.title} on {data} becomes {move}."
