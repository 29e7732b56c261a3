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
    "*/15 * * * *": "Every 15th minute of every hour",
    "0,15,30,45 * * * *": "At minutes 0, 15, 30, and 45 of every hour",
    "5/15 * * * *": "Every 15th minute from 5 through 59 of every hour",
    "1-10 3 * * *": "Every minute from 03:01 through 03:10",
    "0 * * * *": "At the start of every hour",
    "0 9 * * *": "At 09:00 every day",
    "0 9,17 * * *": "At 09:00 and 17:00 every day",
    "*/15 9-17 * * 1-5": "Every 15th minute from 09:00 through 17:59 on Monday through Friday",
    "0 9-17 * * 1-5": "At minute 0 past every hour from 9 through 17 on Monday through Friday",
    "0 0 1,15 * *": "At 00:00 on the first and the 15th day of month",
    "0 0 L * *": "At 00:00 on the last day of every month",
    "0 0 LW * *": "At 00:00 on the last weekday of every month",
    "0 0 1 1 *": "At 00:00 on January 1",
    "30 2 * 3-5 *": "At 02:30 in every month from March through May",
    "0 12 * 1,7 1,3,5": "At 12:00 on Monday, Wednesday, and Friday in January and July",
    "0 0 * * 7": "At 00:00 on Sunday",
    "0 9 * * MON#1": "At 09:00 on the first Monday of the month",
    "0 9 * * 5L": "At 09:00 on the last Friday of the month",
    # either of two fields is enough, unless one of them begins with a star
    "0 9 13 * 5": "At 09:00 on the 13th day of month and also on Friday",
    "0 0 1-31 * MON": "At 00:00 every day",
    "0 0 13 * 1-7": "At 00:00 every day",
    "0 9 */15 * 1": "At 09:00 on every 15th day of month if it's on Monday",
    "0 9 13 * */5": "At 09:00 on the 13th day of month if it's on every fifth day of week",
}


@pytest.mark.parametrize("entry", WORDS)
def test_an_entry_is_told_in_words(entry: str) -> None:
    assert cron_words(read_timetable(entry, "UTC").entry) == WORDS[entry]


def test_every_short_form_has_words() -> None:
    said = {name: cron_words(read_timetable(name, "UTC").entry) for name in NICKNAMES}
    assert said["@hourly"] == "At the start of every hour"
    assert said["@daily"] == said["@midnight"] == "At 00:00 every day"
    assert said["@weekly"] == "At 00:00 on Sunday"
    assert said["@monthly"] == "At 00:00 on the first day of every month"
    assert said["@yearly"] == said["@annually"] == "At 00:00 on January 1"


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
