"""A cron entry in plain language, pure.

Law: the words are made from the sets of minutes, hours and days by which the entry fires, never from its
text. A set without a short form is written as a list.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from cronsim import CronSim

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIMES_LISTED_MAX: Final = 6
RUN_MIN: Final = 3  # how many in a row are told as from … to …
MINUTES: Final = range(60)
HOURS: Final = range(24)
DAYS: Final = 31
LAST_DAYS: Final = {
    CronSim.LAST: "the last day of the month",
    CronSim.LAST_WEEKDAY: "the last Monday-to-Friday day of the month",
}
WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
NTH: Final = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", CronSim.LAST: "last"}


@dataclass(frozen=True, slots=True)
class _Days:
    """The days that one of the two day fields names, in words; `is_any` if it names all."""

    words: str
    is_any: bool


def cron_words(entry: str) -> str:
    """Return when a checked entry of five fields fires, as a sentence without its full stop."""
    fires = CronSim(entry, EPOCH)
    time = _time(sorted(fires.minutes), sorted(fires.hours))
    days = _days(_days_of_month(fires.days), _weekdays(fires.weekdays), both=fires.day_and)
    if not days and "every" not in time:
        days = "every day"
    sentence = ", ".join(part for part in (time, days, _months(sorted(fires.months))) if part)
    return sentence[0].upper() + sentence[1:]


def _time(minutes: Sequence[int], hours: Sequence[int]) -> str:
    if len(minutes) * len(hours) <= TIMES_LISTED_MAX:
        return f"at {_listed([_clock(hour, minute) for hour in hours for minute in minutes])}"
    if len(minutes) == 1:
        return _hourly(minutes[0], hours)
    first, last = _clock(hours[0], minutes[0]), _clock(hours[-1], minutes[-1])
    step, pace = _step(hours), _pace(minutes)
    if len(hours) == 1 and (beat := _step(minutes)) is not None:
        return f"every {'minute' if beat == 1 else f'{beat} minutes'} from {first} to {last}"
    if len(hours) == len(HOURS):
        offset = f", from minute {minutes[0]} of each hour on" if pace and minutes[0] else ""
        return f"{pace}{offset}" if pace else f"{_minutes(minutes)} of every hour"
    if step == 1:
        return f"{pace} from {first} to {last}" if pace else f"{_minutes(minutes)} of {_hours(hours)}"
    if step is not None and pace and _is_whole(hours, HOURS, step):
        return f"{pace} of every {_ordinal(step)} hour, {first} to {_clock(hours[0], minutes[-1])} first"
    return f"{pace if pace and minutes[0] == 0 else _minutes(minutes)} of {_hours(hours)}"


def _hourly(minute: int, hours: Sequence[int]) -> str:
    """Return the words for one minute of many hours."""
    if len(hours) == len(HOURS):
        return "every hour, on the hour" if minute == 0 else f"every hour at minute {minute}"
    step = _step(hours)
    if step is None:
        return f"at {_listed([_clock(hour, minute) for hour in hours])}"
    every = "hour" if step == 1 else f"{step} hours"
    return f"every {every} from {_clock(hours[0], minute)} to {_clock(hours[-1], minute)}"


def _pace(minutes: Sequence[int]) -> str:
    """Return the words for minutes at equal distances across hours; empty for others."""
    step = _step(minutes)
    if step is None or not _is_whole(minutes, MINUTES, step):
        return ""
    return "every minute" if step == 1 else f"every {step} minutes"


def _minutes(minutes: Sequence[int]) -> str:
    return f"at minutes {_ranged(list(map(str, minutes)), minutes)}"


def _hours(hours: Sequence[int]) -> str:
    return f"the hour{'' if len(hours) == 1 else 's'} {_ranged(list(map(str, hours)), hours)}"


def _days(of_month: _Days, of_week: _Days, *, both: bool) -> str:
    """Return the days on which it fires; nothing where it is every day."""
    if of_month.is_any and of_week.is_any:
        return ""
    if of_month.is_any or of_week.is_any:
        # of two that need not both fit, one names every day
        return _each((of_week if of_month.is_any else of_month).words) if both else ""
    if both:
        return f"{of_month.words} where that is also {of_week.words.removeprefix('on ')}"
    return f"{of_month.words} and also {_each(of_week.words)}"


def _each(days: str) -> str:
    """Return the words for days of which every one is meant."""
    return days.replace("on a ", "every ", 1)


def _days_of_month(days: Collection[int]) -> _Days:
    numbers = sorted(day for day in days if day > 0)
    named = [f"on {words}" for day, words in LAST_DAYS.items() if day in days]
    if numbers:
        few = _ranged(list(map(str, numbers)), numbers)
        named.insert(0, f"on day{'' if len(numbers) == 1 else 's'} {few} of the month")
    return _Days(" and ".join(named), is_any=len(numbers) == DAYS)


def _weekdays(found: Collection[int | tuple[int, int]]) -> _Days:
    whole = {each % 7 for each in found if isinstance(each, int)}
    # from Monday on, so that a weekend is two days that follow each other
    numbers = sorted((day - 1) % 7 for day in whole)
    names = [WEEKDAYS[(number + 1) % 7] for number in numbers]
    ranked = sorted(each for each in found if isinstance(each, tuple))
    words = [f"the {NTH[nth]} {WEEKDAYS[day % 7]} of the month" for day, nth in ranked]
    if names:
        words.insert(0, f"a {names[0]}" if len(names) == 1 else _ranged(names, numbers))
    is_stretch = len(names) >= RUN_MIN and len(words) == 1 and " to " in words[0]
    return _Days(f"{'' if is_stretch else 'on '}{_listed(words)}", is_any=len(whole) == len(WEEKDAYS))


def _months(months: Sequence[int]) -> str:
    if len(months) == len(MONTHS):
        return ""
    names = [MONTHS[month - 1] for month in months]
    is_stretch = len(names) >= RUN_MIN and _step(months) == 1
    return f"from {names[0]} to {names[-1]}" if is_stretch else f"in {_listed(names)}"


def _ranged(names: Sequence[str], numbers: Sequence[int]) -> str:
    if len(numbers) >= RUN_MIN and _step(numbers) == 1:
        return f"{names[0]} to {names[-1]}"
    return _listed(names)


def _step(numbers: Sequence[int]) -> int | None:
    """Return the equal distance between neighbours; None if the distances differ."""
    gaps = {later - earlier for earlier, later in pairwise(numbers)}
    return gaps.pop() if len(gaps) == 1 else None


def _is_whole(numbers: Sequence[int], cycle: range, step: int) -> bool:
    """Say whether the distance is the same across the end of the cycle."""
    return len(cycle) % step == 0 and len(numbers) == len(cycle) // step and len(numbers) >= 2


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02d}:{minute:02d}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
