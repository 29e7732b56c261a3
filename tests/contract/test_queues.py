"""What a worker may rely on, whichever way it reaches the queue: in MongoDB itself, or over HTTP."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from events import record_digest
from events.catalog import RunCompleted, RunStarted
from events.delivery.control_plane_client import ControlPlane, control_plane_client
from events.delivery.ingest_client import HttpIngest
from events.delivery.sender import Taken
from events.envelope import Head, wire
from events.kinds.declaring.queues import Mode
from events.queue.abilities import Abilities
from events.queue.claims import Claim
from events.queue.matching import Seeker, WaitingClass
from events.queue.roster import REPORT_EVERY_S
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Barred, LeaseLost, Transient
from events.text.key_text import digest, letters
from pod_worker.delivery import DeliveryReport
from pod_worker.machine.gauges import Capabilities, Cuda, Telemetry
from pod_worker.machine.gpu import Gpu
from pod_worker.machine.hardware import Disk
from pod_worker.machine.inventory import Inventory, Model
from pod_worker.queue.http import HttpQueue
from pod_worker.queue.mongo import MongoQueue, connect
from pod_worker.queue.roster import PodReport, source_of
from pod_worker.services.orders import Outcome
from tests.integration.conftest import Fleet, fleet_on
from tests.servers import own_database

pytestmark = pytest.mark.xdist_group("queues")

Adapter = MongoQueue | HttpQueue
POD = "pod-1/abc"


@dataclass(frozen=True)
class House:
    """A queue with the fleet that it belongs to."""

    queue: Adapter
    fleet: Any
    db: Database[dict[str, Any]]
    client: httpx.Client

    def claim(self, token: str, mode: Mode = "experiment", **abilities: Any) -> Claim | None:
        able = {"kinds": frozenset({"probe"}), "gpu_gib": 0.0, "region": None, "pod": "pod-1", **abilities}
        return self.queue.claim(Seeker(POD, mode, Abilities(**able)), token=token)

    def claimed(self, **abilities: Any) -> Claim:
        claim = self.claim(token(), **abilities)
        assert claim is not None
        return claim

    def stored(self, claim: Claim) -> dict[str, Any]:
        found = self.db[claim.collection].find_one({"_id": claim.run_id})
        assert found is not None
        return found

    def expire(self, claim: Claim) -> None:
        """Let a lease be taken from its owner, as a rescue does; no sweeper queues the run meanwhile."""
        until = SystemClock().now() + timedelta(hours=1)
        changes = {
            "lease": None, "status": "DELAYED", "notBefore": until, "claimedBy": None, "logOpen": False,
        }  # fmt: skip
        self.db[claim.collection].update_one({"_id": claim.run_id}, {"$set": changes})


def token() -> str:
    return letters(SystemIds().token())


def mongo(fleet: Any) -> tuple[Adapter, Callable[[], None]]:
    db = connect(fleet.database_url)
    return MongoQueue(db), db.client.close


def http(fleet: Any) -> tuple[Adapter, Callable[[], None]]:
    client = control_plane_client(fleet.url, None)
    return HttpQueue(ControlPlane(client, SystemClock()), wait_s=0.0), client.close


@pytest.fixture(scope="module")
def fleet(mongod: Any, s3: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet that these tests share; each begins with empty queues."""
    home = tmp_path_factory.mktemp("queues")
    with own_database(mongod) as url, fleet_on(url, s3, home) as started:
        yield started


