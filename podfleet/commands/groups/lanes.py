"""Prints how a race stands: its start, and each lane."""

from __future__ import annotations

from typing import Final

from events.answers.plans.races import RaceStanding
from podfleet.output import Column, field, print_fields, print_heading, print_items


def late_shown(seconds: object) -> str:
    """Return how long after the moment a lane started."""
    return f"{1_000 * seconds:,.1f} ms" if isinstance(seconds, int | float) else "–"


LANES: Final = (
    Column("SLOT", field("slot"), is_whole=True),
    Column("POD", field("pod"), is_whole=True),
    Column("LANE", field("state"), is_whole=True),
    Column("AFTER START", field("late_s"), late_shown, is_whole=True),
    Column("CLOCK WITHIN", field("bound_s"), late_shown, is_whole=True),
    Column("RUN", field("run_id"), is_whole=True, is_id=True),
    Column("STATUS", field("status")),
    Column("PROBLEM", field("problem"), is_spare=True, is_prose=True),
)


def show_race(race: RaceStanding) -> None:
    """Print the lanes of a race."""
    print_heading("race")
    start = race.start_at or "not decided yet"
    print_fields([("start", start), ("start skew", late_shown(race.skew_s))])
    print_items(race.lanes, LANES)
