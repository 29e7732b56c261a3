"""A person steers a run that is under way: pauses it, resumes it, writes notes, repeats a part of it."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from events.catalog import ArtifactRegistered, RunLog, StageCompleted, StageStarted, ValidationAutoCompleted
from events.delivery.control_plane_client import bearer
from events.files.checkpoints import emptied, manifest_artifact
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.queue.settlement import End
from events.testing import make_line
from pod_worker.queue.mongo import MongoQueue, connect
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.test_fleet import be_short, child_of

pytestmark = pytest.mark.common_fleet


def log_of(fleet: Any, run_id: str) -> list[dict[str, Any]]:
    """Return a run's numbered events, oldest first."""
    params = {"limit": 200, "order": "oldest"}
    page = fleet.client.get(f"/api/runs/{run_id}/events", params=params).json()
    assert page["next"] is None
    return [each for each in page["items"] if each["sequence"] is not None]


def messages(fleet: Any, run_id: str) -> list[str]:
    """Return the lines of a run's log."""
    return [each["data"]["message"] for each in log_of(fleet, run_id) if each["type"] == "ai.run.log"]


def steer(fleet: Any, run_id: str, what: str, **body: object) -> Any:
    return fleet.client.post(f"/api/runs/{run_id}/{what}", json=body or None)


def is_stopped(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_STOPPED)


def must_agree_with_its_log(fleet: Any, **storage: str) -> None:
    """Let `podfleet verify --rebuild` look at everything, objects in `storage` included."""
    environment = {"PATH": "", "MONGODB_URL": fleet.database_url, **storage}
    found = run_program([*PROGRAM, "verify", "--rebuild"], env=environment, cwd=fleet.home)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.slow("a pause of three beats in a run of six seconds")
def test_a_paused_run_stands_still_and_goes_on_where_it_stood(fleet: Any, until: Any) -> None:
    worker = fleet.start_quick_worker()
    # the longest silence would be over in the pause; what a pause costs is tested in test_attempt.py
    run_id = fleet.submit(spec={"seconds": 12, "events": 120, "no_progress_s": 12})
    fleet.wait_for(run_id, "RUNNING")
    child = child_of(worker)
    paused = steer(fleet, run_id, "pause")
    assert (paused.status_code, paused.json()["status"], paused.json()["paused"]) == (200, "RUNNING", True)
    until(lambda: is_stopped(child), 8)  # ingest's answers tell of it, sooner than the next renewal
    (pod,) = fleet.client.get("/api/pods").json()["items"]
    until(lambda: fleet.client.get(f"/api/pods/{pod['id']}").json()["state"] == "suspended")

    def one_beat_later() -> int:
        beat = fleet.run(run_id)["lastHeartbeat"]
        until(lambda: fleet.run(run_id)["lastHeartbeat"] != beat)
        return len(log_of(fleet, run_id))

    one_beat_later()  # what was said before it stood still may be on its way
    before = one_beat_later()
    assert one_beat_later() == before, "a pod that is alive, and a pipeline that stands still"
    assert steer(fleet, run_id, "pause").status_code == 200, "twice is the same"
    resumed = steer(fleet, run_id, "resume")
    assert (resumed.status_code, resumed.json()["paused"]) == (200, False)
    run = fleet.wait_for(run_id, "COMPLETED", limit_s=60)
    assert (run["attempt"], run["paused"], run["error"]) == (1, False, None)
    for what in ("pause", "resume"):
        refused = steer(fleet, run_id, what)
        assert (refused.status_code, "COMPLETED" in refused.json()["detail"]) == (409, True)
    must_agree_with_its_log(fleet)


def test_a_run_that_nobody_paused_cannot_be_resumed(fleet: Any) -> None:
    run_id = fleet.submit()
    for what in ("pause", "resume"):
        refused = steer(fleet, run_id, what)
        assert (refused.status_code, "QUEUED" in refused.json()["detail"]) == (409, True)
    assert steer(fleet, "nobody", "pause").status_code == 404


def test_a_cancel_ends_a_paused_run(fleet: Any, until: Any) -> None:
    worker = fleet.start_quick_worker()
    run_id = fleet.submit(spec={"seconds": 600, "events": 6_000})
    fleet.wait_for(run_id, "RUNNING")
    child = child_of(worker)
    steer(fleet, run_id, "pause")
    until(lambda: is_stopped(child))
    assert steer(fleet, run_id, "cancel").json()["status"] == "CANCELING"
    run = fleet.wait_for(run_id, "CANCELED")
    assert (run["paused"], run["attempts"][0]["outcome"]) == (False, "canceled")
    assert [each["type"] for each in log_of(fleet, run_id)][-1] == "ai.run.canceled"
    must_agree_with_its_log(fleet)


