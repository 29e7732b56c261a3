"""A run that asks for a person waits for one; a verdict closes its record, and may be revised behind it."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest

from control_plane.model.projection import artifact_prefix
from control_plane.store.log.events import decode
from events import catalog as c
from events.envelope import content_hash
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCompleted, NodeCreated
from events.queue.settlement import End
from events.testing import make_line
from tests.fork_server import run_program
from tests.integration.conftest import NDJSON, bearer
from tests.integration.test_steering import must_agree_with_its_log

pytestmark = pytest.mark.common_fleet
# What a hand changed stays: nothing is gained by looking again.
HASTY: Final = (
    "-c",
    "import sys; from podfleet.commands.maintenance import verify; verify.PATIENCE_S = 0.0;"
    "from podfleet.main import main; sys.exit(main())",
)


def test_a_person_has_the_last_word_once(fleet: Any, database: Any) -> None:
    fleet.start_worker()
    run_id = fleet.submit(spec={"seconds": 0.1, "review": "human"})
    fleet.wait_for(run_id, "AWAITING_HUMAN")
    verdict = {"verdict": "fail", "notes": "the $cost of <b>noise</b>"}
    first = fleet.client.post(f"/api/runs/{run_id}/review", json=verdict)
    assert (first.status_code, first.json()["status"]) == (200, "HUMAN_REJECTED")
    assert first.json()["finishedAt"] is not None
    assert fleet.client.post(f"/api/runs/{run_id}/review", json=verdict).status_code == 409
    stored = database.runs.find_one({"_id": run_id})
    assert stored["humanVerdict"] == {**verdict, "reviewer": "loopback"}
    (human,) = [each for each in first.json()["validations"] if each["by"] == "human"]
    assert human["summary"] == verdict["notes"]


def approve(fleet: Any, run_id: str, **more: Any) -> httpx.Response:
    answer: httpx.Response = fleet.client.post(f"/api/runs/{run_id}/review", json={"verdict": "pass", **more})
    return answer


def seal(run: dict[str, Any]) -> tuple[int, int, bool]:
    """Return where a run is sealed: the attempt, its last event, and whether that was all."""
    sealed = run["sealed"]
    return sealed["attempt"], sealed["last"], sealed["whole"]


def paper(run_id: str, letter: str) -> c.ArtifactRegistered:
    key = f"{artifact_prefix(run_id, 1)}{letter}.pdf"
    return c.ArtifactRegistered(name="paper.pdf", key=key, size=1, sha256=letter * 64)


def refusals(
    fleet: Any, pod: Any, sequence: int | None, fact: Fact, event_id: str | None = None
) -> list[str]:
    """Send an event with the attempt's token; return the codes of what was refused."""
    line = make_line(fact, sequence=sequence, run_id=pod.claim.run_id, attempt=1, event_id=event_id)
    answer = fleet.client.post(
        "/api/ingest/events", content=line, headers={**NDJSON, **bearer(pod.claim.run_token)}
    )
    body = answer.json()
    return [each["code"] for each in body.get("rejected", [body])] if not answer.is_success else []


def test_nothing_is_shown_under_a_verdict_that_came_after_it(fleet: Any, by_hand: Any, database: Any) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted(), paper(run_id, "a"))
    pod.settle(End("completed"), unsaid=2)
    assert refusals(fleet, pod, 5, paper(run_id, "b")) == ["sealed"]  # beyond what it settled with

    answer = approve(fleet, run_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "record_incomplete")
    assert "events 3 to 4 of attempt 1 are still on their way" in answer.json()["detail"]
    page = fleet.client.get("/reviews").text
    assert 'name="incomplete"' in page
    form = {"verdict": "pass", "notes": "", "reviewer": "me"}
    assert fleet.client.post(f"/runs/{run_id}/review", data=form).status_code == 409

    answer = approve(fleet, run_id, incomplete=True)
    assert (answer.status_code, answer.json()["status"]) == (200, "HUMAN_VALIDATED")
    assert seal(answer.json()) == (1, 2, False)
    assert answer.json()["logIncomplete"] == {"from": 3, "to": 4}
    assert "an incomplete record" in fleet.client.get(f"/runs/{run_id}/validation").text

    assert refusals(fleet, pod, 3, paper(run_id, "b")) == ["sealed"]
    assert refusals(fleet, pod, 4, c.RunLog(message="late")) == ["sealed"]
    pod.sequence = 0
    pod.say(c.RunStarted())  # what was taken before is only told again
    (kept,) = database.artifacts.find({"runId": run_id})
    assert kept["sha256"] == "a" * 64
    presign = {"name": "paper.pdf", "size": 1, "sha256": "b" * 64}
    path = f"/api/runs/{run_id}/artifacts/presign"
    assert fleet.client.post(path, json=presign, headers=bearer(pod.claim.run_token)).status_code == 409


