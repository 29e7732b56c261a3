"""The laws of races: one moment for a round, told as it was decided, and nobody starts before it; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from control_plane.model.groups.members import newest
from control_plane.model.groups.races.race import LEAD_MIN_S, race_of
from control_plane.model.projection import lane_id
from events.lifecycle import FINAL, LIVE
from events.text.attempt_id import AttemptId
from testing.simulation.ledger import Truth
from testing.simulation.store.replica_set import Document

ABOUT_S = 0.01  # moments are kept in milliseconds
AHEAD_S = 3.0  # the clock of a replica may be off by what an answer of the store has taken


def moved_start(
    before: Document, after: Document, runs: Sequence[Document], lanes: Mapping[Any, Any], now: datetime
) -> Iterator[str]:
    """Yield what a change of a group may not do with the start of its race."""
    old, new = before.get("start"), after.get("start")
    if new is None or new == old:
        return
    if old is not None and old["round"] == new["round"]:
        yield f"the start of round {new['round']} was {old['at']}, and became {new['at']}"
    decided = after["updatedAt"]  # a majority may have it later
    if new["at"] < decided + timedelta(seconds=LEAD_MIN_S - ABOUT_S):
        yield f"it starts at {new['at']}, which was decided at {decided}"
    members = newest(
        [run for run in runs if run.get("groupId") == after["_id"] and run["slot"] >= after["first"]]
    )
    race = race_of(after["plan"])
    since = min(run["createdAt"] for run in members.values())
    if now >= since + timedelta(seconds=race.ready_s - AHEAD_S):
        return
    for run in members.values():
        said = lanes.get(lane_id(run["_id"], run["attempt"]))
        if run["status"] not in FINAL and (run["status"] not in LIVE or said is None):
            yield f"it starts without lane {run['slot']}, which may still come in time"


def wrong_moment(before: Document, after: Document, group: Document | None) -> Iterator[str]:
    """Yield what is wrong with the moment that a lane was told."""
    old, new = before.get("startAt"), after.get("startAt")
    if new == old:
        return
    if old is not None:
        yield f"it was told to start at {old}, and now at {new}"
    start = None if group is None else group.get("start")
    if group is None or start is None or (start["round"] == group["round"] and start["at"] != new):
        yield f"it is told to start at {new}, and its race starts at {start and start['at']}"


def early_starts(runs: Mapping[str, Document], starts: Mapping[AttemptId, Truth]) -> Iterator[str]:
    """Yield the lanes that started without a moment, or before it as far as their pod could know."""
    for name, truth in starts.items():
        run = runs.get(name.run_id)
        agreed = None if run is None else run.get("startAt")
        if agreed is None:
            yield f"attempt {name.attempt} of {name.run_id} started, and nobody decided when"
        elif (agreed - truth.moment).total_seconds() > truth.allowed_s + ABOUT_S:
            yield f"attempt {name.attempt} of {name.run_id} started at {truth.moment}, before {agreed}"