def test_a_pod_that_goes_away_takes_no_pause_with_it(fleet: Any, database: Any, until: Any) -> None:
    first = fleet.start_quick_worker(name="first")
    run_id = fleet.submit(spec={"seconds": 600, "events": 6_000})
    fleet.wait_for(run_id, "RUNNING")
    child = child_of(first)
    steer(fleet, run_id, "pause")
    until(lambda: is_stopped(child))
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    run = fleet.run(run_id)
    assert (run["status"], run["paused"], run["failures"]["preempted"]) == ("QUEUED", True, 1)
    assert steer(fleet, run_id, "pause").status_code == 200, "the wish stands already"
    be_short(database, run_id)
    second = fleet.start_quick_worker(name="second")
    fleet.wait_for(run_id, "SCHEDULED")
    until(lambda: is_stopped(child_of(second)))
    assert [each for each in log_of(fleet, run_id) if each["attempt"] == 2] == [], "it does not even begin"
    steer(fleet, run_id, "resume")
    assert fleet.wait_for(run_id, "COMPLETED", limit_s=60)["attempt"] == 2
    must_agree_with_its_log(fleet)


def test_notes_reach_the_pipeline_once_each_and_in_their_order(fleet: Any, until: Any) -> None:
    run_id = fleet.submit(spec={"seconds": 600, "events": 1_200})
    before = steer(fleet, run_id, "notes", text='  before $it began: {"$set": 1}\n')
    assert before.status_code == 200
    fleet.start_quick_worker()
    fleet.wait_for(run_id, "RUNNING")
    steer(fleet, run_id, "notes", text="while it ran")
    steer(fleet, run_id, "notes", text="and again: größer")
    until(lambda: any("größer" in each for each in messages(fleet, run_id)))
    assert steer(fleet, run_id, "cancel").status_code == 200  # it would go on for long
    run = fleet.wait_for(run_id, "CANCELED")
    said = ['before $it began: {"$set": 1}', "while it ran", "and again: größer"]
    assert [(each["number"], each["text"]) for each in run["notes"]] == list(enumerate(said, 1))
    assert {each["by"] for each in run["notes"]} == {"user:loopback"}
    read = [each for each in messages(fleet, run_id) if each.startswith("read note")]
    assert read == [f"read note {number}, by user:loopback: {text}" for number, text in enumerate(said, 1)]
    assert steer(fleet, run_id, "notes", text="for people").status_code == 200
    must_agree_with_its_log(fleet)


def test_the_notes_of_a_run_are_bounded(fleet: Any) -> None:
    run_id = fleet.submit()
    for text in ("", "  ", "x" * 1_001, "x" * 100_000):
        assert steer(fleet, run_id, "notes", text=text).status_code == 422
    for number in range(20):
        assert steer(fleet, run_id, "notes", text=f"{number}" * 500).status_code == 200
    refused = steer(fleet, run_id, "notes", text="one more")
    assert (refused.status_code, "20 notes" in refused.json()["detail"]) == (409, True)
    assert fleet.client.get("/api/runs").json()["items"][0].get("notes") is None, "no list carries them"


def test_a_probe_has_no_stage_to_begin_at(fleet: Any) -> None:
    fleet.start_quick_worker()
    run_id = fleet.submit(spec={"seconds": 0.1})
    fleet.wait_for(run_id, "COMPLETED")
    refused = steer(fleet, run_id, "retry", from_stage="paper")
    assert (refused.status_code, refused.json()["code"]) == (422, "no_stages")
    again = steer(fleet, run_id, "retry")
    assert (again.status_code, again.json()["parentRunId"], again.json()["fromStage"]) == (201, run_id, None)