def test_a_verdict_on_a_record_without_an_end_names_nothing_as_missing(fleet: Any, by_hand: Any) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted())
    # From outside, as a script reports that knows no sequences: nobody has told the attempt's last one.
    line = make_line(c.RunCompleted(), sequence=None, run_id=run_id)
    assert fleet.client.post("/api/ingest/events", content=line, headers=NDJSON).is_success
    assert "nothing says which event" in approve(fleet, run_id).json()["detail"]
    run = approve(fleet, run_id, incomplete=True).json()
    assert (seal(run), run["logIncomplete"]) == ((1, 1, False), None)
    assert "an incomplete record" in fleet.client.get(f"/runs/{run_id}/validation").text
    must_agree_with_its_log(fleet)


def test_what_was_on_its_way_at_the_settle_is_waited_for(fleet: Any, by_hand: Any) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted())
    pod.settle(End("completed"), unsaid=1)
    with ThreadPoolExecutor(1) as person:
        verdict = person.submit(approve, fleet, run_id)
        pod.say(c.RunLog(message="the rest"))
        assert seal(verdict.result().json()) == (1, 2, True)


def test_a_settle_that_comes_behind_its_end_event_is_waited_for(fleet: Any, by_hand: Any) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted(), c.RunCompleted())
    assert fleet.run(run_id)["status"] == "AWAITING_HUMAN"
    with ThreadPoolExecutor(1) as person:
        verdict = person.submit(approve, fleet, run_id)
        with pytest.raises(TimeoutError):
            verdict.result(timeout=0.3)
        pod.settle(End("completed"))
        assert seal(verdict.result().json()) == (1, 2, True)


def test_a_pod_that_settles_early_can_neither_go_on_nor_say_other_lines_than_it_settled_with(
    fleet: Any, by_hand: Any
) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted(), c.RunLog(message="accuracy 0.5"))
    pod.queue.settle(pod.claim, End("completed"), 0, jitter=0.0)  # and not with 2
    assert refusals(fleet, pod, 3, c.ValidationAutoCompleted(verdict="pass")) == ["sealed"]
    assert seal(approve(fleet, run_id).json()) == (1, 2, True)

    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted())
    pod.settle(End("completed"), unsaid=1, root="0" * 64)
    pod.say(c.RunLog(message="accuracy 0.9"))
    refused = approve(fleet, run_id).json()
    assert refused["code"] == "record_incomplete"
    assert "are not those that it settled with" in refused["detail"]
    assert seal(approve(fleet, run_id, incomplete=True).json()) == (1, 2, False)
    environment = {"PATH": "", "MONGODB_URL": fleet.database_url}
    (finding,) = run_program([*HASTY, "verify"], env=environment, cwd=fleet.home).stdout.splitlines()
    assert finding.split()[:2] == ["settle-broken", run_id]


def test_an_attempt_that_settled_says_nothing_more_when_another_has_the_run(
    fleet: Any, by_hand: Any, database: Any
) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    first = by_hand("runs", "probe/cpu/any")
    first.say(c.RunStarted(), c.RunLog(message="one"))
    first.settle(End("preempted"), unsaid=1)
    second = by_hand("runs", "probe/cpu/any")
    second.say(c.RunStarted())
    first.say(c.RunLog(message="what was on its way"))
    for sequence, fact in ((4, paper(run_id, "b")), (9, c.ValidationAutoCompleted(verdict="pass"))):
        assert refusals(fleet, first, sequence, fact) == ["sealed"]
    second.settle(End("completed"))
    assert seal(approve(fleet, run_id).json()) == (2, 1, True)
    assert database.artifacts.count_documents({"runId": run_id}) == 0
    must_agree_with_its_log(fleet)


def test_lines_that_were_changed_after_a_verdict_no_longer_fit_its_root(
    fleet: Any, by_hand: Any, database: Any
) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted(), c.RunLog(message="accuracy 0.5"), c.RunLog(message="and more"))
    pod.settle(End("completed"))
    run = approve(fleet, run_id).json()
    stored = database.events.find({"runId": run_id, "sequence": {"$gte": 1}}).sort("sequence")
    root = ""
    for line in stored:
        root = hashlib.sha256(f"{root}{line['hash']}".encode()).hexdigest()
    assert run["sealed"]["root"] == root
    assert root in fleet.client.get(f"/runs/{run_id}/validation").text
    must_agree_with_its_log(fleet)

    # Whoever has the database makes the digest fit as well.
    line = database.events.find_one({"runId": run_id, "sequence": 2})
    line["data"]["message"] = "accuracy 0.9"
    database.events.replace_one({"_id": line["_id"]}, {**line, "hash": content_hash(decode(line))})
    environment = {"PATH": "", "MONGODB_URL": fleet.database_url}
    found = run_program([*HASTY, "verify"], env=environment, cwd=fleet.home)
    (finding,) = found.stdout.splitlines()
    assert finding.split()[:2] == ["seal-broken", run_id]
    assert root in finding


