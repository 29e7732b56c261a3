"""A fleet whose store is put back to a backup, under pods that have gone on, stands in the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient

from control_plane.store.verify.dumps import draft_of
from events.catalog import RunLog
from events.delivery.control_plane_client import bearer
from events.queue.claims import Claim
from events.queue.matching import WaitingClass
from events.queue.settlement import End
from events.runtime.clock import SystemIds
from events.runtime.errors import LeaseLost, Transient
from events.runtime.guarantees import RESTORE, STATE
from events.testing import make_line
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from podfleet.embedded.ports import choose
from tests.fork_server import Program
from tests.integration.conftest import LOG, NDJSON, Fleet, end, local_client, start_control_plane
from tests.integration.test_backup_of_fleet import command
from tests.servers import S3Server

pytestmark = pytest.mark.slow("real servers, workers and commands")

SHORT_LEASE: Final = ("--lease", "4", "--beat", "0.5")
HELD: Final = ("SCHEDULED", "STARTING", "RUNNING")
WITHOUT_DATABASE: Final = {"MONGODB_URL": ""}
LONG: Final = pytest.mark.long("`make test` has the pods with a database, and each refusal by hand")
PROBES: Final = WaitingClass("runs", "probe/cpu/any", 0)


@dataclass
class House:
    """A fleet whose control plane stops, and comes back at its address."""

    fleet: Fleet
    s3: S3Server
    port: int
    running: list[Program] = field(default_factory=list)

    def start(self) -> None:
        fleet = self.fleet
        self.running = [start_control_plane(fleet.home, fleet.database_url, self.s3, port=self.port)[0]]

    def stop(self) -> None:
        end(self.running)

    def back_up(self) -> None:
        self._command("backup", str(self.fleet.home / "backup"))

    def restore(self) -> None:
        self._command("restore", str(self.fleet.home / "backup"), "--replace", "--yes")

    def repair_and_verify(self) -> None:
        self._command("repair")
        self._command("verify", "--rebuild")

    def _command(self, *arguments: str) -> None:
        done = command(self.fleet.database_url, self.s3, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def house(database_url: str, s3: S3Server, tmp_path: Path) -> Iterator[House]:
    port = choose(SystemIds())
    with local_client(f"http://127.0.0.1:{port}", timeout=30.0) as client:
        fleet = Fleet(str(client.base_url).rstrip("/"), database_url, tmp_path, tmp_path / LOG, client)
        found = House(fleet, s3, port)
        found.start()
        try:
            yield found
        finally:
            end([*fleet.workers, *found.running])


@pytest.mark.parametrize(
    "environment", [pytest.param({}, id="direct"), pytest.param(WITHOUT_DATABASE, marks=LONG, id="http")]
)
@pytest.mark.slow("leases run out, a control plane starts twice, four commands")
def test_pods_that_went_on_serve_the_older_store(house: House, environment: dict[str, str]) -> None:
    fleet = house.fleet
    known = [fleet.submit(spec={"seconds": 0.5, "events": 6, "artifact_bytes": 100}) for _ in range(4)]
    workers = [fleet.start_quick_worker(*SHORT_LEASE, name=name, **environment) for name in ("w1", "w2")]
    fleet.wait_for(known[0], *HELD)
    house.back_up()
    later = [fleet.submit(spec={"seconds": 600, "events": 600}) for _ in range(2)]
    for each in later:
        fleet.wait_for(each, "RUNNING")  # so that all of the backup's have ended
    house.stop()
    house.restore()
    house.start()
    for each in known:
        assert fleet.wait_for(each, "COMPLETED", "FAILED")["status"] == "COMPLETED"
    for each in later:
        assert fleet.client.get(f"/api/runs/{each}").status_code == 404
    new = fleet.submit(spec={"seconds": 0, "events": 3})
    assert fleet.wait_for(new, "COMPLETED", "FAILED")["status"] == "COMPLETED"
    assert [each.poll() for each in workers] == [None, None]
    house.repair_and_verify()


def take(house: House, token: str, pod: str) -> tuple[MongoQueue, Claim]:
    queue = MongoQueue(connect(house.fleet.database_url))
    claim = queue.take(PROBES, token=token, pod=pod)
    assert claim is not None
    return queue, claim


def said(house: House, claim: Claim, message: str, number: int) -> int:
    """Send an event of an attempt as its pod does; return the status."""
    line = make_line(RunLog(message=message), sequence=number, run_id=claim.run_id, attempt=claim.attempt)
    headers = {**NDJSON, **bearer(claim.run_token)}
    answer = house.fleet.client.post("/api/ingest/events", content=line, headers=headers)
    return answer.status_code


def test_who_held_an_attempt_that_is_given_out_again_writes_nothing_into_it(house: House) -> None:
    run = house.fleet.submit()
    house.back_up()
    queue, old = take(house, letters(SystemIds().token()), "first/1")
    assert said(house, old, "of a time that is gone", 1) == 202
    house.stop()
    house.restore()
    house.start()
    second, new = take(house, letters(SystemIds().token()), "second/1")
    assert (new.run_id, new.attempt) == (old.run_id, old.attempt) == (run, 1)
    for refused in (
        lambda: queue.renew(old),
        lambda: queue.settle(old, End("failed", "KILLED", "late"), 2, jitter=0.0),
    ):
        with pytest.raises(LeaseLost):
            refused()
    assert queue.recover(["runs"], old.token) is None
    assert said(house, old, "late", 2) == 401
    upload = {"name": "probe.bin", "size": 1, "sha256": "0" * 64, "mime_type": "application/octet-stream"}
    asked = house.fleet.client.post(
        f"/api/runs/{run}/artifacts/presign", json=upload, headers=bearer(old.run_token)
    )
    assert asked.status_code == 401, asked.text
    assert said(house, new, "of now", 1) == 202
    events = house.fleet.client.get(f"/api/runs/{run}/events").json()
    assert "of now" in str(events)
    assert "of a time that is gone" not in str(events)
    for each in (queue, second):
        each.db.client.close()


def test_a_pod_with_a_database_claims_nothing_and_loses_nothing_while_a_backup_is_restored(
    house: House,
) -> None:
    run = house.fleet.submit()
    queue, claim = take(house, letters(SystemIds().token()), "first/1")
    with MongoClient[dict[str, Any]](house.fleet.database_url) as client:
        db = client.get_default_database()
        db[STATE].insert_one({"_id": RESTORE, "backup": "of the test"})
        db.runs.rename(draft_of("runs"))
        for refused in (
            lambda: queue.check("hybrid"),
            lambda: queue.renew(claim),
            lambda: queue.settle(claim, End("completed"), 0, jitter=0.0),
            lambda: queue.recover(["runs"], claim.token),
            lambda: queue._shares(),
        ):
            with pytest.raises(Transient, match="being restored"):
                refused()
        db[draft_of("runs")].rename("runs")
        db[STATE].delete_one({"_id": RESTORE})
    queue.renew(claim)
    assert claim.run_id == run
    queue.db.client.close()