def test_a_priced_pod_says_what_an_attempt_cost(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODFLEET_GPU_USD_PER_HOUR", "3600")
    fleet.start_quick_worker()
    run_id = fleet.submit(spec={"seconds": 1})
    fleet.wait_for(run_id, "COMPLETED")
    log = log_of(fleet, run_id)
    (usage,) = [each["data"] for each in log if each["type"] == "ai.run.usage"]
    assert [each["type"] for each in log][-2:] == ["ai.run.usage", "ai.run.completed"]
    assert usage["purpose"] == "pod"
    assert usage["price"] == {"pod_usd_per_hour": 3600}
    assert 1.0 <= usage["seconds"] < 30.0
    assert usage["cost_usd"] == pytest.approx(usage["seconds"], abs=0.01)


class Hand:
    """A worker by hand: claims, says what its pipeline would have said, settles."""

    def __init__(self, fleet: Any, queue: MongoQueue) -> None:
        self.fleet = fleet
        self.queue = queue
        self.claims = 0
        self.said: dict[tuple[str, int], int] = {}

    def claim(self, run_id: str, pod: str = "hand/1") -> Claim:
        self.claims += 1
        (wanted,) = self.queue.waiting(["runs"])
        claim = self.queue.take(wanted, token=f"{self.claims:043}", pod=pod)
        assert claim is not None
        assert claim.run_id == run_id
        return claim

    def say(self, claim: Claim, *facts: Fact) -> None:
        name = (claim.run_id, claim.attempt)
        first = self.said.get(name, 0) + 1
        self.said[name] = first + len(facts) - 1
        lines = [
            make_line(
                fact, sequence=number, run_id=claim.run_id, attempt=claim.attempt, event_id=f"{name}{number}"
            )
            for number, fact in enumerate(facts, first)
        ]
        headers = {"Content-Type": "application/x-ndjson", **bearer(claim.run_token)}
        answer = self.fleet.client.post("/api/ingest/events", content=b"\n".join(lines), headers=headers)
        assert answer.status_code == 202, answer.text

    def finish(self, claim: Claim, *stages: str) -> None:
        for stage in stages:
            self.say(claim, StageStarted(stage=stage), kept(claim, stage), StageCompleted(stage=stage))

    def fail(self, claim: Claim) -> None:
        self.settle(claim, End("failed", "BROKEN", "it broke"))

    def settle(self, claim: Claim, how: End) -> None:
        self.queue.settle(claim, how, self.said.get((claim.run_id, claim.attempt), 0), jitter=0.0)

    def offer(self, claim: Claim) -> dict[str, Any]:
        headers = bearer(claim.run_token)
        path = f"/api/runs/{claim.run_id}/artifacts/checkpoints"
        found: dict[str, Any] = self.fleet.client.post(path, headers=headers).json()
        return found

    def checkpoints(self, claim: Claim) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.offer(claim)["checkpoints"]
        return found

    def offered(self, claim: Claim) -> list[tuple[str, str, int]]:
        """Return which checkpoints the attempt may go on from: name, run and attempt."""
        found = self.checkpoints(claim)
        assert all(claim.run_id in each["manifest"]["url"] or each["runId"] != claim.run_id for each in found)
        assert all(each["pods"] == (["hand"] if each["runId"] == claim.run_id else []) for each in found)
        return [(each["name"], each["runId"], each["attempt"]) for each in found]


@pytest.fixture
def hand(fleet: Any) -> Iterator[Hand]:
    db = connect(fleet.database_url)
    yield Hand(fleet, MongoQueue(db))
    db.client.close()


def kept(claim: Claim, name: str, sha256: str = "0" * 64) -> ArtifactRegistered:
    """Return the registration of a checkpoint's manifest."""
    artifact = manifest_artifact(name)
    key = f"runs/{claim.run_id}/a{claim.attempt}/{'0' * 16}/{artifact}"
    return ArtifactRegistered(name=artifact, key=key, size=2, sha256=sha256)


def set_aside(claim: Claim, name: str) -> ArtifactRegistered:
    """Return the registration by which an attempt sets aside what there was under a name."""
    return kept(claim, name, hashlib.sha256(emptied(name, claim.run_id, claim.attempt)).hexdigest())


def test_a_part_is_repeated_behind_what_the_line_of_its_parents_has_finished(fleet: Any, hand: Hand) -> None:
    first = fleet.submit("experiment", spec={"idea": "Dropout helps"})
    claim = hand.claim(first)
    assert (claim.from_stage, claim.has_past) == (None, False)
    assert steer(fleet, first, "retry", from_stage="Stage_2").status_code == 409, "it is not over"
    hand.finish(claim, "Stage_1", "Stage_2")
    hand.say(claim, kept(claim, "spending"), StageStarted(stage="Stage_3"), kept(claim, "Stage_3"))
    hand.fail(claim)

    refused = steer(fleet, first, "retry", from_stage="Stage_9")
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_stage")
    assert "Stage_1, Stage_2, Stage_3" in refused.json()["detail"]
    refused = steer(fleet, first, "retry", from_stage="paper")
    assert (refused.status_code, refused.json()["code"]) == (409, "no_checkpoint")
    assert "finished Stage_3; retry from Stage_3" in refused.json()["detail"]

    part = steer(fleet, first, "retry", from_stage="Stage_3")
    assert part.status_code == 201, part.text
    second = part.json()["id"]
    assert (part.json()["parentRunId"], part.json()["fromStage"]) == (first, "Stage_3")
    claim = hand.claim(second)
    assert (claim.from_stage, claim.has_past) == ("Stage_3", True)
    assert hand.offered(claim) == [("Stage_1", first, 1), ("Stage_2", first, 1)]
    hand.finish(claim, "Stage_3")
    hand.queue.settle(claim, End("preempted"), hand.said[second, 1], jitter=0.0)
    claim = hand.claim(second)
    assert hand.offered(claim) == [("Stage_3", second, 1), ("Stage_1", first, 1), ("Stage_2", first, 1)]
    hand.say(claim, StageStarted(stage="Stage_4"))
    hand.fail(claim)

    # The part of a part: what its parent left, and behind it what that one had taken over.
    third = steer(fleet, second, "retry", from_stage="Stage_4").json()["id"]
    claim = hand.claim(third)
    assert hand.offered(claim) == [("Stage_3", second, 1), ("Stage_1", first, 1), ("Stage_2", first, 1)]
    hand.say(claim, StageStarted(stage="Stage_4"))
    hand.fail(claim)
    earlier = steer(fleet, third, "retry", from_stage="Stage_2").json()["id"]
    claim = hand.claim(earlier)
    assert hand.offered(claim) == [("Stage_1", first, 1)]
    hand.say(claim, StageStarted(stage="Stage_2"))
    hand.fail(claim)

    whole = steer(fleet, third, "retry").json()
    assert (whole["parentRunId"], whole["fromStage"]) == (third, None)
    assert hand.offered(hand.claim(whole["id"])) == []


def test_no_part_is_repeated_behind_what_was_set_aside(fleet: Any, hand: Hand) -> None:
    first = fleet.submit("experiment", spec={"idea": "Dropout helps"})
    claim = hand.claim(first)
    hand.finish(claim, "Stage_1", "Stage_2")
    hand.fail(claim)
    second = steer(fleet, first, "retry", from_stage="Stage_3").json()["id"]
    claim = hand.claim(second)
    hand.say(claim, StageStarted(stage="Stage_3"), set_aside(claim, "Stage_1"), set_aside(claim, "Stage_2"))
    hand.queue.settle(claim, End("preempted"), hand.said[second, 1], jitter=0.0)
    claim = hand.claim(second)
    hand.finish(claim, "Stage_1")
    hand.fail(claim)
    refused = steer(fleet, second, "retry", from_stage="Stage_3")
    assert (refused.status_code, refused.json()["code"]) == (409, "no_checkpoint")
    assert "finished Stage_2; retry from Stage_2" in refused.json()["detail"]
    assert steer(fleet, second, "retry", from_stage="Stage_2").status_code == 201
    assert steer(fleet, first, "retry", from_stage="Stage_3").status_code == 201, "it set nothing aside"


def test_an_attempt_learns_that_an_earlier_one_asked_for_a_replication(fleet: Any, hand: Hand) -> None:
    run_id = fleet.submit("experiment", spec={"idea": "Dropout helps"})
    for is_asked in (False, True):
        claim = hand.claim(run_id)
        answer = hand.offer(claim)
        assert (answer["checkpoints"], answer["replicationAsked"]) == ([], is_asked)
        hand.say(claim, ValidationAutoCompleted(verdict="fail", replication="asked for"))
        hand.queue.settle(claim, End("preempted"), hand.said[run_id, claim.attempt], jitter=0.0)


def test_a_run_that_finished_nothing_can_only_be_retried_whole(fleet: Any, hand: Hand) -> None:
    run_id = fleet.submit("experiment", spec={"idea": "Dropout helps"})
    claim = hand.claim(run_id)
    hand.say(claim, StageStarted(stage="Stage_1"), kept(claim, "Stage_1"))
    hand.fail(claim)
    refused = steer(fleet, run_id, "retry", from_stage="Stage_2")
    assert (refused.status_code, "retry the whole run" in refused.json()["detail"]) == (409, True)


def test_a_worker_is_told_to_ask_until_it_has_heard(fleet: Any, hand: Hand, until: Any) -> None:
    run_id = fleet.submit()
    claim = hand.claim(run_id)

    def hinted() -> list[str]:
        line = make_line(RunLog(message="here"), sequence=None, run_id=run_id, event_id=f"e{next(numbers)}")
        answer = fleet.client.post(
            "/api/ingest/events", content=line, headers={"Content-Type": "application/x-ndjson"}
        )
        found: list[str] = answer.json()["steered"]
        return found

    numbers = iter(range(10))
    assert hinted() == []
    steer(fleet, run_id, "pause")
    steer(fleet, run_id, "notes", text="look at this")
    until(lambda: not fleet.run(run_id)["journal"])  # in the log by now, and heard by nobody yet
    assert hinted() == hinted() == [f"{run_id}/1"]
    orders = hand.queue.renew(claim)
    assert (orders.paused, [note.text for note in orders.notes]) == (True, ["look at this"])
    assert hinted() == []