def test_what_has_no_number_shows_no_node_and_a_sealed_record_takes_none(
    fleet: Any, by_hand: Any, database: Any
) -> None:
    run_id = fleet.submit("experiment", spec={"idea": "Dropout helps", "review": "human"})
    pod = by_hand("runs", "experiment/cpu/any")
    pod.say(c.RunStarted(), NodeCreated(stage="S", node="1", plan="honest"))
    facts: tuple[Fact, ...] = (
        NodeCreated(stage="S", node="2", plan="beside the record"),
        NodeCompleted(stage="S", node="1", buggy=False, seconds=1.0, metric=0.9),
        c.RunUsage(model="m", cost_usd=1e6), c.StageMetric(stage="S", name="a", value=0.9),
        c.RunLog(message="late"), c.RunHeartbeat(),
    )  # fmt: skip
    assert refusals(fleet, pod, None, facts[0]) == []
    pod.settle(End("completed"))
    run = approve(fleet, run_id).json()
    assert [(each["id"], each["metric"]) for each in run["nodes"]] == [("1", None)]
    said = [refusals(fleet, pod, None, each, f"late-{number}") for number, each in enumerate(facts)]
    assert said == [["sealed"]] * len(facts)
    now = fleet.client.get(f"/api/runs/{run_id}").json()
    assert {**now, "journal": []} == {**run, "journal": []}  # the verdict moves from there into the log
    assert database.events.count_documents({"ceId": {"$regex": "^late-"}}) == 0
    must_agree_with_its_log(fleet)


def test_a_verdict_is_refused_where_more_has_come_than_the_person_was_shown(fleet: Any, by_hand: Any) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    pod.say(c.RunStarted(), c.ValidationAutoCompleted(verdict="fail", summary="no effect"))
    pod.settle(End("completed"), unsaid=1)
    page = fleet.client.get(f"/runs/{run_id}").text
    assert "Events 3 to 3 have not arrived" in page
    assert '<input type="hidden" name="seen" value="2">' in page
    pod.say(c.ValidationAutoCompleted(verdict="pass", summary="a huge effect"))
    form = {"verdict": "pass", "seen": "2"}
    assert "look again" in fleet.client.post(f"/runs/{run_id}/review", data=form).text
    assert approve(fleet, run_id, seen=2).json()["code"] == "record_changed"
    assert seal(approve(fleet, run_id, seen=3).json()) == (1, 3, True)


def test_whoever_sends_line_after_line_keeps_no_verdict_waiting(fleet: Any, by_hand: Any) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    pod = by_hand("runs", "probe/cpu/any")
    for _ in range(3):
        pod.say(*(c.RunLog(message="x") for _ in range(1_000)))
    pod.settle(End("completed"), unsaid=1_000_000)
    over = threading.Event()

    def chatter() -> None:
        number = 3_000
        while not over.is_set():
            number += 1
            refusals(fleet, pod, number, c.RunLog(message="and on"))

    with ThreadPoolExecutor(1) as other:
        talk = other.submit(chatter)
        try:
            answer = approve(fleet, run_id, incomplete=True)
        finally:
            over.set()
        talk.result()
    assert (answer.status_code, answer.json()["status"]) == (200, "HUMAN_VALIDATED"), answer.text
    assert seal(answer.json())[1] >= 3_000


def test_a_verdict_is_revised_for_a_reason_behind_the_seal_and_both_are_kept(
    fleet: Any, by_hand: Any, database: Any, until: Any
) -> None:
    run_id = fleet.submit(spec={"review": "human"})
    by_hand("runs", "probe/cpu/any").settle(End("completed"), unsaid=0)
    assert approve(fleet, run_id, revise=True, notes="too early").json()["code"] == "illegal_transition"
    before = approve(fleet, run_id, notes="convincing", incomplete=True).json()
    path, form = f"/runs/{run_id}/review", {"verdict": "fail", "reviewer": "bo", "revise": "true"}
    assert "convincing" in fleet.client.get(f"/runs/{run_id}").text
    for wrong, code in (
        ({"revise": True, "notes": " "}, "reason_missing"),
        ({"revise": True, "notes": "sure"}, "same_verdict"),
    ):
        assert approve(fleet, run_id, **wrong).json()["code"] == code
    assert fleet.client.post(path, data=form).status_code == 422
    assert fleet.client.post(path, data={**form, "notes": "the seeds were chosen"}).status_code == 303
    after = fleet.client.get(f"/api/runs/{run_id}").json()
    assert (after["status"], after["humanVerdict"]["reviewer"]) == ("HUMAN_REJECTED", "bo")
    assert (after["sealed"], after["finishedAt"]) == (before["sealed"], before["finishedAt"])
    said = [(each["verdict"], each["summary"]) for each in after["validations"] if each["by"] == "human"]
    assert said == [("pass", "convincing"), ("fail", "the seeds were chosen")]
    note = fleet.client.post(f"/api/runs/{run_id}/notes", json={"text": "see the other run"})
    assert [each["text"] for each in note.json()["notes"]] == ["see the other run"]
    decisions = {"runId": run_id, "revision": {"$gte": 4}}
    until(lambda: database.events.count_documents(decisions) == 3)
    causes = [each["data"]["cause"] for each in database.events.find(decisions).sort("revision")]
    assert causes == ["review", "revise", "note"]
    must_agree_with_its_log(fleet)
