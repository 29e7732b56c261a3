"""What the fair sharer stores."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from control_plane.upkeep.fair_sharer import BEHIND, FairSharer

HALF_S = 600.0
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
ENDED = NOW - BEHIND - timedelta(seconds=HALF_S)


class Stored:
    """A store in which one attempt of a hundred seconds has ended."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def now(self) -> datetime:
        return NOW

    async def shares(self) -> None:
        return None

    async def usage(self) -> None:
        return None

    async def all(self) -> list[dict[str, Any]]:
        return [{"_id": "vision", "weight": 1.0, "quotas": {"gpus": None, "gpuHours": None, "usd": None}}]

    async def ended(self, after: datetime, until: datetime) -> list[dict[str, Any]]:
        claimed = ENDED - timedelta(seconds=100)
        return [{"runId": "r", "claimedAt": claimed, "endedAt": ENDED}] if after < ENDED <= until else []

    async def costs(self, after: datetime, until: datetime) -> list[dict[str, Any]]:
        return []

    async def classes(self, run_ids: set[str]) -> dict[str, str]:
        return dict.fromkeys(run_ids, "job/24/any/@vision")

    async def held(self) -> list[dict[str, Any]]:
        return []

    async def keep(self, revision: int, fields: dict[str, Any]) -> bool:
        self.kept = fields
        return True

    async def tell(self, told: list[dict[str, Any]], at: datetime) -> None: ...


def test_what_ended_a_half_life_ago_is_stored_as_half() -> None:
    store = Stored()
    assert asyncio.run(FairSharer(cast("Any", store), HALF_S).run_once()) == 2
    assert store.kept["used"]["vision"] == {"decayed": pytest.approx(50.0), "gpuS": 100.0, "usd": 0.0}
