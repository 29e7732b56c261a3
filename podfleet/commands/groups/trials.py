"""What `podfleet groups show` says of a study: its best trials beside the baseline."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from events.answers.plans.studies import StudyNumber, StudyStanding, StudyTrial
from events.formatting import in_one_line
from podfleet.output import Column, print_fields, print_heading, print_items

Told = tuple[str, StudyTrial]


def _number(number: StudyNumber) -> str:
    interval = (
        "" if number.low is None or number.high is None else f" ({number.low:.4g} to {number.high:.4g})"
    )
    return f"{number.mean:.4g}{interval}"


def _numbers(told: Told) -> str:
    return ", ".join(f"{name} {_number(number)}" for name, number in told[1].numbers.items())


TRIALS: Final = (
    Column("TRIAL", lambda told: told[0], is_whole=True),
    Column("SLOT", lambda told: told[1].slots[0]),
    Column("RUNS", lambda told: told[1].runs),
    Column("NUMBERS", _numbers, is_prose=True),
    Column("VALUES", lambda told: told[1].values, in_one_line, is_prose=True),
)


def show_study(study: StudyStanding) -> None:
    """Print how a study stands: intervals are those of 95 %."""
    what = "best" if study.front is UNSET else "front"
    told: list[Told] = [(what, each) for each in study.best]
    told += [] if study.baseline is None else [("baseline", study.baseline)]
    if told:
        print_heading("trials")
        print_items(told, TRIALS)
    if study.difference is not None:
        found = study.difference
        percent = "" if found.percent is None else f" ({found.percent:+.1f} %)"
        interval = "" if found.low is None or found.high is None else f", {found.low:.4g} to {found.high:.4g}"
        print_fields([("beside the baseline", f"{found.name} {found.value:+.4g}{percent}{interval}")])