@pytest.fixture(params=[mongo, http])
def house(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[House]:
    queue, close = request.param(fleet)
    with (
        MongoClient[dict[str, Any]](fleet.database_url, tz_aware=True) as mongo_client,
        control_plane_client(fleet.url, None) as client,
    ):
        db = mongo_client.get_default_database()
        for name in ("runs", "ideation_requests", "pods", "pod_telemetry"):
            db[name].delete_many({})
        yield House(queue, fleet, db, client)
    close()


def test_a_run_is_claimed_once_with_all_that_its_pod_has_to_know(house: House) -> None:
    run_id = house.fleet.submit(spec={"seconds": 2})
    told = house.queue.check("hybrid")
    assert told is not None
    assert abs((told - SystemClock().now()).total_seconds()) < 60
    mine = token()
    claim = house.claim(mine)
    assert claim is not None
    assert (claim.run_id, claim.attempt, claim.kind, claim.collection) == (run_id, 1, "probe", "runs")
    assert (claim.spec["seconds"], claim.token, claim.paused, claim.notes) == (2, mine, False, ())
    assert claim.traceparent is not None
    assert claim.from_stage is None
    assert house.claim(token()) is None
    stored = house.stored(claim)
    assert (stored["status"], stored["claimedBy"]) == ("SCHEDULED", POD)
    assert stored["lease"]["tokenHash"] == digest(mine)
    left_s = (stored["lease"]["until"] - SystemClock().now()).total_seconds()
    assert claim.lease_s - 30 < left_s <= claim.lease_s + 5


def test_a_whole_number_beyond_32_bits_is_told_as_one(house: House) -> None:
    house.fleet.submit("compute", spec={"n": 5 * 10**10})
    claim = house.claim(token(), kinds=frozenset({"compute"}))
    assert claim is not None
    assert msgspec.json.decode(msgspec.json.encode(dict(claim.spec)))["n"] == 5 * 10**10


def test_the_first_of_a_class_is_taken_and_only_what_the_pod_can_serve(house: House) -> None:
    first = house.fleet.submit()
    urgent = house.fleet.submit(priority=7)
    house.fleet.submit(requires={"gpu_gib": 40}, priority=50)
    house.fleet.submit(requires={"region": "mars"}, priority=50)
    assert [house.claimed().run_id for _ in range(2)] == [urgent, first]
    assert house.claim(token()) is None
    assert house.claim(token(), kinds=frozenset()) is None
    assert house.claim(token(), gpu_gib=48.0, kinds=frozenset({"ideation"})) is None
    assert house.claimed(gpu_gib=48.0).attempt == 1
    assert house.claimed(region="mars").attempt == 1


def test_labels_and_pins_are_met_by_the_pods_that_have_them_alone(house: House) -> None:
    def submit(priority: int, **requires: Any) -> str:
        run_id: str = house.fleet.submit(requires=requires, priority=priority)
        return run_id

    plain = submit(0)
    h100 = submit(9, labels={"gpu": "h100", "gpus": ">=4"})
    racked = submit(8, labels={"rack": "a4"})
    pinned = submit(7, pod="pod-7")
    both = submit(6, pod="pod-7", labels={"rack": "a4"})
    assert house.claimed(labels={"gpu": "a100", "gpus": "8"}).run_id == plain
    assert house.claim(token(), labels={"gpu": "h100", "gpus": "2"}) is None
    assert house.claimed(labels={"gpu": "h100", "gpus": "8"}).run_id == h100
    for stranger in ("pod-70/1", "pod/7", "pod-1/pod-7", "~pod-7/1"):
        assert _taken(house, stranger) is None
    assert [_taken(house, "pod-7/a"), _taken(house, "pod-7/b", rack="a4")] == [pinned, racked]
    assert [_taken(house, "pod-7/b"), _taken(house, "pod-7/b", rack="a4")] == [None, both]


def _taken(house: House, pod: str, **labels: str) -> str | None:
    """Return what a start of a pod takes; it gives it back to nobody."""
    able = Abilities(frozenset({"probe"}), 0.0, None, labels, pod.partition("/")[0])
    claim = house.queue.claim(Seeker(pod, "experiment", able), token=token())
    return None if claim is None else claim.run_id


def test_what_a_pod_heard_of_is_a_hint(house: House) -> None:
    heard = [
        WaitingClass("runs", "probe/cpu/any", 0),
        WaitingClass("runs", "probe/80/any", 0),  # more than the pod has
        WaitingClass("runs", "experiment/cpu/any", 0),  # gone by now
    ]
    able = Abilities(frozenset({"probe", "experiment"}), 0.0, None)
    first = house.fleet.submit()
    second = house.fleet.submit()
    house.fleet.submit(requires={"gpu_gib": 80}, priority=50)

    def claimed(known: Sequence[WaitingClass]) -> str | None:
        claim = house.queue.claim(Seeker(POD, "experiment", able), token=token(), known=known)
        return None if claim is None else claim.run_id

    assert claimed(heard) == first
    assert claimed(heard[1:]) == second
    assert claimed(heard) is None


def test_a_claim_whose_answer_was_lost_is_found_again_and_a_token_takes_one_run(house: House) -> None:
    house.fleet.submit()
    house.fleet.submit()
    lost = token()
    assert house.queue.recover(("runs",), lost) is None
    claim = house.claim(lost)
    assert claim is not None
    assert house.queue.recover(("runs", "ideation_requests"), lost) == claim
    assert house.queue.recover(("ideation_requests",), lost) is None
    with pytest.raises(Transient, match="earlier claim"):
        house.claim(lost)
    house.queue.settle(claim, End("completed"), 0, jitter=0.5)
    assert house.queue.recover(("runs",), lost) is None
    assert house.claim(token()) is not None


def test_a_renewal_extends_and_brings_what_people_want(house: House) -> None:
    claim_of = house.fleet.submit()
    claim = house.claimed()
    before = house.stored(claim)["lease"]
    assert house.queue.renew(claim).notes == ()
    house.fleet.client.post(f"/api/runs/{claim_of}/notes", json={"text": "smaller steps, please"})
    house.fleet.client.post(f"/api/runs/{claim_of}/pause")
    orders = house.queue.renew(claim)
    assert (orders.cancel, orders.paused, [note.text for note in orders.notes]) == (
        False, True, ["smaller steps, please"],
    )  # fmt: skip
    after = house.stored(claim)["lease"]
    assert (after["renewals"], after["until"] > before["until"]) == (2, True)
    assert house.fleet.client.post(f"/api/runs/{claim_of}/cancel").status_code == 200
    assert house.queue.renew(claim).cancel


def test_whoever_lost_the_lease_may_neither_renew_nor_settle(house: House) -> None:
    house.fleet.submit()
    claim = house.claimed()
    house.expire(claim)
    with pytest.raises(LeaseLost):
        house.queue.renew(claim)
    with pytest.raises(LeaseLost):
        house.queue.settle(claim, End("completed"), 1, jitter=0.5)
    assert house.stored(claim)["status"] == "DELAYED"
    forged = [
        Claim("runs", claim.run_id, 1, token(), "probe", {}, None),
        Claim("runs", claim.run_id, 2, claim.token, "probe", {}, None),
        Claim("runs", SystemIds().ulid(), 1, claim.token, "probe", {}, None),
    ]
    for other in forged:
        with pytest.raises(LeaseLost):
            house.queue.renew(other)
        with pytest.raises(LeaseLost):
            house.queue.settle(other, End("completed"), 1, jitter=0.5)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        (End("completed", message="done"), "COMPLETED"),
        (End("failed", "BROKEN", "it broke", "probe", retryable=False), "FAILED"),
        (End("failed", "BROKEN", "it broke \x00 here", retryable=True), "DELAYED"),
        (End("preempted", None, "the pod leaves"), "QUEUED"),
    ],
)
def test_an_end_is_decided_once(house: House, how: End, status: str) -> None:
    house.fleet.submit()
    claim = house.claimed()
    house.queue.settle(claim, how, 3, jitter=0.5, root="a" * 64)
    house.queue.settle(claim, how, 9, jitter=0.5, root="b" * 64)
    stored = house.stored(claim)
    assert (stored["status"], stored["settled"]["last"], stored["logOpen"]) == (status, 3, True)
    assert stored["settled"]["root"] == "a" * 64
    assert (stored["settled"]["code"], stored["settled"]["message"]) == (how.code, how.message)
    assert sum(each["cause"].startswith("end") for each in stored["journal"]) <= 1
    with pytest.raises(LeaseLost):
        house.queue.renew(claim)


