"""What lags, what a day sums up to, and the bars beside it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from control_plane.lags import Lags, Look, lags
from control_plane.numbers import Accounts
from control_plane.store.numbers import Spent
from control_plane.web.bars import WIDTH, bars

NOW = datetime(2026, 3, 1, 15, 30, tzinfo=UTC)


def look(said_s: float | None = None, stored: int = 0, applied: int = 0) -> Look:
    said = None if said_s is None else (NOW - timedelta(seconds=said_s)).isoformat()
    return Look("r", said, None if said_s is None else NOW, stored, applied)


def test_lags_are_those_of_the_runs_that_spoke() -> None:
    found = lags([look(1), look(3), look(20), look(None), look(-5, stored=7, applied=4)])
    assert found == Lags(5, 2.0, 20.0, 3, 1)
    assert lags([]) == Lags(0, None, None, 0, 0)
    assert lags([Look("r", "no time", NOW, 1, 2)]) == Lags(1, None, None, 0, 0)


@dataclass
class Books:
    """Reads that count how often a day is summed up."""

    asked: Counter[datetime] = field(default_factory=Counter)

    async def spent(self, since: datetime, until: datetime) -> Spent:
        assert until - since == timedelta(days=1)
        self.asked[since] += 1
        return Spent(7_200.0, 1.5, 3, is_partial=False)

    async def ended(self, since: datetime, until: datetime) -> dict[str, int]:
        return {"COMPLETED": 2, "HUMAN_REJECTED": 1, "FAILED": 4, "CANCELED": 1}


@dataclass
class Hand:
    """A clock that a test moves."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


async def test_a_day_that_is_over_is_summed_up_once() -> None:
    books, clock = Books(), Hand()
    accounts = Accounts(books, clock)  # type: ignore[arg-type]
    days = await accounts.days()
    assert [day.start.day for day in days][-3:] == [27, 28, 1]
    assert (days[-1].gpu_hours, days[-1].finished, days[-1].failed, days[-1].canceled) == (2.0, 3, 4, 1)
    await accounts.days()
    today = datetime(2026, 3, 1, tzinfo=UTC)
    assert books.asked[today] == 2
    assert set(books.asked.values()) == {1, 2}
    clock.at = today + timedelta(days=1, seconds=20)  # what came in at midnight may still be on its way
    await accounts.days()
    clock.at += timedelta(hours=1)
    await accounts.days()
    await accounts.days()
    assert books.asked[today] == 4


def widths(values: list[float]) -> list[float]:
    return [float(re.findall(r'<rect width="([0-9.]+)"', picture)[0]) for picture in bars(values, "gpu")]


def test_bars_are_as_long_as_their_numbers() -> None:
    assert widths([1.0, 2.0, 4.0, 0.0]) == [WIDTH / 4, WIDTH / 2, WIDTH, 0.0]
    assert widths([0.0, 0.0]) == [0.0, 0.0]
    assert widths([1e-9, 1.0])[0] > 0
    assert bars([], "gpu") == []
