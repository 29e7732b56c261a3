"""How many bytes of events attempts may leave: what one process remembers of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from control_plane import budgets
from control_plane.budgets import Budgets, Name
from events import catalog as c
from events.codec import decode_ndjson
from events.envelope import Event
from events.testing import RUN_ID, ManualClock, make_line


class Counts:
    """What is stored, and how often somebody asked."""

    def __init__(self) -> None:
        self.stored: dict[Name, int] = {}
        self.asked: list[Name] = []

    async def event_bytes(self, names: Collection[Name]) -> Mapping[Name, int]:
        self.asked += names
        return {name: self.stored[name] for name in names if name in self.stored}

    async def add_event_bytes(self, added: Mapping[Name, int]) -> None:
        for name, size in added.items():
            self.stored[name] = self.stored.get(name, 0) + size


def event(attempt: int) -> Event:
    (decoded,) = decode_ndjson(make_line(c.RunLog(message="x"), attempt=attempt))
    assert isinstance(decoded.outcome, Event)
    return decoded.outcome


async def test_attempts_that_others_name_make_it_forget_the_oldest_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budgets, "KNOWN_MAX", 3)
    counts = Counts()
    counts.stored[RUN_ID, 1] = 100
    held = Budgets(counts, ManualClock(), 100)
    await held.look([(RUN_ID, 2)])
    await held.look([(RUN_ID, 1)])
    assert held.refusal(event(1)) is not None
    for attempt in (3, 4):
        await held.look([(RUN_ID, attempt)])
        assert held.refusal(event(1)) is not None, "it is among the last that were asked for"
    await held.look([(RUN_ID, 1)])
    assert counts.asked.count((RUN_ID, 1)) == 1, "and known still"
    await held.look([(RUN_ID, 2)])
    assert counts.asked.count((RUN_ID, 2)) == 2, "the oldest was forgotten"


async def test_what_was_stored_and_not_told_yet_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, clock = Counts(), ManualClock()
    held = Budgets(counts, clock, 100)
    await held.look([(RUN_ID, 1)])
    held.charge(event(1), 60)
    clock.advance(10)
    await held.look([(RUN_ID, 1)])
    assert held.refusal(event(1)) is None
    held.charge(event(1), 40)
    assert held.refusal(event(1)) is not None
    assert await held.run_once() == 1
    assert counts.stored == {(RUN_ID, 1): 100}
    assert await held.run_once() == 0