def test_an_attempt_that_said_nothing_is_settled_too(house: House) -> None:
    house.fleet.submit()
    claim = house.claimed()
    house.queue.settle(claim, End("preempted", None, "cut off"), 0, jitter=0.5, root=record_digest.NOTHING)
    stored = house.stored(claim)
    assert (stored["status"], stored["settled"]["root"]) == ("QUEUED", record_digest.NOTHING)


EQUIPPED = Capabilities(
    4, 1024.0, (Gpu("H100", 81_559.0, "9.0"),), cpu="EPYC", disks=(Disk("/data", 10.5, 1.0, "ssd"),),
    inventory=Inventory(("ollama",), (Model("qwen3:8b", 5 * 10**9, "ollama"),)),
    cuda=Cuda(False, "CUDA_UNSUPPORTED_ARCH", "no code for sm_90"), services=("ollama",),
)  # fmt: skip


REPORT = PodReport(
    id=POD, pod="pod-1", mode="hybrid", region="eu", kinds=("probe",), state="idle", run_id=None,
    attempt=None, device="cuda", capabilities=EQUIPPED,
    telemetry=Telemetry(0.5, 512.0, 0.25, 1.0, 60.0), version="0", started_at=SystemClock().now(),
    isolation="filter", pipeline_user="the worker's user: it is not root",
    delivery=DeliveryReport(waiting=2, oldest_s=1.5, disk_free_bytes=10**9, upload_failures={"X": 1}),
)  # fmt: skip


