"""Ideas of a hypothesis: found by an attempt that is driven by hand, chosen by a person, run as snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from control_plane.model.projection import artifact_prefix
from control_plane.store import database as store
from control_plane.store import schema
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Finding, Verifier
from events import catalog as c
from events.kinds.ideation import IdeationFailed, IdeationGenerated, IdeationStarted
from events.queue.settlement import End

pytestmark = pytest.mark.common_fleet
Json = dict[str, Any]


# What an idea of a name is about, where the name is no intervention.
ABOUT: Final = {"width": "a wider network", "late": "early stopping", "half": "label smoothing"}


def idea(name: str, **fields: Any) -> Json:
    return {
        "Name": name, "Title": f"On {name}",
        "Short Hypothesis": f"{ABOUT.get(name, name)} improves accuracy on iris",
        "Related Work": "none", "Abstract": "short", "Experiments": ["one", "two"],
        "Risk Factors and Limitations": "small data", **fields,
    }  # fmt: skip


@dataclass
class Ideation:
    """An ideation request in the hands of a test."""

    client: Any
    database_url: str
    claim: Callable[[], Any]
    hypothesis_id: str
    request_id: str

    def look(self) -> Json:
        found: Json = self.client.get(f"/api/hypotheses/{self.hypothesis_id}").json()
        return found

    def launch(self, **body: Any) -> Any:
        return self.client.post(f"/api/hypotheses/{self.hypothesis_id}/runs", json=body)

    def finish(self, *ideas: Json, unfinished: tuple[Json, ...] = ()) -> None:
        """Drive the request to its end with these ideas."""
        attempt = self.claim()
        attempt.say(
            c.RunStarted(),
            IdeationStarted(),
            IdeationGenerated(ideas=list(ideas), unfinished=list(unfinished)),
            c.RunCompleted(),
        )
        attempt.settle(End("completed"))

    def findings(self, patience_s: float = 10.0) -> list[Finding]:
        """Return what an audit with a full replay finds, and finds again while its patience lasts."""

        async def look() -> list[Finding]:
            client = store.connect(self.database_url)
            try:
                reads = VerifyReads(store.database(client, self.database_url))
                return [
                    finding async for finding in Verifier(reads, patience_s=patience_s).audit(rebuilds=True)
                ]
            finally:
                await client.close()

        return asyncio.run(look())


def begin(fleet: Any, by_hand: Callable[[str, str], Any]) -> Ideation:
    """Propose a hypothesis whose ideas the test finds."""
    body = {"title": "Calm", "idea": "Dropout improves accuracy on iris", "enable_ideation": True}
    made = fleet.client.post("/api/hypotheses", json=body).json()
    return Ideation(
        fleet.client,
        fleet.database_url,
        lambda: by_hand("ideation_requests", "ideation/cpu/any"),
        made["id"],
        made["ideation_request_id"],
    )


@pytest.fixture
def ideation(fleet: Any, by_hand: Callable[[str, str], Any]) -> Ideation:
    return begin(fleet, by_hand)


def test_ideas_are_shown_with_their_progress_and_the_first_is_the_choice(ideation: Ideation) -> None:
    before = ideation.look()
    assert (before["ideas"], before["ideaIndex"], before["ideaJson"]) == ([], None, None)
    assert before["ideation"]["requestId"] == ideation.request_id
    attempt = ideation.claim()
    attempt.say(c.RunStarted(), c.StageStarted(stage="ideas", index=1, total=1))
    attempt.say(c.StageProgress(stage="ideas", progress=0.5, activity="idea 1 of 2, reflection 2 of 3"))
    under_way = ideation.look()["ideation"]
    assert (under_way["status"], under_way["isOver"]) == ("RUNNING", False)
    assert under_way["currentStage"]["activity"] == "idea 1 of 2, reflection 2 of 3"
    attempt.say(
        IdeationGenerated(ideas=[idea("dropout"), idea("mixup")], unfinished=[{"Name": "half"}]),
        c.RunCompleted(),
    )
    attempt.settle(End("completed"))
    found = ideation.look()
    assert [each["Name"] for each in found["ideas"]] == ["dropout", "mixup"]
    assert found["unfinishedIdeas"] == [{"Name": "half"}]
    assert (found["ideaIndex"], found["ideaJson"]) == (0, idea("dropout"))
    assert (found["ideation"]["status"], found["ideation"]["isOver"]) == ("COMPLETED", True)
    (listed,) = ideation.client.get("/api/hypotheses").json()["items"]
    assert (listed["ideation"]["status"], listed["ideaCount"]) == ("COMPLETED", 2)


def test_each_run_keeps_its_own_idea_whatever_is_chosen_later(ideation: Ideation, database: Any) -> None:
    ideation.finish(idea("dropout"), idea("mixup"), idea("width"))
    runs = [ideation.launch(**body).json() for body in ({}, {"idea_index": 2}, {}, {"idea_index": 1})]
    assert [run["spec"]["idea"]["Name"] for run in runs] == ["dropout", "width", "width", "mixup"]
    assert [run["title"] for run in runs] == ["On dropout", "On width", "On width", "On mixup"]
    assert ideation.look()["ideaIndex"] == 1
    assert ideation.look()["ideaJson"]["Name"] == "mixup"
    stored = [database.run_specs.find_one({"_id": run["id"]})["spec"]["idea"]["Name"] for run in runs]
    assert stored == ["dropout", "width", "width", "mixup"]
    assert {run["hypothesisId"] for run in ideation.look()["runs"]} == {ideation.hypothesis_id}


def test_whoever_reads_the_collections_sees_what_the_api_says(
    ideation: Ideation, database: Any, until: Callable[..., None]
) -> None:
    def stored() -> Json:
        found: Json = database.hypotheses.find_one({"_id": ideation.hypothesis_id})
        return found

    assert (stored()["ideation"]["status"], stored()["ideaJson"]) == ("QUEUED", None)
    attempt = ideation.claim()
    prefix = artifact_prefix(ideation.request_id, 1)
    file = c.ArtifactRegistered(
        name="ideas.json", key=f"{prefix}ideas.json", size=2, sha256="0" * 64, content_type="text/plain"
    )
    attempt.say(c.RunStarted(), file)
    until(lambda: stored()["ideation"]["status"] == "RUNNING")
    attempt.say(IdeationGenerated(ideas=[idea("dropout"), idea("mixup")]), c.RunCompleted())
    attempt.settle(End("completed"))
    until(lambda: stored()["ideation"]["isOver"])
    assert (stored()["ideation"]["status"], stored()["ideaJson"]) == ("COMPLETED", idea("dropout"))
    run = ideation.launch(idea_index=1).json()
    assert stored()["ideaJson"] == ideation.look()["ideaJson"] == idea("mixup")
    wanted = {"hypothesisId": ideation.hypothesis_id, "status": "QUEUED"}
    (found,) = database.runs.find(wanted).sort("createdAt")
    assert (found["_id"], found["kind"]) == (run["id"], "experiment")
    (found,) = database.artifacts.find({"runId": ideation.request_id})
    assert (found["name"], found["size"]) == ("ideas.json", 2)
    kinds = [each["type"] for each in database.events.find({"runId": ideation.request_id}).sort("sequence")]
    assert [each for each in kinds if each != "ai.run.status_changed"] == [
        "ai.run.started", "ai.artifact.registered", "ai.ideation.generated", "ai.run.completed",
    ]  # fmt: skip
    assert ideation.findings() == []


def test_a_hypothesis_of_an_earlier_release_is_brought_up_to_date_by_a_migration(
    ideation: Ideation, database: Any, until: Callable[..., None]
) -> None:
    body = {"title": "own", "idea": "Dropout improves accuracy on iris"}
    own = ideation.client.post("/api/hypotheses", json=body).json()
    ideation.finish(idea("dropout"))
    until(lambda: database.hypotheses.find_one({"ideation.isOver": True}) is not None)
    old = {"$set": {"ideation.status": "QUEUED", "ideaJson": None}, "$unset": {"ideation.isOver": ""}}
    database.hypotheses.update_one({"_id": ideation.hypothesis_id}, old)

    async def migrated() -> None:
        client = store.connect(ideation.database_url)
        try:
            for _ in range(2):
                await schema.migrate(store.database(client, ideation.database_url))
        finally:
            await client.close()

    asyncio.run(migrated())
    until(lambda: database.hypotheses.find_one({"ideation.isOver": True}) is not None)
    found = database.hypotheses.find_one({"_id": ideation.hypothesis_id})
    assert (found["ideation"]["status"], found["ideaJson"]["Name"]) == ("COMPLETED", "dropout")
    assert database.hypotheses.find_one({"_id": own["id"]})["ideation"] is None


def test_a_launch_that_cannot_be_is_refused_in_words_and_changes_nothing(
    ideation: Ideation, database: Any
) -> None:
    early = ideation.launch()
    assert (early.status_code, early.json()["code"]) == (409, "ideation_under_way")
    ideation.finish(idea("dropout"), idea("mixup"), {"Name": "no hypothesis"}, idea("odd", Score=3))
    refused = {
        "has 4, numbered from 0 to 3": {"idea_index": 4},
        "Short Hypothesis": {"idea_index": 2},
        "Score": {"idea_index": 3},
        "preset": {"idea_index": 1, "spec": {"preset": "endless"}},
        "not both": {"idea_index": 1, "spec": {"idea": "another"}},
        "idea_index": {"idea_index": -1},
    }
    for words, body in refused.items():
        answer = ideation.launch(**body)
        assert (answer.status_code, words in answer.json()["detail"]) == (422, True), answer.text
    assert ideation.launch(idea_index="1").status_code == 422
    assert ideation.launch(idea_index=True).status_code == 422
    assert database.runs.count_documents({}) == 0
    assert ideation.look()["ideaIndex"] == 0


def test_after_a_failed_ideation_the_hypothesis_runs_its_own_idea(ideation: Ideation) -> None:
    attempt = ideation.claim()
    attempt.say(
        c.RunStarted(),
        IdeationFailed(code="NO_IDEA", message="none was finalised"),
        c.RunFailed(code="NO_IDEA", message="none was finalised"),
    )
    attempt.settle(End("failed", "NO_IDEA", "none was finalised", None, retryable=False))
    found = ideation.look()
    assert (found["ideation"]["status"], found["ideation"]["error"]["code"]) == ("FAILED", "NO_IDEA")
    refused = ideation.launch(idea_index=1)
    assert (refused.status_code, "own idea only" in refused.json()["detail"]) == (422, True)
    for body in ({}, {"idea_index": 0}):
        assert ideation.launch(**body).json()["spec"]["idea"] == "Dropout improves accuracy on iris"
    assert ideation.look()["ideaIndex"] is None


def test_while_the_last_words_of_an_ideation_are_on_their_way_nothing_is_launched(ideation: Ideation) -> None:
    attempt = ideation.claim()
    attempt.say(c.RunStarted())
    attempt.settle(End("completed"), unsaid=2)
    assert ideation.look()["ideation"]["status"] == "COMPLETED"
    assert ideation.launch().status_code == 409
    attempt.say(IdeationGenerated(ideas=[idea("late")]), c.RunCompleted())
    assert ideation.launch().json()["spec"]["idea"]["Name"] == "late"


def test_the_latest_attempt_that_found_any_counts(ideation: Ideation) -> None:
    attempt = ideation.claim()
    attempt.say(c.RunStarted(), IdeationGenerated(ideas=[idea("first")]), c.RunPreempted())
    attempt.settle(End("preempted"))
    ideation.finish(unfinished=({"Name": "half"},))
    assert [each["Name"] for each in ideation.look()["ideas"]] == ["first"]
    (listed,) = ideation.client.get("/api/hypotheses").json()["items"]
    assert listed["ideaCount"] == 1


def test_what_a_failed_ideation_had_begun_is_shown(ideation: Ideation) -> None:
    begun = {"number": 1, "why": "the model gave no answer", "idea": None}
    attempt = ideation.claim()
    attempt.say(
        c.RunStarted(),
        IdeationFailed(code="NO_IDEA", message="none", unfinished=[begun]),
        c.RunFailed(code="NO_IDEA", message="none"),
    )
    attempt.settle(End("failed", "NO_IDEA", "none", None, retryable=False))
    assert ideation.look()["unfinishedIdeas"] == [begun]
    assert ideation.look()["ideas"] == []
    assert ideation.findings() == []


def test_a_new_request_knows_what_the_fleet_has_had_and_what_says_nothing_is_left_out(
    ideation: Ideation, database: Any
) -> None:
    long = {"Short Hypothesis": "word " * 1000}
    ideation.finish(
        idea("dropout"), {"Name": "no hypothesis"}, {"Short Hypothesis": 7}, idea("dropout"), long
    )
    body = {"title": "t", "idea": "i", "enable_ideation": True}
    made = ideation.client.post("/api/hypotheses", json=body).json()
    spec = database.run_specs.find_one({"_id": made["ideation_request_id"]})["spec"]
    assert [(each["Title"], len(each["Short Hypothesis"])) for each in spec["earlier"]] == [
        ("Calm", 33), ("On dropout", 33), ("", 500),
    ]  # fmt: skip


def test_stored_ideas_equal_the_log_and_a_changed_one_is_found(ideation: Ideation, database: Any) -> None:
    ideation.finish(idea("dropout", odd={"$gt": "", "a.b": 1}), idea("mixup"))
    assert ideation.launch(idea_index=1).status_code == 201
    assert ideation.findings() == []
    document = database.ideas.find_one({"_id": f"{ideation.request_id}/a1/ideas"})
    for change, word in (
        ({"ideas": []}, "ideas is []"),
        ({"unfinished": [{}]}, "unfinished"),
        ({"seq": 9}, "seq"),
        ({"color": "blue"}, "nobody writes color"),
    ):
        database.ideas.update_one({"_id": document["_id"]}, {"$set": change})
        assert any(word in each.message for each in ideation.findings(patience_s=0)), change
        database.ideas.replace_one({"_id": document["_id"]}, document)
    database.ideas.delete_one({"_id": document["_id"]})
    assert any("is not stored" in each.message for each in ideation.findings(patience_s=0))


@pytest.mark.parametrize(
    "field",
    [{"reflections": 0}, {"reflections": 11}, {"max_num_generations": 0}, {"max_num_generations": 21}],
)
def test_more_or_less_ideation_than_there_is_is_refused(fleet: Any, database: Any, field: Json) -> None:
    body = {"title": "t", "idea": "i", "enable_ideation": True, **field}
    answer = fleet.client.post("/api/hypotheses", json=body)
    assert (answer.status_code, next(iter(field)) in answer.json()["detail"]) == (422, True)
    assert database.ideation_requests.count_documents({}) == 0


def test_what_was_asked_of_ideation_is_what_its_worker_reads(fleet: Any, database: Any) -> None:
    wishes = {"reflections": 10, "max_num_generations": 20, "additional_context": "small <b>data</b>"}
    body = {"title": "t", "idea": "i", "enable_ideation": True, **wishes}
    made = fleet.client.post("/api/hypotheses", json=body).json()
    spec = database.run_specs.find_one({"_id": made["ideation_request_id"]})["spec"]
    assert spec == {"title": "t", "idea": "i", **wishes}
    lost = fleet.client.post("/api/hypotheses", json={**body, "spec": {"preset": "quick"}})
    assert (lost.status_code, lost.json()["code"]) == (422, "spec_without_run")
    dear = {**body, "max_cost_usd": 0.5, "max_tokens": 1000}
    made = fleet.client.post("/api/hypotheses", json=dear).json()
    spec = database.run_specs.find_one({"_id": made["ideation_request_id"]})["spec"]
    assert (spec["max_cost_usd"], spec["max_tokens"]) == (0.5, 1000)
    lost = fleet.client.post("/api/hypotheses", json={**dear, "enable_ideation": False})
    assert (lost.status_code, lost.json()["code"]) == (422, "limits_without_ideation")
    for field, value in (("max_cost_usd", -1), ("max_tokens", 0), ("max_tokens", 1.5)):
        assert fleet.client.post("/api/hypotheses", json={**body, field: value}).status_code == 422


def test_a_page_that_shows_what_was_typed_is_not_replaced_by_changes(fleet: Any) -> None:
    refused = fleet.client.post("/hypotheses", data={"title": "", "idea": "typed with care"})
    assert refused.status_code == 422
    assert "typed with care" in refused.text
    made = fleet.client.post("/api/hypotheses", json={"title": "t", "idea": "Dropout helps"}).json()["id"]
    again = fleet.client.post(f"/hypotheses/{made}/runs", data={"seed": "no number"})
    assert again.status_code == 422
    assert "no number" in again.text
    for page in (refused, again):
        assert 'data-topics=""' in page.text
        assert 'data-refresh="0"' in page.text
    assert 'data-topics="hypotheses"' in fleet.client.get("/hypotheses").text
