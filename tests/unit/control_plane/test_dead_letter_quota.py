"""Room for refused lines."""

from __future__ import annotations

import pytest

from control_plane.store.log.dead_letter_quota import (
    COUNTED_EVERY,
    LETTERS_MAX,
    LOOKED_EVERY,
    DeadLetterQuota,
)


def test_letters_are_kept_up_to_the_bound_and_a_full_room_is_told_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room, stored, counted = DeadLetterQuota(), LETTERS_MAX - COUNTED_EVERY - 5, 0
    for _ in range(LOOKED_EVERY):
        if room.is_to_be_counted(100):
            counted += 1
            room.found(stored)
        stored += room.take(100)
    assert stored == LETTERS_MAX
    assert counted < 5
    assert [each.message for each in caplog.records] == ["letters.full"]
    while not room.is_to_be_counted(100):
        assert room.take(100) == 0
    room.found(stored - 300)
    assert room.take(100) == 100