def test_an_order_to_restart_is_told_to_the_worker_until_it_is_taken_back(house: House) -> None:
    pod = f"pod-2/{type(house.queue).__name__.lower()}"
    report = replace(REPORT, id=pod, pod="pod-2")
    assert not house.queue.report(report).restart
    assert house.fleet.client.post(f"/api/pods/{pod}/restart").json()["orders"]["restart"]
    told = house.queue.report(report)
    assert (told.drain, told.restart, told.held_back) == (False, True, None)
    assert not house.queue.report(replace(report, id=f"{pod}x")).restart, "another start of the pod"
    assert house.fleet.client.post(f"/api/pods/{pod}/undrain").status_code == 200
    assert not house.queue.report(report).restart


def test_a_report_stands_in_the_roster_and_brings_orders(house: House) -> None:
    pod = f"pod-1/{type(house.queue).__name__.lower()}"  # a process remembers whom it has looked at
    report = replace(REPORT, id=pod)
    orders = house.queue.report(report)
    assert not orders.drain
    assert orders.report_every_s == REPORT_EVERY_S
    assert orders.now == house.db.pods.find_one({"_id": pod})["reportedAt"]
    shown = house.fleet.client.get(f"/api/pods/{pod}").json()
    assert shown.get("clockOffsetS") is None, "it was not measured yet"
    house.queue.report(replace(report, clock_offset_s=-7.5))
    assert house.fleet.client.get(f"/api/pods/{pod}").json()["clockOffsetS"] == -7.5
    assert house.fleet.client.post(f"/api/pods/{pod}/drain").status_code == 200
    told = house.queue.report(report)
    assert (told.drain, told.cordon, told.quarantine) == (True, "drained", None)
    assert house.fleet.client.post(f"/api/pods/{pod}/undrain").status_code == 200
    told = house.queue.report(report)
    assert (told.drain, told.held_back) == (False, None)
    assert house.db.pods.find_one({"_id": pod})["delivery"] == {
        "waiting": 2, "oldestS": 1.5, "diskFreeBytes": 10**9, "uploadFailures": [{"code": "X", "count": 1}],
    }  # fmt: skip
    shown = house.fleet.client.get(f"/api/pods/{pod}").json()
    has = shown["capabilities"]
    assert (shown["region"], has["device"], has["isolation"]) == ("eu", "cuda", "filter")
    page = html.unescape(house.fleet.client.get(f"/pods/{pod}").text)
    assert all(f"<td>{told}</td>" in page for told in ("filter", "the worker's user: it is not root"))
    assert shown["delivery"]["uploadFailures"] == [{"code": "X", "count": 1}]
    assert "<td>2, the oldest for" in page
    assert "<td>1 × X</td>" in page
    assert has["gpus"] == [{"name": "H100", "memoryMib": 81_559.0, "computeCapability": "9.0", "uuid": None}]
    assert has["disks"] == [{"path": "/data", "totalMib": 10.5, "freeMib": 1, "kind": "ssd"}]
    assert has["models"] == [{"name": "qwen3:8b", "bytes": 5 * 10**9, "engine": "ollama"}]
    assert (has["cpu"], has["engines"], has["services"]) == ("EPYC", ["ollama"], ["ollama"])
    assert has["cuda"] == {"ok": False, "code": "CUDA_UNSUPPORTED_ARCH", "message": "no code for sm_90"}
    for words in (
        "4 × <bdi>EPYC</bdi>",
        "CUDA_UNSUPPORTED_ARCH: no code for sm_90",
        "<code>qwen3:8b</code>, 4.7 G",
    ):
        assert words in page
    assert house.queue.report(report).report_every_s == 1.0, "its page was opened"
    samples = [each for hour in house.db.pod_telemetry.find() for each in hour["samples"]]
    assert [each["gpuTemperatureC"] for each in samples] == [60.0] * 5  # a span may have ended between


