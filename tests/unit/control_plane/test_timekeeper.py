"""What is said of the clocks of a control plane and of its storage."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from control_plane.config import read_storage
from control_plane.files.blobs import open_blobs
from control_plane.upkeep.timekeeper import Timekeeper
from events.runtime.measured_clock import MeasuredClock
from events.testing import ManualClock

NOWHERE = {
    "MINIO_ENDPOINT": "127.0.0.1:1",
    "MINIO_ACCESS_KEY": "key",
    "MINIO_SECRET_KEY": "secret-secret",
    "MINIO_REGION": "us-east-1",
}


@dataclass(slots=True)
class Store:
    """The store's clock, and the machine's beside it."""

    machine: ManualClock
    behind_s: float = 0.0

    async def now(self) -> datetime:
        return self.machine.now() - timedelta(seconds=self.behind_s)


def timekeeper(behind_s: float) -> tuple[Timekeeper, Store]:
    store = Store(ManualClock(), behind_s)
    return Timekeeper(
        MeasuredClock(store.machine),
        store.now,
        open_blobs(read_storage(NOWHERE), MeasuredClock(store.machine)),
    ), store


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0, 0.5])
def test_every_part_is_compared_with_the_store(ahead_s: float) -> None:
    keeper, store = timekeeper(ahead_s)
    assert keeper.offsets() == {}, "nothing is told before it was measured"
    asyncio.run(keeper.run_once())
    assert keeper.offsets() == {"control_plane": pytest.approx(ahead_s, abs=0.01)}
    keeper.blobs.clock.note(store.machine.now(), asked_s=store.machine.monotonic_s())
    assert keeper.offsets()["storage"] == pytest.approx(ahead_s, abs=0.01)


def test_a_clock_that_is_off_is_logged_once_and_once_when_it_is_right_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    keeper, store = timekeeper(3600.0)
    for _ in range(3):
        asyncio.run(keeper.run_once())
    store.behind_s = 0.0
    for _ in range(3):
        asyncio.run(keeper.run_once())
    assert [record.message for record in caplog.records] == ["clock.off", "clock.right"]
    why = vars(caplog.records[0])["why"]
    assert why == "the clock of the control plane is 3,600 s ahead of the store's"


def test_a_storage_that_is_away_is_logged_once_and_the_stores_clock_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keeper, _ = timekeeper(0.0)
    for _ in range(2):
        asyncio.run(keeper.measure_storage())
    assert [record.message for record in caplog.records if record.name == keeper.__module__] == [
        "storage.away"
    ]
    asyncio.run(keeper.run_once())
    assert set(keeper.offsets()) == {"control_plane"}
