"""When schedules fire: days on which clocks change, ends of months, outages, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ulid import ULID

from control_plane.runs.schedules.schedule import (
    CRON_CHARS_MAX,
    LATE_AFTER,
    MISSED_MAX,
    NICKNAMES,
    first_slot,
    plan,
    read_timetable,
    run_id,
)
from events.runtime.errors import Rejected

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def slots(cron: str, zone: str, after: str, count: int) -> list[str]:
    found = islice(read_timetable(cron, zone).slots(moment(after)), count)
    return [slot.strftime("%m-%d %H:%M") for slot in found]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # a time that the clocks leave out comes at the first moment that exists, once
        ("30 2 * * *", "Europe/Berlin", "2026-03-28", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29", ["03-29 01:00", "03-30 00:00", "03-30 00:30"]),
        ("30 2 * * *", "America/New_York", "2026-03-08", ["03-08 07:00", "03-09 06:30"]),
        # a time that comes twice fires at its first coming
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", ["10-25 00:30", "10-26 01:30"]),
        ("30 1 * * *", "America/New_York", "2026-11-01", ["11-01 05:30", "11-02 06:30"]),
        # also where the search begins between the two
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", ["10-26 01:30"]),
        # what follows elapsed time goes on through the change
        ("0 * * * *", "Europe/Berlin", "2026-10-24T23:30", ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),
        ("*/30 * * * *", "America/New_York", "2026-03-08T06:15", ["03-08 06:30", "03-08 07:00"]),
        ("30 2 * * *", "UTC", "2026-03-29", ["03-29 02:30", "03-30 02:30"]),
        # the calendar
        ("0 0 29 2 *", "UTC", "2026-01-01", ["02-29 00:00", "02-29 00:00"]),
        ("0 12 31 * *", "UTC", "2026-03-31T12:00", ["05-31 12:00", "07-31 12:00", "08-31 12:00"]),
        ("0 0 L * *", "UTC", "2028-01-31", ["02-29 00:00", "03-31 00:00", "04-30 00:00"]),
        ("@daily", "Asia/Kathmandu", "2026-01-01", ["01-01 18:15", "01-02 18:15"]),
    ],
)
def test_a_schedule_fires_as_the_clocks_of_its_zone_say(
    cron: str, zone: str, after: str, expected: list[str]
) -> None:
    assert slots(cron, zone, after, len(expected)) == expected


@pytest.mark.parametrize("nickname", NICKNAMES)
def test_every_short_form_is_an_entry(nickname: str) -> None:
    assert read_timetable(nickname.upper(), "UTC") == read_timetable(NICKNAMES[nickname], "UTC")


@pytest.mark.parametrize(
    ("cron", "zone", "code", "named"),
    [
        ("61 * * * *", "UTC", "bad_cron", "minute"),
        ("* * * *", "UTC", "bad_cron", "five fields"),
        ("0 * * * * *", "UTC", "bad_cron", "five fields"),
        ("", "UTC", "bad_cron", "five fields"),
        ("* " * CRON_CHARS_MAX, "UTC", "bad_cron", "five fields"),
        ("@reboot", "UTC", "bad_cron", "@hourly"),
        ("0 0 31 2 *", "UTC", "bad_cron", "day-of-month"),
        ("0 0 30 2,2 *", "UTC", "bad_cron", "day-of-month"),
        ("@daily", "Mars/Olympus", "unknown_zone", "Mars/Olympus"),
        ("@daily", "Europe", "unknown_zone", "Europe/Berlin"),
        ("@daily", "../etc/passwd", "unknown_zone", "no time zone"),
        ("@daily", "", "unknown_zone", "no time zone"),
    ],
)
def test_what_cannot_fire_is_refused_with_its_reason(cron: str, zone: str, code: str, named: str) -> None:
    with pytest.raises(Rejected, match=named) as refused:
        read_timetable(cron, zone)
    assert refused.value.code == code


def test_a_day_that_never_comes_is_refused() -> None:
    # each field can be, together they cannot: the first of a month is never its fifth Sunday
    never = read_timetable("0 0 */31 * 0#5", "UTC")
    with pytest.raises(Rejected) as refused:
        first_slot(never, moment("2026-01-02"))
    assert refused.value.code == "never_fires"


@given(st.text(max_size=40), st.text(max_size=20))
def test_any_text_is_read_or_refused(cron: str, zone: str) -> None:
    for text, place in ((cron, "UTC"), (" ".join(["*"] * 4 + [cron or "*"]), zone)):
        with suppress(Rejected):
            read_timetable(text, place)


minutes = st.sampled_from(["*", "*/7", "0", "30", "0,30", "59", "15-20"])
hours = st.sampled_from(["*", "*/2", "0", "1", "2", "3", "1,2,3", "0-4", "23"])
days = st.sampled_from(["*", "1", "29", "31", "L", "LW", "*/2"])
weekdays = st.sampled_from(["*", "0", "1-5", "7#1", "5L"])
entries = st.tuples(minutes, hours, days, st.just("*"), weekdays).map(" ".join)
moments = st.integers(0, 4 * 365 * 24 * 3600).map(lambda s: moment("2025-01-01") + timedelta(seconds=s))
# around the changes of the clocks, where it is hard
changes = st.sampled_from(
    ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-04", "2026-04-24"]
)
near = st.tuples(changes, st.integers(-36 * 3600, 36 * 3600)).map(
    lambda pair: moment(pair[0]) + timedelta(seconds=pair[1])
)


@given(entries, st.sampled_from(ZONES), moments | near)
def test_slots_only_grow_stand_on_minutes_and_do_not_hang_on_where_one_looks(
    entry: str, zone: str, after: datetime
) -> None:
    table = read_timetable(entry, zone)
    found = list(islice(table.slots(after), 12))
    assert all(later > earlier for earlier, later in pairwise([after, *found]))
    assert all(slot.second == slot.microsecond == 0 for slot in found)
    for earlier, later in pairwise(found):
        assert table.next(earlier) == later


@given(entries, st.sampled_from(ZONES[:3]), near)
def test_a_fixed_time_of_day_fires_at_most_once_a_day(entry: str, zone: str, after: datetime) -> None:
    minute, hour, *_ = entry.split()
    assume(minute.isdigit() and hour.isdigit())
    table = read_timetable(entry, zone)
    dates = [slot.astimezone(table.zone).date() for slot in islice(table.slots(after), 10)]
    assert len(set(dates)) == len(dates)


@given(entries, st.sampled_from(ZONES), near, st.integers(0, 4 * 24 * 3600), st.integers(1, 8))
def test_the_latest_slots_are_the_last_of_all(
    entry: str, zone: str, after: datetime, away_s: int, limit: int
) -> None:
    table = read_timetable(entry, zone)
    until = after + timedelta(seconds=away_s)
    every = []
    for slot in table.slots(after):
        if slot > until:
            break
        every.append(slot)
    assert table.latest(after, until, limit) == every[-limit:]


def planned(missed: Any, due: str, now: str, cron: str = "*/10 * * * *") -> tuple[list[str], str]:
    found = plan(read_timetable(cron, "UTC"), missed, due=moment(due), now=moment(now))
    assert found.next_at is not None
    return [slot.strftime("%H:%M") for slot in found.fire], found.next_at.strftime("%H:%M")


def test_a_slot_on_time_fires_under_every_policy() -> None:
    for missed in ("skip", "one", "all"):
        assert planned(missed, "2026-01-01T10:00", "2026-01-01T10:00:01") == (["10:00"], "10:10")


def test_missed_slots_are_dropped_or_fired_once_or_fired_all() -> None:
    outage = ("2026-01-01T10:00", "2026-01-01T10:35")
    assert planned("skip", *outage) == ([], "10:40")
    assert planned("one", *outage) == (["10:30"], "10:40")
    assert planned("all", *outage) == (["10:00", "10:10", "10:20", "10:30"], "10:40")


def test_after_a_short_delay_only_the_slot_that_is_late_counts_as_missed() -> None:
    late = moment("2026-01-01T10:10") + LATE_AFTER
    assert planned("skip", "2026-01-01T10:00", late.isoformat()[:19])[0] == ["10:10"]
    later = late + timedelta(seconds=1)
    assert planned("skip", "2026-01-01T10:00", later.isoformat()[:19])[0] == []


def test_a_year_of_missed_minutes_is_bounded_to_the_latest() -> None:
    found = plan(
        read_timetable("* * * * *", "UTC"), "all", due=moment("2025-01-01"), now=moment("2026-01-01")
    )
    assert len(found.fire) == MISSED_MAX
    assert found.fire[-1] == found.last == moment("2026-01-01")
    assert found.fire[0] == moment("2026-01-01") - timedelta(minutes=MISSED_MAX - 1)


@given(st.sampled_from(["a", "b", "nightly"]), moments)
def test_a_runs_id_is_made_of_schedule_and_slot_alone(schedule: str, slot: datetime) -> None:
    identity = ULID.from_str(run_id(schedule, slot))
    assert identity.datetime == slot
    assert run_id(schedule, slot) == str(identity)
    others = {run_id(schedule + "x", slot), run_id(schedule, slot + timedelta(minutes=1))}
    assert str(identity) not in others
