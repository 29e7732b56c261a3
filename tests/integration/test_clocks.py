"""Clocks an hour off, in both directions, at start and in mid-run: of a pod, a control plane, a storage."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane.config import read_storage
from control_plane.files.blobs import open_blobs
from control_plane.files.signing import Content
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError
from events.runtime.measured_clock import MeasuredClock
from podfleet.commands.maintenance import doctor
from tests.integration.conftest import (
    LOG,
    QUICK_WORKER,
    Fleet,
    end,
    local_client,
    start_control_plane,
)
from tests.integration.programs.timed_storage import TimedStorage, serving
from tests.servers import S3Server

HOUR_S = 3600.0
CLOSE_S = 20.0  # what measuring on a busy machine may be off: half of what an answer takes
CLOSE = timedelta(seconds=CLOSE_S)
AN_HOUR = r"3,(59|60)\d s"  # about
PROGRAMS = Path(__file__).parent / "programs"
WRONG_CLOCK = str(PROGRAMS / "wrong_clock.py")
BOTH_WAYS = pytest.mark.parametrize("way", [1, -1], ids=["ahead", "behind"])
DIRECT: dict[str, str] = {}
OVER_HTTP = {"MONGODB_URL": ""}
Until = Callable[..., None]


def shift_of(home: Path, seconds: float) -> str:
    """Write by how much a clock is ahead; return the file."""
    shift = home / "shift"
    set_clock(shift, seconds)
    return str(shift)


def set_clock(shift: Path, seconds: float) -> None:
    fresh = shift.with_suffix(".new")
    fresh.write_text(str(seconds))
    fresh.rename(shift)  # a reader sees the old text or the new one


def start_pod(fleet: Fleet, shift: str, **environment: str) -> None:
    fleet.start(WRONG_CLOCK, shift, QUICK_WORKER, name="w1", WORKER_MODE="hybrid", **environment)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def events_of(fleet: Fleet, run_id: str) -> list[dict[str, Any]]:
    answer = fleet.client.get(f"/api/runs/{run_id}/events", params={"limit": 200})
    assert answer.status_code == httpx.codes.OK, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def require_one_axis(fleet: Fleet, run: dict[str, Any]) -> None:
    """Require that all moments of a run lie where the store's clock was meanwhile."""
    first, last = moment(run["createdAt"]) - CLOSE, moment(run["finishedAt"]) + CLOSE
    told = [run["startedAt"], *(each["time"] for each in events_of(fleet, run["id"]))]
    assert len(told) > 5
    assert [each for each in told if not first <= moment(each) <= last] == []
    assert run["attempt"] == 1, run


def the_pod(fleet: Fleet) -> dict[str, Any]:
    (pod,) = fleet.client.get("/api/pods").json()["items"]
    found: dict[str, Any] = pod
    return found


def metric(client: httpx.Client, name: str) -> float | None:
    found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return None if found is None else float(found[1])


@pytest.mark.common_fleet
@pytest.mark.parametrize("where", [DIRECT, OVER_HTTP], ids=["direct", "over HTTP"])
def test_a_pods_clock_that_is_set_in_mid_run_costs_nothing(
    fleet: Fleet, until: Until, where: dict[str, str]
) -> None:
    shift = shift_of(fleet.home, 0.0)
    start_pod(fleet, shift, **where)
    run_id = fleet.submit(spec={"seconds": 3, "events": 30})
    for way, begun in ((1, 5), (-1, 15)):  # from one side to the other
        until(lambda begun=begun: len(events_of(fleet, run_id)) >= begun)
        set_clock(Path(shift), way * HOUR_S)
    run = fleet.wait_for(run_id, "COMPLETED")
    require_one_axis(fleet, run)
    until(lambda: abs((the_pod(fleet)["clockOffsetS"] or 0.0) + HOUR_S) < CLOSE_S)
    shown = fleet.client.get(f"/pods/{the_pod(fleet)['id']}").text
    assert re.search(rf"{AN_HOUR} behind the store", shown)
    assert abs((metric(fleet.client, "podfleet_pod_clock_offset_seconds_max") or 0.0) - HOUR_S) < CLOSE_S
    assert "clock.off" in (fleet.home / "w1.log").read_text()


