"""Which round a slot of a schedule began: none is begun twice, and none of another schedule counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from control_plane.model.groups.ticks import Tick, round_of

SLOT = datetime(2026, 11, 21, 3, tzinfo=UTC)
DAY = timedelta(days=1)


def group(*slots: datetime | None, schedule: str = "nightly") -> dict[str, Any]:
    """Return a group whose rounds, the oldest first, were begun at these slots, or by people."""
    rounds = [
        {"round": number, "tick": None if slot is None else Tick(schedule, slot).stored()}
        for number, slot in enumerate(slots, 1)
    ]
    return {**rounds[-1], "rounds": rounds[:-1]}


def test_the_round_of_a_slot_is_found_among_the_present_and_the_earlier_ones() -> None:
    found = group(SLOT, SLOT + DAY, None)
    assert [round_of(found, Tick("nightly", SLOT + days * DAY)) for days in (0, 1, 2)] == [2, 2, None]


def test_a_replica_that_comes_late_begins_no_round_for_a_slot_before_the_last_one() -> None:
    assert round_of(group(SLOT + DAY), Tick("nightly", SLOT)) == 1


def test_the_slot_of_another_schedule_says_nothing() -> None:
    assert round_of(group(SLOT + DAY, schedule="hourly"), Tick("nightly", SLOT)) is None


def test_a_group_from_before_there_were_ticks_has_no_round_of_one() -> None:
    assert round_of({"round": 2, "rounds": [{"round": 1}]}, Tick("nightly", SLOT)) is None
