"""Items with options to choose from: MMLU-Pro and GPQA, pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from stages.kinds.benchmark.suites.adapters.fields import id_text, optional_text, text, texts, whole
from stages.kinds.benchmark.suites.item import Item, Record, Unfit
from stages.kinds.benchmark.suites.parsing.choice import LETTERS
from stages.kinds.benchmark.suites.payload import Options
from stages.kinds.benchmark.suites.prompting import prompt_of

PADDING: Final = "N/A"  # stands in the place of options that a question does not have


def mmlu_pro(record: Record) -> Item:
    """Return a question of MMLU-Pro without its padding. Raises `Unfit`."""
    options = texts(record, "options")
    right = whole(record, "answer_index")
    letter = optional_text(record, "answer").strip().upper()
    if right is None and len(letter) == 1:
        right = LETTERS.find(letter)
    if right is None or not 0 <= right < len(options) or (letter and LETTERS.find(letter) != right):
        raise Unfit("answer and answer_index do not name one of its options")
    order = tuple(place for place, each in enumerate(options) if each.strip() != PADDING or place == right)
    subject = optional_text(record, "category")
    return _item(
        id_text(text(record, "question_id")), text(record, "question"), options, order, right, subject
    )


def gpqa(record: Record) -> Item:
    """Return a question of GPQA; the order of its options follows from its id alone. Raises `Unfit`."""
    options = [
        text(record, "Correct Answer").strip(),
        *(text(record, f"Incorrect Answer {number}").strip() for number in (1, 2, 3)),
    ]
    id = id_text(text(record, "Record ID"))
    order = shuffled(f"gpqa\n{id}", len(options))
    subject = optional_text(record, "Subdomain", "High-level domain")
    difficulty = optional_text(record, "Writer's Difficulty Estimate")
    return _item(id, text(record, "Question"), options, order, 0, subject, difficulty)


def shuffled(seed: str, count: int) -> tuple[int, ...]:
    """Return the numbers below `count` in an order that follows from the seed."""
    return tuple(sorted(range(count), key=lambda place: sha256(f"{seed}\n{place}".encode()).digest()))


def lettered(options: Sequence[str]) -> str:
    """Return the options, one a line, each with its letter."""
    return "\n".join(f"{LETTERS[place]}) {option.strip()}" for place, option in enumerate(options))


def _item(
    id: str,
    question: str,
    options: list[str],
    order: tuple[int, ...],
    right: int,
    subject: str,
    difficulty: str = "",
) -> Item:
    if not 2 <= len(order) <= len(LETTERS):
        raise Unfit(f"it has {len(order)} options")
    shown = tuple(options[place] for place in order)
    place = order.index(right)
    return Item(
        id=id,
        prompt=prompt_of("choice", question=question.strip(), options=lettered(shown)),
        payload=Options(shown, place, order),
        expected=f"{LETTERS[place]}) {shown[place].strip()}",
        subject=subject,
        difficulty=difficulty,
        note=f"options in the order {', '.join(map(str, order))} of the record",
    )
