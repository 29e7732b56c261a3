"""Which stretches of a log are lost, and what takes their place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest

from control_plane.store.log.events import Arrival, storable
from control_plane.verify.invariants import GAP_GRACE
from control_plane.verify.lost_stretch import POSITIONS_MAX, LostStretch, lost_stretches
from events.catalog import EventRefused
from events.testing import EPOCH, RUN_ID
from events.text.attempt_id import AttemptId
from tests.unit.control_plane.test_invariants import NOW, TICK, make_event, make_evidence, make_run

FIRST: Final = AttemptId(RUN_ID, 1)


def lost(held: Sequence[int], applied: int, *, age: timedelta = GAP_GRACE + TICK, **run: Any) -> list[str]:
    """Return what is lost of a log with these positions, of which so many were applied."""
    attempt = {"_id": f"{RUN_ID}/a1", "attempt": 1, "pod": "pod/1", "lastEventSeq": applied}
    evidence = make_evidence(
        run=make_run(lastEventSeq=applied, **run),
        events=[make_event(each, at=NOW - age) for each in held],
        attempts=[attempt],
    )
    return [str(each) for each in lost_stretches(evidence)]


def test_each_gap_behind_which_events_wait_is_lost() -> None:
    assert lost([1, 2, 5, 6, 9], 2) == ["events 3 to 4 of attempt 1", "events 7 to 8 of attempt 1"]


@pytest.mark.parametrize("held", [[], [1, 2], [1, 2, 3]])
def test_a_log_without_a_gap_has_lost_nothing(held: list[int]) -> None:
    assert lost(held, len(held)) == []


def test_a_gap_that_a_pod_may_still_fill_is_left() -> None:
    assert lost([1, 3], 1, age=GAP_GRACE) == []


def test_nothing_is_added_to_a_record_that_a_verdict_rests_on() -> None:
    assert lost([1, 3], 1, sealed={"attempt": 1}) == []
    assert lost([1, 3], 1, sealed={"attempt": 2}) == ["events 2 to 2 of attempt 1"]


def test_a_stretch_is_too_long_from_a_hundred_thousand_positions_on() -> None:
    assert not LostStretch(FIRST, 1, POSITIONS_MAX).is_too_long
    assert LostStretch(FIRST, 1, POSITIONS_MAX + 1).is_too_long


def test_each_lost_position_is_filled_with_a_line_that_says_so_under_an_id_of_its_own() -> None:
    found = list(LostStretch(FIRST, 3, 5).lines(EPOCH, "vera"))
    assert [each.sequence for each in found] == [3, 4, 5]
    assert {each.attempt_id for each in found} == {FIRST}
    assert all(isinstance(each.fact, EventRefused) and "vera" in each.fact.message for each in found)
    assert len({storable(each, Arrival("p", EPOCH))["_id"] for each in found}) == 3


def test_the_run_keeps_where_when_and_by_whom() -> None:
    assert LostStretch(FIRST, 3, 5).mark(EPOCH, "vera") == {
        "attempt": 1, "from": 3, "to": 5, "at": EPOCH, "by": "vera",
    }  # fmt: skip
