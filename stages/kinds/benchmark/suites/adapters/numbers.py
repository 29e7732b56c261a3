"""Items whose answer is a number: GSM8K and AIME, pure."""

from __future__ import annotations

from hashlib import sha256

from stages.kinds.benchmark.suites.adapters.fields import id_text, optional_text, text
from stages.kinds.benchmark.suites.item import Item, Record, Unfit
from stages.kinds.benchmark.suites.parsing.number import single_number
from stages.kinds.benchmark.suites.parsing.quantity import Value
from stages.kinds.benchmark.suites.payload import Quantity
from stages.kinds.benchmark.suites.prompting import prompt_of


def gsm8k(record: Record) -> Item:
    """Return a problem of GSM8K, whose answer stands behind `####`. Raises `Unfit`."""
    question = text(record, "question").strip()
    _, mark, answer = text(record, "answer").rpartition("####")
    if not mark:
        raise Unfit("its answer has no ####")
    value = _number(answer)
    return Item(
        id=str(record.number),
        prompt=prompt_of("number", question=question),
        payload=Quantity(value.text),
        expected=value.text,
    )


def aime(record: Record) -> Item:
    """Return a problem of AIME, of either form of data set. Raises `Unfit`."""
    problem = text(record, "Problem", "question").strip()
    value = _number(text(record, "Answer"))
    if not (value.exact.denominator == 1 and 0 <= value.exact <= 999):
        raise Unfit("its answer is no integer from 0 to 999")
    named = id_text(optional_text(record, "ID"))
    id = named if "-" in named else sha256(problem.encode()).hexdigest()[:12]
    return Item(
        id=id,
        prompt=prompt_of("competition", question=problem),
        payload=Quantity(str(value.exact)),
        expected=str(value.exact),
        subject=optional_text(record, "year"),
    )


def _number(told: str) -> Value:
    value = single_number(told.strip())
    if value is None:
        raise Unfit(f"its answer {told.strip()[:40]!r} is no number")
    return value
