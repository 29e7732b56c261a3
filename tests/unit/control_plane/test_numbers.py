"""What lags, what a day sums up to, and the bars beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from control_plane.model.positions.lag import Lags, Look, lags
from control_plane.reads.numbers import Accounts
from control_plane.server.web.drawing.bars import WIDTH, bars
from control_plane.store.numbers import Spent

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
class Hand:
    """A clock that a test moves."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@dataclass
class Books:
    """Reads by the clock: one event, one end and half a dollar a minute; they note what they were asked."""

    clock: Hand
    asked: list[tuple[datetime, datetime]] = field(default_factory=list)

    def minutes(self, since: datetime, until: datetime) -> int:
        return max(0, int((min(until, self.clock.at) - since).total_seconds() // 60))

    async def spent(self, since: datetime, until: datetime) -> Spent:
        self.asked.append((since, until))
        minutes = self.minutes(since, until)
        return Spent(60.0 * minutes, 0.5 * minutes, minutes, is_partial=False)

    async def ended(self, since: datetime, until: datetime) -> dict[str, int]:
        minutes = self.minutes(since, until)
        return {
            "COMPLETED": minutes,
            "HUMAN_REJECTED": 1 if minutes else 0,
            "FAILED": 2 * minutes,
            "CANCELED": 0,
        }


async def test_what_is_settled_is_summed_up_once() -> None:
    clock = Hand()
    books = Books(clock)
    accounts = Accounts(books, clock)  # type: ignore[arg-type]
    days = await accounts.days()
    assert [day.start.day for day in days][-3:] == [27, 28, 1]
    assert (days[0].gpu_hours, days[0].finished, days[0].failed, days[0].canceled) == (24.0, 1441, 2880, 0)
    assert len(books.asked) == len(days) + 1
    today, settled = datetime(2026, 3, 1, tzinfo=UTC), NOW - timedelta(minutes=5)
    assert books.asked[-2:] == [(today, settled), (settled, today + timedelta(days=1))]
    clock.at += timedelta(seconds=50)
    assert (await accounts.today()).cost_usd == 0.5 * 930
    assert books.asked[len(days) + 1 :] == books.asked[len(days) : len(days) + 1]
    clock.at += timedelta(seconds=70)
    assert (await accounts.days())[-1].cost_usd == 0.5 * 932
    later = clock.at - timedelta(minutes=5)
    assert books.asked[-2:] == [(settled, later), (later, today + timedelta(days=1))]
    clock.at = today + timedelta(days=1, minutes=5)
    assert (await accounts.day(today)).cost_usd == 0.5 * 1440
    asked = len(books.asked)
    assert (await accounts.day(today)).cost_usd == 0.5 * 1440
    assert len(books.asked) == asked


def widths(values: list[float]) -> list[float]:
    return [float(re.findall(r'<rect width="([0-9.]+)"', picture)[0]) for picture in bars(values, "gpu")]


def test_bars_are_as_long_as_their_numbers() -> None:
    assert widths([1.0, 2.0, 4.0, 0.0]) == [WIDTH / 4, WIDTH / 2, WIDTH, 0.0]
    assert widths([0.0, 0.0]) == [0.0, 0.0]
    assert widths([1e-9, 1.0])[0] > 0
    assert bars([], "gpu") == []


def test_absurd_sums_have_bars() -> None:
    assert "inf" not in "".join(bars([1e308, 1e307], "cost"))
    assert len({str(bar) for bar in bars([1e308, 1e307], "cost")}) == 2