def test_a_reset_that_people_order_reaches_the_pod_until_it_has_told_the_outcome(house: House) -> None:
    told = replace(REPORT, capabilities=EQUIPPED)
    assert house.queue.report(told).resets == ()

    def ask(service: str, **more: Any) -> Any:
        body = {"service": service, **more}
        return house.fleet.client.post(f"/api/pods/{told.id}/resets", json=body)

    for service, status in (("comfyui", 422), ("x" * 200, 422), ("ollama; reboot", 422), ("ollama", 200)):
        assert ask(service).status_code == status
    assert ask("ollama").json()["code"] == "reset_under_way"
    for _ in range(2):
        (order,) = house.queue.report(told).resets
        assert (order.service, order.force) == ("ollama", False)
    answered = replace(
        told, resets=(Outcome(order.id, False, "TIMED_OUT", "<b>it hung</b>", told.started_at),)
    )
    assert house.queue.report(answered).resets == ()
    shown = house.fleet.client.get(f"/api/pods/{told.id}").json()["resets"]
    assert [(each["state"], each["code"], each["message"]) for each in shown] == [
        ("failed", "TIMED_OUT", "<b>it hung</b>")
    ]
    assert "<td>failed, <code>TIMED_OUT</code>" in house.fleet.client.get(f"/pods/{told.id}").text
    busy = replace(answered, state="busy", run_id="r1", attempt=1)
    house.queue.report(busy)
    assert ask("ollama").json()["code"] == "pod_busy"
    assert ask("ollama", force=True).status_code == 200
    assert [each.force for each in house.queue.report(busy).resets] == [True]
    house.queue.report(replace(busy, state="stopped"))
    assert ask("ollama", force=True).json()["code"] == "pod_left"


def test_the_run_token_speaks_for_its_attempt_and_no_other(house: House) -> None:
    house.fleet.submit()
    house.fleet.submit()
    mine, other = house.claimed(), house.claimed()
    ingest = HttpIngest(ControlPlane(house.client, SystemClock()))

    def say(claim: Claim, with_token: Claim, number: int = 1) -> Any:
        fact = RunStarted() if number == 1 else RunCompleted()
        line = wire(
            fact,
            Head(
                id=f"{claim.run_id}-{number}",
                source=source_of(POD, claim),
                attempt_id=claim.attempt_id,
                sequence=number,
                time="2026-11-22T10:00:00Z",
            ),
        )
        return ingest.post([line], token=with_token.run_token, timeout_s=20)

    assert say(mine, mine) == Taken()
    refused = say(other, mine)
    assert [each.code for each in refused.rejected] == ["forbidden"]
    with pytest.raises(Barred):
        say(mine, Claim("runs", mine.run_id, 1, token(), "probe", {}, None))
    with pytest.raises(Barred):
        say(mine, Claim("runs", mine.run_id, 2, mine.token, "probe", {}, None))
    # What was said before the end still arrives after it, and after somebody else has the run.
    house.queue.settle(mine, End("preempted"), 2, jitter=0.5)
    assert house.claimed().attempt == 2
    assert not say(mine, mine, 2).rejected


# A worker asks one after the other: only a control plane can hear two claims with one token.
@pytest.mark.parametrize("house", [http], indirect=True)
def test_one_token_gets_one_run_of_the_two_queues(house: House) -> None:
    answer = house.client.post("/api/hypotheses", json={"title": "t", "idea": "i", "enable_ideation": True})
    assert answer.status_code == 201, answer.text
    run_id = house.fleet.submit()
    mine, kinds = token(), frozenset({"probe", "ideation"})
    first = house.claim(mine, mode="hybrid", kinds=kinds)
    assert first is not None
    assert first.collection == "ideation_requests"
    with pytest.raises(Transient, match="an earlier claim with this token"):
        house.claim(mine, mode="hybrid", kinds=kinds)
    assert house.fleet.run(run_id)["status"] == "QUEUED"
    again = house.claim(token(), mode="hybrid", kinds=kinds)
    assert again is not None
    assert again.run_id == run_id
