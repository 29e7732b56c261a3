"""`/metrics` and `/numbers` over real HTTP: they count what happened, and what they say has a unit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from events.catalog import RunLog, RunStarted, RunUsage
from events.envelope import Head, wire
from events.runtime.clock import SystemClock
from events.text.attempt_id import AttemptId
from pod_worker.delivery import DeliveryReport
from tests.integration.test_roster import REPORT

LONG_AGO = "2026-01-01T00:00:00Z"
NDJSON = {"content-type": "application/x-ndjson"}


def scrape(fleet: Any) -> dict[str, float]:
    answer = fleet.client.get("/metrics")
    assert answer.status_code == 200
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_what_ended_what_it_cost_and_what_was_refused_is_counted(fleet: Any, until: Any) -> None:
    # What is of today here has to be of today at the end.
    until(lambda: f"{SystemClock().now():%H:%M}" != "23:59", seconds=70)
    run = fleet.submit(spec={"seconds": 0, "events": 1})
    bad = fleet.submit(spec={"seconds": 0, "events": 1, "end": "exception"})
    fleet.start_worker()
    fleet.wait_for(run, "COMPLETED")
    fleet.wait_for(bad, "FAILED")
    heads = [
        Head(
            id=name, source="//test", attempt_id=AttemptId(of, 1), sequence=None, time="2026-01-01T00:00:00Z"
        )
        for name, of in (("u1", run), ("u2", "nobody"), ("u3", bad))
    ]
    spent = wire(RunUsage(gpu_s=5_400.0, cost_usd=2.5, model="m", prompt_tokens=7), heads[0])
    line = wire(RunLog(message="m"), heads[1])
    back = wire(RunUsage(gpu_s=-1e9, cost_usd=-1e6, model="m", prompt_tokens=-(10**9)), heads[2])
    lines = b"\n".join([spent, b"{", line, back])
    answer = fleet.client.post("/api/ingest/events", content=lines, headers=NDJSON)
    assert answer.status_code == 207, answer.text
    found = scrape(fleet)
    assert found["podfleet_gpu_today_hours"] == 1.5
    assert found["podfleet_spent_today_usd"] == 2.5
    usage = [fleet.run(each)["usage"] for each in (run, bad)]
    assert [(each["costUsd"], each["promptTokens"]) for each in usage] == [(2.5, 7), (0, 0)]
    assert usage[0]["gpuSeconds"] == 5_400.0
    assert found['podfleet_runs_ended_today{end="good"}'] == 1
    assert found['podfleet_runs_ended_today{end="failed"}'] == 1
    assert found['podfleet_events_refused_total{code="bad_json"}'] == 1
    assert found['podfleet_dead_letters_today{code="bad_json"}'] == 1
    assert found['podfleet_http_answers_total{status="2xx"}'] > 3
    assert found["podfleet_projection_lag_events"] == 0
    page = fleet.client.get("/numbers")
    assert page.status_code == 200
    assert "$2.50" in page.text
    assert re.search(r"<strong>1</strong>failed today", page.text)
    assert "<code>bad_json</code>" in page.text
    assert page.text.count("<svg") == 28
    assert "style=" not in page.text


@pytest.mark.common_fleet
def test_what_waits_behind_a_gap_is_a_lag(fleet: Any, by_hand: Any) -> None:
    fleet.submit()
    one = by_hand("runs", "probe/cpu/any")
    one.say(RunStarted(), RunLog(message="second"))
    assert scrape(fleet)["podfleet_projection_lag_runs"] == 0
    one.sequence += 1  # the third is on its way
    one.say(RunLog(message="fourth"))
    found = scrape(fleet)
    assert found["podfleet_projection_lag_runs"] == 1
    assert found["podfleet_projection_lag_events"] == 2
    assert found['podfleet_ingest_lag_seconds{stat="max"}'] > 0
    assert "2 events of 1 run not applied yet" in fleet.client.get("/numbers").text


@pytest.mark.common_fleet
def test_every_number_has_help_and_the_queue_is_gone_when_it_is_empty(fleet: Any) -> None:
    run = fleet.submit()
    assert scrape(fleet)['podfleet_queue_depth{class_key="probe/cpu/any"}'] == 1
    fleet.client.post(f"/api/runs/{run}/cancel")
    text = fleet.client.get("/metrics").text
    assert "podfleet_queue_depth{" not in text
    helps = re.findall(r"^# HELP (podfleet_\w+) (.+)$", text, flags=re.M)
    assert len(helps) > 12
    assert all(len(says) > 10 for _, says in helps)


@pytest.mark.common_fleet
def test_what_stands_and_should_not_is_counted_and_how_much_room_there_is(fleet: Any, by_hand: Any) -> None:
    fleet.submit()
    one = by_hand("runs", "probe/cpu/any")
    found = scrape(fleet)
    assert found["podfleet_leases_over"] == found["podfleet_lease_over_oldest_seconds"] == 0
    assert found['podfleet_disk_free_bytes{part="store"}'] > 0
    assert 'podfleet_disk_free_bytes{part="pods"}' not in found, "no pod has said so"
    db = one.queue.db
    run_id = one.claim.run_id
    db.runs.update_one({"_id": run_id}, [{"$set": {"lease.until": {"$subtract": ["$$NOW", 90_000]}}}])
    for name, oldest_s, free, failures in (("a", 7.5, 10**9, {"X": 2}), ("b", 2.0, 10**10, {"X": 1, "Y": 4})):
        delivery = DeliveryReport(
            waiting=3, oldest_s=oldest_s, disk_free_bytes=free, upload_failures=failures
        )
        one.queue.report(replace(REPORT, id=f"{name}/1", pod=name, delivery=delivery))
    one.queue.report(replace(REPORT, id="old/1", pod="old"))
    found = scrape(fleet)
    assert found["podfleet_leases_over"] == 1
    assert 90 <= found["podfleet_lease_over_oldest_seconds"] < 300
    assert (found["podfleet_outbox_waiting_events"], found["podfleet_outbox_oldest_seconds"]) == (6, 7.5)
    assert found['podfleet_disk_free_bytes{part="pods"}'] == 10**9
    assert [found[f'podfleet_upload_failures{{code="{code}"}}'] for code in "XY"] == [3, 4]
