"""What a pod writes of itself, on a real MongoDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import UpdateOne

from events.queue.roster import SAMPLES_MAX, sample
from pod_worker.machine.gauges import Capabilities, Telemetry
from pod_worker.queue.mongo import MongoQueue, connect
from pod_worker.queue.roster import PodReport

REPORT = PodReport(
    id="p/1", pod="p", mode="hybrid", region=None, kinds=("probe",), state="idle", run_id=None, attempt=None,
    device="cpu", capabilities=Capabilities(2, 1024.0), telemetry=Telemetry(0.5, 512.0), version="0",
    started_at=datetime(2026, 1, 1, tzinfo=UTC), isolation="strict", pipeline_user="a user of its own",
)  # fmt: skip


@pytest.fixture
def queue(database_url: str) -> Iterator[MongoQueue]:
    db = connect(database_url)
    with db.client:
        yield MongoQueue(db)


def test_a_report_keeps_a_sample_of_what_is_in_use(database: Any, queue: MongoQueue) -> None:
    assert not queue.report(REPORT).drain
    (hour,) = database.pod_telemetry.find()
    assert [each["cpuUtil"] for each in hour["samples"]] == [0.5]


def test_an_hour_keeps_so_many_samples_however_often_a_pod_reports(database: Any) -> None:
    at = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    told = [sample("p/1", at, {"cpuUtil": number, "memoryMb": None}) for number in range(SAMPLES_MAX + 9)]
    database.pod_telemetry.bulk_write([UpdateOne(hour, update, upsert=True) for hour, update in told])
    (hour,) = database.pod_telemetry.find()
    assert [each["cpuUtil"] for each in hour["samples"]] == list(range(9, SAMPLES_MAX + 9))


def test_a_sample_that_cannot_be_stored_keeps_no_order_from_the_pod(database: Any, queue: MongoQueue) -> None:
    database.command("create", "pod_telemetry", viewOn="pods", pipeline=[])  # a view takes no writes
    queue.report(REPORT)
    database.pods.update_one({"_id": "p/1"}, {"$set": {"orders.drain": True}})
    assert queue.report(REPORT).drain


def test_a_pod_with_a_database_hears_of_its_cordon_and_its_quarantine_by_its_name(
    database: Any, queue: MongoQueue
) -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
    for ends, told in ((until, "a new disk"), (None, "a new disk"), (since, None)):
        cordon = {"reason": "a new disk", "by": "ann", "since": since, "until": ends}
        database.cordons.replace_one({"_id": "p"}, cordon, upsert=True)
        assert queue.report(REPORT).cordon == told
    held = {"reason": "it fails", "since": since, "tryAt": until, "evidence": []}
    for pod, key_id, trial_at, told in (
        ("p", None, None, "it fails"),
        ("p", "another", None, None),
        ("p", None, since, None),
        ("q", None, None, None),
    ):
        entry = {**held, "pod": pod, "keyId": key_id, "trialAt": trial_at}
        database.quarantines.replace_one({"_id": "fleet"}, {"pods": [entry]}, upsert=True)
        assert queue.report(REPORT).quarantine == told