@pytest.mark.common_fleet
@pytest.mark.parametrize(
    ("where", "ahead_s"), [(DIRECT, 50.0), (OVER_HTTP, -50.0)], ids=["direct, ahead", "over HTTP, behind"]
)
def test_a_pod_that_starts_with_a_wrong_clock_shows_the_stores_moments(
    fleet: Fleet, where: dict[str, str], ahead_s: float
) -> None:
    begun = SystemClock().now()
    start_pod(fleet, shift_of(fleet.home, ahead_s), **where)
    run = fleet.wait_for(fleet.submit(spec={"seconds": 0.5, "events": 10}), "COMPLETED")
    require_one_axis(fleet, run)
    pod = the_pod(fleet)
    assert abs(pod["clockOffsetS"] - ahead_s) < CLOSE_S
    assert begun - CLOSE < moment(pod["startedAt"]) < moment(pod["reportedAt"]) + CLOSE


@BOTH_WAYS
def test_a_control_plane_an_hour_off_serves_as_any(
    database_url: str, s3: S3Server, tmp_path: Path, until: Until, way: int
) -> None:
    shift = shift_of(tmp_path, way * HOUR_S)
    program = (WRONG_CLOCK, shift, "-m", "control_plane")
    process, url = start_control_plane(tmp_path, database_url, s3, program=program)
    with local_client(url, timeout=30.0) as client:
        fleet = Fleet(url, database_url, tmp_path, tmp_path / LOG, client, [process])
        try:
            fleet.start_quick_worker(MONGODB_URL="")
            run = fleet.wait_for(fleet.submit(spec={"seconds": 0.2, "events": 10}), "COMPLETED")
            require_one_axis(fleet, run)
            assert_offset(client, way * HOUR_S, "control_plane")
            assert_offset(client, 0.0, "storage")
            how = "ahead of" if way > 0 else "behind"
            assert re.search(rf"{AN_HOUR} {how} the store", client.get("/numbers").text)
            told = parsedate_to_datetime(client.get("/healthz").headers["date"])
            assert abs(told - SystemClock().now()) < timedelta(minutes=1), "answers have the store's date"
            assert "clock.off" in fleet.log.read_text()
            set_clock(Path(shift), -way * HOUR_S)  # from one side to the other
            until(lambda: offset_is(client, -way * HOUR_S, "control_plane"))
            run = fleet.wait_for(fleet.submit(spec={"seconds": 0.2, "events": 10}), "COMPLETED")
            require_one_axis(fleet, run)
            pod = the_pod(fleet)
            assert pod["state"] in {"idle", "busy", "starting"}, "it serves, and is not shown as gone"
            assert abs(pod["clockOffsetS"]) < CLOSE_S, (
                "the pod's clock is right, whatever its control plane's"
            )
        finally:
            end(fleet.workers)


@BOTH_WAYS
def test_a_storage_an_hour_off_takes_what_is_signed_for_its_clock(
    database_url: str, tmp_path: Path, until: Until, way: int
) -> None:
    with serving(TimedStorage(way * HOUR_S)) as storage:
        process, url = start_control_plane(tmp_path, database_url, as_server(storage))
        with local_client(url, timeout=30.0) as client:
            fleet = Fleet(url, database_url, tmp_path, tmp_path / LOG, client, [process])
            try:
                fleet.start_quick_worker()
                run = fleet.wait_for(fleet.submit(spec={"seconds": 0.2, "events": 10}), "COMPLETED")
                require_one_axis(fleet, run)
                assert storage.refused == []
                assert_offset(client, way * HOUR_S, "storage")
                storage.ahead_s = -way * HOUR_S
                until(lambda: offset_is(client, -way * HOUR_S, "storage"))
                run = fleet.wait_for(fleet.submit(spec={"seconds": 0.2, "events": 10}), "COMPLETED")
                assert run["attempt"] == 1
                found = client.get(f"/api/runs/{run['id']}/artifacts").json()["items"]
                assert [each["name"] for each in found] == ["probe.bin"]
            finally:
                end(fleet.workers)


