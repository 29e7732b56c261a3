"""What happens reaches its receivers: at least once, whoever fails, lies or dies in between."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from bson import ObjectId
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from control_plane.model.quarantine.decision import Quarantine
from control_plane.model.quarantine.evidence import Failure, Identity
from control_plane.runs.submission import Submission
from control_plane.server.deps import Deps, wire
from control_plane.upkeep.notifications.retrying import TRIES_MAX
from control_plane.upkeep.notifications.sender import ANSWER_BYTES_MAX, Sender
from control_plane.upkeep.notifications.service import WantedWebhook
from control_plane.upkeep.notifications.subscription import FILTERS
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.egress_policy import EgressPolicy
from events.runtime.errors import Conflict, Rejected
from tests.integration.command_line import podfleet
from tests.integration.conftest import SECRETS_KEY, Fleet, end, local_client, start_control_plane
from tests.integration.in_process import control_plane
from tests.integration.test_quarantiner import DONE, report, serve
from tests.integration.webhook_receiver import Receiver
from tests.servers import S3Server, connected

pytestmark = pytest.mark.slow("real servers and processes")

LONG_AGO: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
VARIABLES: Final = {"PODFLEET_SECRETS_KEY": SECRETS_KEY, "PODFLEET_PRIVATE_HOSTS": "127.0.0.1"}


@pytest.fixture
async def deps(emptied_url: str) -> AsyncIterator[Deps]:
    async with control_plane(emptied_url, **VARIABLES) as found:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


async def subscribe(deps: Deps, url: str, form: str = "standard", **filters: list[str]) -> tuple[str, str]:
    """Make a webhook that is told of what happened just now, too; return its id and its secret."""
    wanted = WantedWebhook(
        url=url, format=form, filters={**{each: [] for each in FILTERS}, **filters}, by="test"
    )
    made, secret = await deps.webhooks.create(wanted)
    await deps.db.webhooks.update_one({"_id": made["_id"]}, {"$set": {"since": LONG_AGO}})
    return made["_id"], secret or ""


async def end_a_run(deps: Deps, by: str = "ann", **options: Any) -> str:
    """Queue a run and cancel it, which ends it."""
    submitted = await deps.submitter.submit(Submission(kind="probe", spec={}, by=by, **options))
    await deps.decider.cancel(submitted.run_id, by="test")
    return submitted.run_id


async def deliver(deps: Deps) -> None:
    """Gather and send once, whatever is due later as if it were now."""
    await deps.notifications.gatherer.run_once()
    await deps.db.deliveries.update_many({"state": "pending"}, {"$set": {"dueAt": LONG_AGO}})
    await deps.notifications.deliverer.run_once()
    await deps.notifications.deliverer.idle()


async def only(deps: Deps) -> dict[str, Any]:
    (found,) = await deps.db.deliveries.find().to_list()
    return found


async def test_an_end_is_told_once_and_its_signature_holds(deps: Deps, receiver: Receiver) -> None:
    _, secret = await subscribe(deps, receiver.url)
    run_id = await end_a_run(deps, labels={"team": "vision"})
    await deliver(deps)
    await deliver(deps)
    (got,) = receiver.got
    assert got.signatures_by(secret) == [True]
    assert got.signatures_by("whsec_" + "A" * 32) == [False]
    assert (got.told["type"], got.told["data"]["id"]) == ("run.canceled", run_id)
    assert got.told["data"]["submittedBy"] == "ann"
    assert got.told["data"]["labels"] == {"team": "vision"}
    assert got.told["data"]["url"] == f"http://127.0.0.1:8700/runs/{run_id}"
    assert got.headers["content-type"] == "application/json"
    stored = await only(deps)
    assert (stored["state"], stored["tries"], stored["lastStatus"]) == ("delivered", 1, 204)


async def test_each_filter_keeps_out_what_does_not_pass(deps: Deps, receiver: Receiver) -> None:
    passing = {
        "types": ["run"], "projects": ["default"], "kinds": ["probe"], "labels": ["team=vision"],
        "owners": ["ann"],
    }  # fmt: skip
    await subscribe(deps, f"{receiver.url}/all", **passing)
    other = {
        "types": ["group"],
        "projects": ["other"],
        "kinds": ["job"],
        "labels": ["team=x"],
        "owners": ["b"],
    }
    for name, each in other.items():
        await subscribe(deps, f"{receiver.url}/none", **(passing | {name: each}))
    await end_a_run(deps, labels={"team": "vision"})
    await deliver(deps)
    assert [each.path for each in receiver.got] == ["/hook/all"]


async def test_replicas_that_gather_and_send_side_by_side_tell_once(deps: Deps, receiver: Receiver) -> None:
    await subscribe(deps, receiver.url)
    runs = [await end_a_run(deps) for _ in range(5)]
    replicas = (deps, deps.on(deps.db))
    made = await asyncio.gather(*(each.notifications.gatherer.run_once() for each in replicas))
    assert sum(made) == len(runs)
    for _ in runs:
        await asyncio.gather(*(each.notifications.deliverer.run_once() for each in replicas))
        await asyncio.gather(*(each.notifications.deliverer.idle() for each in replicas))
    assert sorted(each.told["data"]["id"] for each in receiver.got) == sorted(runs)


async def test_a_receiver_that_comes_back_gets_the_same_id_and_the_same_bytes(
    deps: Deps, receiver: Receiver
) -> None:
    await subscribe(deps, receiver.url)
    await end_a_run(deps)
    receiver.replies.extend([(500, {}), (503, {"retry-after": "1000"}), (301, {"location": receiver.url})])
    await deps.notifications.gatherer.run_once()
    waits = []
    for _ in range(4):
        before = deps.clock.now()
        await deliver(deps)
        stored = await only(deps)
        waits.append(stored["dueAt"] and round((stored["dueAt"] - before).total_seconds()))
    assert len(receiver.got) == 4
    assert len({(each.headers["webhook-id"], each.body, each.path) for each in receiver.got}) == 1
    assert waits[0] in range(5, 8)
    assert waits[1] in range(1000, 1010)
    assert waits[2] in range(120, 150)
    assert (stored["state"], stored["tries"], waits[3]) == ("delivered", 4, None)


async def test_what_nobody_takes_becomes_a_dead_letter_and_can_be_replayed(
    deps: Deps, receiver: Receiver
) -> None:
    webhook_id, secret = await subscribe(deps, receiver.url)
    await end_a_run(deps)
    receiver.replies.extend([(500, {})] * TRIES_MAX)
    for _ in range(TRIES_MAX + 1):
        await deliver(deps)
    stored = await only(deps)
    assert (stored["state"], stored["tries"], len(receiver.got)) == ("dead", TRIES_MAX, TRIES_MAX)
    assert stored["lastProblem"] == "the receiver answers 500"
    assert await deps.webhooks.replay(webhook_id, None) == 1
    await deliver(deps)
    assert (await only(deps))["state"] == "delivered"
    assert receiver.got[-1].headers["webhook-id"] == receiver.got[0].headers["webhook-id"]
    assert receiver.got[-1].signatures_by(secret) == [True]
    assert await deps.webhooks.replay(webhook_id, None) == 0
    assert await deps.webhooks.replay(webhook_id, stored["_id"]) == 1


async def test_a_receiver_that_is_gone_is_told_nothing_more(deps: Deps, receiver: Receiver) -> None:
    webhook_id, _ = await subscribe(deps, receiver.url)
    await end_a_run(deps)
    receiver.replies.append((410, {}))
    await deliver(deps)
    webhook = await deps.db.webhooks.find_one({"_id": webhook_id})
    assert webhook is not None
    assert (webhook["enabled"], webhook["disabledWhy"]) == (
        False, "the receiver answered 410: it wants no more",
    )  # fmt: skip
    await end_a_run(deps)
    await deliver(deps)
    assert len(receiver.got) == 1
    with pytest.raises(Conflict, match="disabled"):
        await deps.webhooks.test(webhook_id, "test")
    await deps.webhooks.change(webhook_id, enabled=True)
    await deliver(deps)
    assert len(receiver.got) == 1, "what happened while it was disabled is not told later"


async def test_a_slow_receiver_delays_no_other_one(deps: Deps, receiver: Receiver) -> None:
    reached, release = threading.Event(), threading.Event()

    def wait(request: BaseHTTPRequestHandler) -> None:
        reached.set()
        release.wait(60)
        request.send_response(204)
        request.end_headers()

    with Receiver() as slow:
        slow.replies.append(wait)
        await subscribe(deps, slow.url)
        await subscribe(deps, receiver.url)
        await end_a_run(deps)
        await deps.notifications.gatherer.run_once()
        assert await deps.notifications.deliverer.run_once() == 2
        await asyncio.to_thread(reached.wait, 60)
        await asyncio.to_thread(receiver.wait_for, 1)
        await end_a_run(deps)
        await deps.notifications.gatherer.run_once()
        while len(receiver.got) < 2:  # its first turn may not be over yet
            await deps.notifications.deliverer.run_once()
            await asyncio.sleep(0)
        assert len(slow.got) == 1, "one at a time"
        release.set()
        await deps.notifications.deliverer.idle()


async def test_what_a_receiver_answers_is_read_to_a_bound(receiver: Receiver) -> None:
    def huge(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", str(1 << 40))
        request.end_headers()
        try:
            while True:
                request.wfile.write(b"x" * 65_536)
        except OSError:
            sent.set()
        request.close_connection = True

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 2")  # and never the rest
        released.wait(60)
        request.close_connection = True

    sent, released = threading.Event(), threading.Event()
    sender = Sender(EgressPolicy(names=frozenset({"127.0.0.1"})), time_max_s=0.3)
    receiver.replies.extend([huge, drip])
    taken = await sender.post(receiver.url, {}, b"{}")
    assert (taken.status, taken.is_taken) == (200, True)
    assert await asyncio.to_thread(sent.wait, 60), f"it is cut off after {ANSWER_BYTES_MAX} bytes"
    dripping = await sender.post(receiver.url, {}, b"{}")
    released.set()
    assert (dripping.is_taken, dripping.problem) == (False, "no answer within 0 s")


async def test_no_byte_goes_to_an_address_that_is_not_allowed(
    deps: Deps, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (
        "http://169.254.169.254/latest", "https://10.0.0.7/", "http://example.com/", "https://[::1]/",
        "https://user:password@example.com/", "ftp://example.com/", "https://example.com/#x",
    ):  # fmt: skip
        with pytest.raises(Rejected) as caught:
            await subscribe(deps, url)
        assert caught.value.code == "bad_target"
    real = socket.getaddrinfo

    def rebound(host: Any, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "hook.example" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    port = receiver.server.server_address[1]
    answer = await Sender(EgressPolicy()).post(f"https://hook.example:{port}/", {}, b"{}")
    assert answer.status == 0
    assert "is no public address" in str(answer.problem)
    assert receiver.got == []


async def test_a_receiver_with_a_foreign_certificate_gets_nothing(receiver: Receiver, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    signed = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(LONG_AGO).not_valid_after(LONG_AGO + dt.timedelta(days=9_999))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "own.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def shake() -> None:
            accepted, _ = listener.accept()
            with accepted, pytest.raises(OSError, match=r"SSL|reset|EOF"):
                context.wrap_socket(accepted, server_side=True).recv(1)

        serving = threading.Thread(target=shake)
        serving.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        policy = EgressPolicy(names=frozenset({"127.0.0.1"}))
        answer = await Sender(policy).post(url, {}, b"{}")
        await asyncio.to_thread(serving.join)
    assert answer.status == 0
    assert "CERTIFICATE_VERIFY_FAILED" in str(answer.problem)


async def test_two_secrets_sign_during_a_rotation_and_then_the_new_one(
    deps: Deps, receiver: Receiver
) -> None:
    webhook_id, old = await subscribe(deps, receiver.url)
    _, new = await deps.webhooks.rotate(webhook_id)
    await deps.webhooks.test(webhook_id, "ann")
    await deliver(deps)
    await deps.db.webhooks.update_one({"_id": webhook_id}, {"$set": {"previousUntil": LONG_AGO}})
    await deps.webhooks.test(webhook_id, "ann")
    await deliver(deps)
    both, one = receiver.got
    assert (both.signatures_by(new), both.signatures_by(old)) == ([True, False], [False, True])
    assert (one.signatures_by(new), one.signatures_by(old)) == ([True], [False])
    assert both.told["type"] == "webhook.test"


async def test_targets_and_secrets_are_nowhere_in_the_store(deps: Deps, receiver: Receiver) -> None:
    _, secret = await subscribe(deps, f"{receiver.url}/password-of-a-chat")
    stored = str([await deps.db[name].find().to_list() for name in await deps.db.list_collection_names()])
    assert "password-of-a-chat" not in stored
    assert secret.removeprefix("whsec_") not in stored


async def test_chats_get_words_that_ping_nobody(deps: Deps, receiver: Receiver) -> None:
    for form in ("slack", "discord", "plain"):
        await subscribe(deps, f"{receiver.url}/{form}", form)
    await end_a_run(deps, labels={"x": "<!channel>"}, by="<!channel> @everyone")
    await deliver(deps)
    got = {each.path.rpartition("/")[2]: each for each in receiver.got}
    slack, discord = got["slack"].told, got["discord"].told
    assert slack.keys() == {"text"}
    assert slack["text"].startswith("Run canceled: probe ")
    assert "<!channel>" not in slack["text"]
    assert discord["allowed_mentions"] == {"parse": []}
    assert got["plain"].body.decode().startswith("Run canceled: probe ")
    assert "webhook-signature" in got["plain"].headers
    assert "webhook-signature" not in got["slack"].headers


async def test_reviews_failures_groups_and_quarantines_are_told(deps: Deps, receiver: Receiver) -> None:
    await subscribe(deps, receiver.url)
    await report(deps, "pod/1")
    await report(deps, "pod/2")
    assert await serve(deps, "pod/1", DONE)
    assert await serve(deps, "pod/2", End("failed", "BROKEN", "no\nluck"))
    await deps.sweeper.run_once()
    now = deps.clock.now()
    evidence = (Failure("GPU_FAULT", now, "r", 1),)
    held = Quarantine(Identity("pod", None), "GPU_FAULT", evidence, now, now, 60.0)
    assert await deps.quarantiner.rules.keep(0, [held])
    review = (await deps.db.runs.find({"status": "COMPLETED"}, {"_id": 1}).to_list())[0]["_id"]
    await deps.db.runs.update_one({"_id": review}, {"$set": {"status": "AWAITING_HUMAN", "finishedAt": None}})
    line = {"n": 3, "from": "CLOSING", "to": "FAILED", "at": now, "reason": "all failed", "by": "x"}
    journal = [{**line, "n": 2, "from": "OPEN", "to": "CLOSING"}, line]
    group = {"_id": "sweep", "status": "FAILED", "updatedAt": now, "revision": 3, "counts": {"failed": 2}}
    await deps.db.groups.insert_one({**group, "journal": journal, "run": {"kind": "probe"}})
    error = {"code": "bad_spec", "message": "no", "slot": now}
    await deps.db.schedules.insert_one({"_id": "nightly", "error": error, "updatedAt": now})
    for _ in range(2):
        await deliver(deps)
    told = {each.told["type"]: each.told["data"] for each in receiver.got}
    assert sorted(told) == [
        "group.failed", "pod.quarantined", "run.failed", "run.review_wanted", "schedule.failed",
    ]  # fmt: skip
    assert len(receiver.got) == 5
    assert told["run.failed"]["error"] == {
        "code": "BROKEN", "message": "no\nluck", "stage": None, "fault": "run",
    }  # fmt: skip
    assert told["run.review_wanted"]["id"] == review
    assert told["group.failed"]["counts"] == {"failed": 2}
    assert told["pod.quarantined"]["reason"] == "GPU_FAULT"
    assert told["schedule.failed"]["error"]["code"] == "bad_spec"


async def test_a_damaged_document_holds_up_no_other_one(deps: Deps, receiver: Receiver) -> None:
    webhook_id, _ = await subscribe(deps, receiver.url)
    await deps.db.webhooks.insert_one({"_id": "damaged", "enabled": True, "filters": 7})
    run_id = await end_a_run(deps)
    odd = await end_a_run(deps)
    await deps.db.runs.update_one({"_id": odd}, {"$set": {"classKey": 7, "labels": 3, "title": {"a": 1}}})
    await deps.db.groups.insert_one(
        {"_id": "odd", "status": "FAILED", "updatedAt": deps.clock.now(), "journal": 7}
    )
    line = {"n": 1, "from": "OPEN", "to": "FAILED", "at": "never"}
    dated = {"_id": "dated", "status": "FAILED", "updatedAt": deps.clock.now(), "journal": [line]}
    await deps.db.groups.insert_one({**dated, "createdBy": ObjectId(), "revision": 1})
    await deliver(deps)
    assert run_id in [each.told["data"]["id"] for each in receiver.got]
    await deps.db.deliveries.update_many({}, {"$set": {"state": "pending", "body": 7}})
    await deliver(deps)
    stored = await deps.db.deliveries.find({"webhookId": webhook_id}).to_list()
    assert any("cannot be read" in str(each["lastProblem"]) for each in stored)


async def test_a_new_key_for_secrets_takes_the_webhooks_along(deps: Deps, receiver: Receiver) -> None:
    await subscribe(deps, receiver.url)
    old, new = deps.settings.secrets_keys[0], b"another key for secrets of tests"

    def on(*keys: bytes) -> Deps:
        return wire(replace(deps.settings, secrets_keys=keys), deps.db, SystemClock(), SystemIds())

    assert await on(new, old).webhooks.reseal() == (1, [])
    assert await on(new, old).webhooks.reseal() == (0, [])
    later = on(new)
    await end_a_run(later)
    await deliver(later)
    assert len(receiver.got) == 1
    await end_a_run(deps)
    await deliver(deps)
    stored = await deps.db.deliveries.find({"state": "pending"}).to_list()
    assert "cannot decrypt" in stored[0]["lastProblem"]


def test_what_was_decided_and_what_was_being_sent_outlive_a_kill(
    database_url: str, s3: S3Server, tmp_path: Path, receiver: Receiver
) -> None:
    """Killed while the receiver has not answered, and right after a decision that nobody has gathered yet."""
    released = threading.Event()

    def hang(request: BaseHTTPRequestHandler) -> None:
        released.wait(60)
        request.close_connection = True

    def end_one(client: httpx.Client) -> str:
        run_id = str(client.post("/api/runs", json={"kind": "probe"}).json()["id"])
        client.post(f"/api/runs/{run_id}/cancel").raise_for_status()
        return run_id

    receiver.replies.append(hang)
    first, url = start_control_plane(tmp_path, database_url, s3)
    with local_client(url, timeout=30) as client:
        made = client.post("/api/webhooks", json={"url": receiver.url, "types": ["run.canceled"]})
        assert made.status_code == 201, made.text
        runs = [end_one(client)]
        receiver.wait_for(1)
        runs.append(end_one(client))
    end([first])
    released.set()
    later = {"$set": {"dueAt": LONG_AGO}}  # as if the lease of the dead one were over
    connected(database_url).deliveries.update_many({"state": "pending"}, later)
    second, _ = start_control_plane(tmp_path, database_url, s3)
    try:
        got = receiver.wait_for(3)
    finally:
        end([second])
    assert [each.signatures_by(made.json()["secret"]) for each in got] == [[True]] * 3
    assert got[1].headers["webhook-id"] in {each.headers["webhook-id"] for each in (got[0], got[2])}
    assert sorted({each.told["data"]["id"] for each in got}) == sorted(runs)
    assert len({each.headers["webhook-id"] for each in got}) == 2


@pytest.mark.common_fleet
def test_commands_and_pages_make_show_and_replay(fleet: Fleet, receiver: Receiver) -> None:
    made = json.loads(podfleet(fleet.url, "webhooks", "add", receiver.url, "--type", "pod", "--json").stdout)
    id_, secret = made["webhook"]["id"], made["secret"]
    assert secret.startswith("whsec_")
    assert secret not in podfleet(fleet.url, "webhooks", "list").stdout
    assert "is on its way" in podfleet(fleet.url, "webhooks", "test", id_).stdout
    (got,) = receiver.wait_for(1)
    assert got.signatures_by(secret) == [True]
    for each in ("/webhooks", f"/webhooks/{id_}", f"/webhooks/{id_}?state=dead"):
        page = fleet.client.get(each)
        assert page.status_code == 200, page.text
        assert receiver.url not in page.text
    sent = fleet.client.get(f"/api/webhooks/{id_}/deliveries").json()["items"][0]["id"]
    assert fleet.client.post(f"/webhooks/{id_}/replay", data={"delivery": sent}).status_code in (303, 409)
    assert fleet.client.post(f"/webhooks/{id_}/enable", data={"enabled": "no"}).status_code == 303
    assert "disabled: by loopback" in podfleet(fleet.url, "webhooks", "list").stdout
    rotated = fleet.client.post(f"/webhooks/{id_}/rotate")
    assert rotated.status_code == 200
    assert secret not in rotated.text
    assert "whsec_" in rotated.text
    added = fleet.client.post("/webhooks", data={"url": "https://chat.example/T0/x", "format": "slack"})
    assert added.status_code == 200, added.text
    refused = fleet.client.post("/webhooks", data={"url": "https://10.0.0.1/", "types": "run.odd"})
    assert refused.status_code == 422
    wrong = podfleet(fleet.url, "webhooks", "add", "https://10.0.0.1/")
    assert (wrong.returncode, "is no public address" in wrong.stderr) == (2, True)
    assert podfleet(fleet.url, "webhooks", "replay", id_).returncode == 2
    assert fleet.client.patch(f"/api/webhooks/{id_}", json={"types": ["run"]}).json()["filters"]["types"] == [
        "run"
    ]
    assert fleet.client.post(f"/webhooks/{id_}/remove").status_code == 303
    assert fleet.client.get(f"/api/webhooks/{id_}").json()["code"] == "unknown_webhook"
    assert fleet.client.get("/webhooks/none").status_code == 404


async def test_a_quota_and_a_disk_are_told_once_each_time_that_they_fill(
    deps: Deps, receiver: Receiver
) -> None:
    await subscribe(deps, receiver.url, types=["project", "pod.disk_filling"])
    other = replace(deps.notifications.usage)  # of another control plane
    store = deps.notifications.usage.projects
    await store.put("vision", {"weight": 1.0, "quotas": {"usd": 10.0, "gpuHours": None, "gpus": None}})

    async def at(usd: float, free: float) -> list[str]:
        now = await store.now()
        await store.tell([{"name": "vision", "usd": usd, "gpuS": 9e9}], now)
        disk = {"path": "/data", "totalMib": 100.0, "freeMib": free}
        row = {"state": "idle", "reportedAt": now, "startedAt": now, "capabilities": {"disks": [disk]}}
        for slot in (0, 1):
            await deps.db.pods.replace_one({"_id": f"pod/1/{slot}"}, row, upsert=True)
        before = len(receiver.got)
        await asyncio.gather(*(each.run_once() for each in (deps.notifications.usage, other) * 3))
        await deliver(deps)
        return sorted(each.told["type"] for each in receiver.got[before:])

    assert await at(7.9, 30.0) == []
    assert await at(8.0, 30.0) == ["project.quota_neared"]
    assert await at(7.6, 20.0) == ["pod.disk_filling"]
    assert await at(8.5, 21.0) == []
    assert await at(10.0, 1.0) == ["project.quota_reached"]
    assert await at(0.1, 50.0) == []  # a new month
    assert await at(11.0, 5.0) == ["pod.disk_filling", "project.quota_reached"]
    await store.put("vision", {"weight": 1.0, "quotas": {"usd": 100.0}})
    assert await at(11.0, 5.0) == []
    assert await at(81.0, 5.0) == ["project.quota_neared"]
    told = receiver.got[-1].told
    assert told["data"] == {
        "id": "vision", "measure": "usd", "level": 80, "used": 81.0, "limit": 100.0,
        "url": "http://127.0.0.1:8700/projects",
    }  # fmt: skip
