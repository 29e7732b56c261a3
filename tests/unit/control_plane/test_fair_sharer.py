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

    def __init__(self, pod: object = None, class_key: str = "job/24/any/@vision") -> None:
        self.kept: dict[str, Any] = {}
        self.pod, self.class_key = pod, class_key

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
        ended = {"runId": "r", "pod": self.pod, "claimedAt": claimed, "endedAt": ENDED}
        return [ended] if after < ENDED <= until else []

    async def cards(self, pods: set[str]) -> dict[object, int]:
        assert pods == {"pod/b/1"}
        return {"pod/b/1": 4}

    async def costs(self, after: datetime, until: datetime) -> list[dict[str, Any]]:
        return []

    async def classes(self, run_ids: set[str]) -> dict[str, str]:
        return dict.fromkeys(run_ids, self.class_key)

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


@pytest.mark.parametrize("class_key", ["job/cpu/any/@vision", "job/24/any/@vision"])
def test_a_run_is_charged_the_gpus_of_its_slot_whatever_it_asked_for(class_key: str) -> None:
    store = Stored("pod/b/1", class_key)
    asyncio.run(FairSharer(cast("Any", store), HALF_S).run_once())
    assert store.kept["used"]["vision"] == {"decayed": pytest.approx(200.0), "gpuS": 400.0, "usd": 0.0}