@BOTH_WAYS
def test_the_storage_refuses_keys_and_is_not_blamed_for_a_clock_in_silence(way: int) -> None:
    words = rf"the clock of this machine is {AN_HOUR} {'behind' if way > 0 else 'ahead of'} the storage's"
    with serving(TimedStorage(way * HOUR_S, refuses_keys=True)) as storage:
        with pytest.raises(ConfigError, match=words):
            asyncio.run(open_blobs(read_storage(storage.environment)).prepare())
        storage.ahead_s = 0.0
        with pytest.raises(ConfigError, match=r"refuses them \(AccessDenied\)$"):
            asyncio.run(open_blobs(read_storage(storage.environment)).prepare())
        storage.tells_time = False
        with pytest.raises(
            ConfigError, match="it does not tell its time: is the clock of this machine right"
        ):
            asyncio.run(open_blobs(read_storage(storage.environment)).prepare())


@BOTH_WAYS
def test_a_signature_for_another_time_is_made_again_for_the_right_one(way: int) -> None:
    with serving(TimedStorage()) as storage:
        blobs = open_blobs(read_storage(storage.environment))
        asyncio.run(blobs.prepare())
        storage.objects[f"/{blobs.bucket}/a"] = b"content"
        storage.ahead_s = way * HOUR_S  # since the last measurement
        found = asyncio.run(blobs.beginning("a", 99))
        assert found is not None
        assert found[1] == b"content"
        assert storage.refused == [f"HEAD /{blobs.bucket}/a RequestTimeTooSkewed"]
        signed = blobs.puts.sign("b", Content(3))
        assert httpx.put(signed.url, content=b"new", trust_env=False).status_code == httpx.codes.OK


@BOTH_WAYS
def test_the_embedded_storage_takes_what_an_hour_off_would_refuse(s3: S3Server, way: int) -> None:
    class Wrong(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(seconds=way * HOUR_S)

    blobs = open_blobs(read_storage(s3.environment), MeasuredClock(Wrong()))
    assert asyncio.run(blobs.version("clocks/none")) is None, "the first request is refused, and measures"
    key = f"clocks/{SystemIds().ulid()}"
    signed = blobs.puts.sign(key, Content(3))
    put = httpx.put(signed.url, content=b"new", headers=signed.headers, trust_env=False)
    assert put.status_code == httpx.codes.OK, put.text
    found = asyncio.run(blobs.beginning(key, 9))
    assert found is not None
    assert found[1] == b"new"
    url = asyncio.run(blobs.get_url(key, name="new"))
    assert httpx.get(url, trust_env=False).content == b"new"
    assert blobs.clock.machine_ahead_s == pytest.approx(way * HOUR_S, abs=CLOSE_S)


@BOTH_WAYS
def test_the_doctor_names_the_clock_that_is_wrong(
    database_url: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, way: int
) -> None:
    true = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: true(self) + timedelta(seconds=way * HOUR_S))
    found = list(doctor.clocks({"MONGODB_URL": database_url, **s3.environment}))
    how = "ahead of" if way > 0 else "behind"
    assert [each.state for each in found] == ["failed"] * 2
    for each, whose in zip(found, ("store", "storage"), strict=True):
        assert re.fullmatch(rf"{AN_HOUR} {how} the {whose}'s", each.says)
    monkeypatch.setattr(doctor, "PATIENCE_S", 0.1)
    assert list(doctor.clocks({"MONGODB_URL": "mongodb://127.0.0.1:1/x"})) == [], "nobody answers there"


def as_server(storage: TimedStorage) -> S3Server:
    environment = storage.environment
    return S3Server(
        endpoint=environment["MINIO_ENDPOINT"],
        access_key=environment["MINIO_ACCESS_KEY"],
        secret_key=environment["MINIO_SECRET_KEY"],
        bucket=environment["MINIO_BUCKET"],
        region=environment["MINIO_REGION"],
        environment=environment,
    )


def offset_is(client: httpx.Client, wanted_s: float, part: str) -> bool:
    found = metric(client, f'podfleet_clock_offset_seconds{{part="{part}"}}')
    return found is not None and abs(found - wanted_s) < CLOSE_S


def assert_offset(client: httpx.Client, wanted_s: float, part: str) -> None:
    assert offset_is(client, wanted_s, part), client.get("/metrics").text
