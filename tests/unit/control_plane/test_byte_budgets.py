"""How many bytes of events attempts may leave: what one process remembers of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from control_plane.concurrency.rate_limit import RateLimited
from control_plane.log import byte_budgets
from control_plane.log.byte_budgets import Budgets
from events import catalog as c
from events.codec import decode_ndjson
from events.envelope import Event
from events.kinds.results import RESULT_BYTES_MAX, ROWS_MAX
from events.runtime.errors import Transient
from events.testing import RUN_ID, ManualClock, make_line
from events.text.attempt_id import AttemptId


class Counts:
    """What is stored, and how often somebody asked."""

    def __init__(self) -> None:
        self.stored: dict[str, int] = {}
        self.asked: list[str] = []

    async def event_bytes(self, accounts: Collection[str]) -> Mapping[str, int]:
        self.asked += accounts
        return {each: self.stored[each] for each in accounts if each in self.stored}

    async def add_event_bytes(self, added: Mapping[str, int]) -> None:
        for account, size in added.items():
            self.stored[account] = self.stored.get(account, 0) + size


def account(attempt: int) -> str:
    return byte_budgets.account(AttemptId(RUN_ID, attempt), by_holder=True)


def event(attempt: int) -> Event:
    (decoded,) = decode_ndjson(make_line(c.RunLog(message="x"), attempt=attempt))
    assert isinstance(decoded.outcome, Event)
    return decoded.outcome


async def test_attempts_that_others_name_make_it_forget_the_oldest_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(byte_budgets, "KNOWN_MAX", 3)
    counts = Counts()
    counts.stored[f"{RUN_ID}/a1"] = 100
    held = Budgets(counts, ManualClock(), 100)
    await held.look([account(2)], ())
    await held.look([account(1)], ())
    assert held.refusal(event(1), account(1)) is not None
    for attempt in (3, 4):
        await held.look([account(attempt)], ())
        assert held.refusal(event(1), account(1)) is not None, "it is among the last that were asked for"
    await held.look([account(1)], ())
    assert counts.asked.count(f"{RUN_ID}/a1") == 1, "and known still"
    await held.look([account(2)], ())
    assert counts.asked.count(f"{RUN_ID}/a2") == 2, "the oldest was forgotten"


async def test_what_was_stored_and_not_told_yet_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, clock = Counts(), ManualClock()
    held = Budgets(counts, clock, 100)
    await held.look([account(1)], ())
    held.charge(account(1), None, 60)
    clock.advance(10)
    await held.look([account(1)], ())
    assert held.refusal(event(1), account(1)) is None
    held.charge(account(1), None, 40)
    assert held.refusal(event(1), account(1)) is not None
    assert await held.run_once() == 1
    assert counts.stored == {f"{RUN_ID}/a1": 100}
    assert await held.run_once() == 0


async def test_a_key_over_its_budget_waits_for_the_next_hour_and_no_other_key_does() -> None:
    counts, clock = Counts(), ManualClock()
    held = Budgets(counts, clock, 1_000, key_bytes_max=100)
    for attempt in (1, 2):
        await held.look([account(attempt)], ["k1"])
        held.charge(account(attempt), "k1", 50)
    clock.advance(600)
    with pytest.raises(RateLimited, match="100 bytes of events in this hour") as waits:
        await held.look([account(3)], ["k1"])
    assert waits.value.retry_after_s == 3_000
    await held.look([account(3)], ["k2"])
    assert await held.run_once() == 3
    with pytest.raises(RateLimited):  # so does every other replica hear of it
        await Budgets(counts, clock, 1_000, key_bytes_max=100).look([], ["k1"])
    clock.advance(3_000)
    await held.look([account(3)], ["k1"])


async def test_what_others_stored_is_read_again_after_a_while_and_keeps_the_account_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(byte_budgets, "KNOWN_MAX", 2)
    counts, clock = Counts(), ManualClock()
    held = Budgets(counts, clock, 100)
    for attempt in (1, 2):
        await held.look([account(attempt)], ())
    counts.stored[account(1)] = 100
    await held.look([account(1)], ())
    assert held.refusal(event(1), account(1)) is None
    clock.advance(byte_budgets.KNOWN_S)
    await held.look([account(1)], ())
    assert held.refusal(event(1), account(1)) is not None
    await held.look([account(3)], ())
    assert held.refusal(event(1), account(1)) is not None, "it was read after the second"


async def test_an_end_has_room_beyond_the_budget_which_ends_too() -> None:
    counts = Counts()
    held = Budgets(counts, ManualClock(), 100)
    (decoded,) = decode_ndjson(make_line(c.RunCompleted(), attempt=1))
    assert isinstance(decoded.outcome, Event)
    for stored, has_room in ((100, True), (99 + byte_budgets.RESERVE_BYTES, True), (10**9, False)):
        counts.stored[account(1)] = stored
        held._known.clear()
        await held.look([account(1)], ())
        assert (held.refusal(decoded.outcome, account(1)) is None) is has_room
        assert held.refusal(event(1), account(1)) is not None


async def test_what_others_say_of_an_attempt_is_charged_apart() -> None:
    others = byte_budgets.account(AttemptId(RUN_ID, 1), by_holder=False)
    held = Budgets(Counts(), ManualClock(), 100)
    await held.look([account(1), others], ())
    held.charge(others, None, 100)
    assert held.refusal(event(1), account(1)) is None
    assert "by others than its holder" in (held.refusal(event(1), others) or "")


async def test_a_charge_that_was_not_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts()
    held = Budgets(counts, ManualClock(), 100)
    held.charge(account(1), None, 60)

    async def fail(_: Mapping[str, int]) -> None:
        held.charge(account(1), None, 1)
        raise Transient("mongodb_unreachable", "away")

    with monkeypatch.context() as away:
        away.setattr(counts, "add_event_bytes", fail)
        with pytest.raises(Transient):
            await held.run_once()
    assert await held.run_once() == 1
    assert counts.stored == {account(1): 61}


async def test_rows_of_results_have_a_number_and_bytes_of_their_own() -> None:
    fact = c.ResultRecorded(set="rows", key="k", values={})
    (decoded,) = decode_ndjson(make_line(fact, attempt=1))
    assert isinstance(decoded.outcome, Event)
    row, own = decoded.outcome, byte_budgets.row_account(account(1))
    counts = Counts()
    held = Budgets(counts, ManualClock())
    await held.look([account(1), own], ())
    assert held.refusal(row, account(1), rows_before=ROWS_MAX - 1) is None
    assert "100,000 rows" in (held.refusal(row, account(1), rows_before=ROWS_MAX) or "")
    held.charge_rows(account(1), [1] * (ROWS_MAX - 1))
    assert held.refusal(row, account(1)) is None
    held.charge_rows(account(1), [1])
    assert "256,000,000 bytes" in (held.refusal(row, account(1)) or "")
    assert held.refusal(event(1), account(1)) is None, "whatever else it says has room"
    await held.run_once()
    assert counts.stored[own] == RESULT_BYTES_MAX
    held.charge_rows(account(2), [RESULT_BYTES_MAX])  # few rows, and long ones
    assert held.refusal(row, account(2)) is not None
