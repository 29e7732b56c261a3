"""What a cron entry means, in words: by the very sets by which it fires."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import islice

import pytest

from control_plane.runs.schedules.cron_words import cron_words
from control_plane.runs.schedules.schedule import NICKNAMES, read_timetable

WORDS = {
    "* * * * *": "Every minute",
    "*/1 * * * *": "Every minute",
    "*/15 * * * *": "Every 15 minutes",
    "0,15,30,45 * * * *": "Every 15 minutes",
    "5/15 * * * *": "Every 15 minutes, from minute 5 of each hour on",
    "*/7 * * * *": "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour",
    "0-50/10 * * * *": "Every 10 minutes",
    "0-40/10 * * * *": "At minutes 0, 10, 20, 30 and 40 of every hour",
    "1-10 * * * *": "At minutes 1 to 10 of every hour",
    "1-10 3 * * *": "Every minute from 03:01 to 03:10",
    "*/5 8 * * *": "Every 5 minutes from 08:00 to 08:55",
    "0 * * * *": "Every hour, on the hour",
    "30 * * * *": "Every hour at minute 30",
    "0 9 * * *": "At 09:00, every day",
    "0 9,17 * * *": "At 09:00 and 17:00, every day",
    "0,30 9 * * *": "At 09:00 and 09:30, every day",
    "0 */6 * * *": "At 00:00, 06:00, 12:00 and 18:00, every day",
    "0 */2 * * *": "Every 2 hours from 00:00 to 22:00",
    "0 1-23/2 * * *": "Every 2 hours from 01:00 to 23:00",
    "0 */5 * * *": "At 00:00, 05:00, 10:00, 15:00 and 20:00, every day",
    "0 1,2,4,7,11,16,22 * * *": "At 01:00, 02:00, 04:00, 07:00, 11:00, 16:00 and 22:00, every day",
    "* 9-17 * * *": "Every minute from 09:00 to 17:59",
    "*/15 9-17 * * 1-5": "Every 15 minutes from 09:00 to 17:45, Monday to Friday",
    "0 9-17 * * 1-5": "Every hour from 09:00 to 17:00, Monday to Friday",
    "1-10 9-17 * * *": "At minutes 1 to 10 of the hours 9 to 17, every day",
    "*/10 */2 * * *": "Every 10 minutes of every second hour, 00:00 to 00:50 first",
    "*/10 1-23/3 * * *": "Every 10 minutes of every third hour, 01:00 to 01:50 first",
    "*/20 1,5,22 * * *": "Every 20 minutes of the hours 1, 5 and 22",
    "0 0 1 * *": "At 00:00, on day 1 of the month",
    "0 0 1,15 * *": "At 00:00, on days 1 and 15 of the month",
    "0 9 1-7 * *": "At 09:00, on days 1 to 7 of the month",
    "0 0 L * *": "At 00:00, on the last day of the month",
    "0 0 LW * *": "At 00:00, on the last Monday-to-Friday day of the month",
    "0 0 1,L * *": "At 00:00, on day 1 of the month and on the last day of the month",
    "0 0 1 1 *": "At 00:00, on day 1 of the month, in January",
    "0 3 10-31/10 JUN *": "At 03:00, on days 10, 20 and 30 of the month, in June",
    "30 2 * 3-5 *": "At 02:30, every day, from March to May",
    "0 12 * 1,7 1,3,5": "At 12:00, on Monday, Wednesday and Friday, in January and July",
    "5 4 * * sun": "At 04:05, every Sunday",
    "0 0 * * 7": "At 00:00, every Sunday",
    "0 9 * * 0,6": "At 09:00, on Saturday and Sunday",
    "0 0 * * 5,6,0": "At 00:00, Friday to Sunday",
    "0 0 * * 1-7": "At 00:00, every day",
    "0 9 * * MON#1": "At 09:00, on the first Monday of the month",
    "0 9 * * 5L": "At 09:00, on the last Friday of the month",
    "* * 1 * *": "Every minute, on day 1 of the month",
    # either of two fields is enough, unless one of them begins with a star
    "0 9 13 * 5": "At 09:00, on day 13 of the month and also every Friday",
    "0 0 1-31 * MON": "At 00:00, every day",
    "0 9 */15 * 1": "At 09:00, on days 1, 16 and 31 of the month where that is also a Monday",
    "0 9 13 * */5": "At 09:00, on day 13 of the month where that is also Friday and Sunday",
}


@pytest.mark.parametrize("entry", WORDS)
def test_an_entry_is_told_in_words(entry: str) -> None:
    assert cron_words(read_timetable(entry, "UTC").entry) == WORDS[entry]


def test_every_short_form_has_words() -> None:
    said = {name: cron_words(read_timetable(name, "UTC").entry) for name in NICKNAMES}
    assert said["@hourly"] == "Every hour, on the hour"
    assert said["@daily"] == said["@midnight"] == "At 00:00, every day"
    assert said["@weekly"] == "At 00:00, every Sunday"
    assert said["@monthly"] == "At 00:00, on day 1 of the month"
    assert said["@yearly"] == said["@annually"] == "At 00:00, on day 1 of the month, in January"


def test_entries_of_the_same_words_fire_at_the_same_times() -> None:
    dice = random.Random(5)
    fields = (
        ("*", "*/15", "*/7", "5/15", "0", "30", "0-50/10", "1-10", "0,5,20", "10-20/5", "3/20"),
        ("*", "*/2", "1-23/2", "*/5", "9-17", "9", "9,17", "1,5,22", "0-12/3", "22-23"),
        ("*", "*/2", "1", "13", "L", "LW", "1,L", "1-7", "1-31", "10-31/10"),
        ("*", "1", "1,7", "3-5", "*/3", "2-12/2"),
        ("*", "*/5", "1-5", "0,6", "MON", "MON#1", "5L", "1,MON#2", "0-6", "5-7"),
    )
    told: dict[str, set[str]] = {}
    for _ in range(6_000):
        entry = " ".join(dice.choice(texts) for texts in fields)
        told.setdefault(cron_words(entry), set()).add(entry)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    shared = {words: entries for words, entries in told.items() if len(entries) > 1}
    assert len(shared) > 300
    for words, entries in shared.items():
        fires = {tuple(islice(read_timetable(each, "UTC").slots(start), 40)) for each in entries}
        assert len(fires) == 1, (words, entries)
