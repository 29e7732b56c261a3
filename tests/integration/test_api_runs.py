"""The rest of the API over real HTTP."""

from __future__ import annotations

import hashlib
import html
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.delivery.control_plane_client import bearer
from events.text.key_text import run_token
from tests.fork_server import run_program

pytestmark = pytest.mark.common_fleet
KEY = "a-key-of-the-test"
ROOT = Path(__file__).resolve().parents[2]


def test_the_same_idempotency_key_is_the_same_run_however_often_it_races(fleet: Any) -> None:
    def submit(seconds: int) -> httpx.Response:
        body = {"kind": "probe", "spec": {"seconds": seconds}}
        return fleet.client.post("/api/runs", json=body, headers={"Idempotency-Key": "k"})

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(submit, [1] * 20))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert submit(2).status_code == 409


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "nothing"}, "unknown_kind"),
        ({"kind": "ideation"}, "unknown_kind"),
        ({"kind": "probe", "spec": {"secnds": 1}}, "invalid_spec"),
        ({"kind": "experiment", "spec": {}}, "invalid_spec"),
        ({"kind": "experiment", "spec": {"idea": " "}}, "invalid_spec"),
        ({"kind": "probe", "requires": {"gpu_gib": 10_000}}, "invalid_requirements"),
        ({"kind": "probe", "priority": 101}, "invalid"),
        ({"kind": "probe", "priority": True}, "invalid"),
        ({"kind": "probe", "colour": "red"}, "invalid"),
        ({"kind": {"$gt": ""}}, "invalid"),
        ({"kind": "probe", "labels": {"a\x00": "b"}}, "invalid"),
        ({"kind": "experiment", "spec": {"idea": "x", "seed": 2**70}}, "invalid"),
    ],
)
def test_a_run_that_cannot_be_is_refused_and_nothing_is_stored(
    fleet: Any, database: Any, body: dict[str, Any], code: str
) -> None:
    answer = fleet.client.post("/api/runs", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert answer.json()["detail"]
    assert database.runs.count_documents({}) == database.run_specs.count_documents({}) == 0


def test_lists_page_filter_and_refuse_bad_cursors(fleet: Any) -> None:
    ids = [fleet.submit(labels={"n": str(number % 2)}, priority=number) for number in range(5)]
    first = fleet.client.get("/api/runs", params={"limit": 2}).json()
    assert [run["id"] for run in first["items"]] == ids[:2:-1]
    rest = fleet.client.get("/api/runs", params={"limit": 3, "after": first["next"]}).json()
    assert [run["id"] for run in rest["items"]] == ids[2::-1]
    assert rest["next"] is None
    odd = fleet.client.get("/api/runs", params={"label": "n=1", "status": "QUEUED"}).json()
    assert [run["id"] for run in odd["items"]] == [ids[3], ids[1]]
    assert len(fleet.client.get("/api/runs", params={"q": "PROBE"}).json()["items"]) == 5
    for bad in ({"after": "nonsense"}, {"limit": 0}, {"limit": "x"}, {"status": "LOST"}):
        assert fleet.client.get("/api/runs", params=bad).status_code in (400, 422)
    assert fleet.client.get("/api/runs/unknown").status_code == 404
    assert fleet.client.put(f"/api/runs/{ids[0]}").status_code == 405


def test_the_stored_run_has_the_form_of_the_contract(fleet: Any, database: Any) -> None:
    run_id = fleet.submit(labels={"team": "a"})
    stored = database.runs.find_one({"_id": run_id})
    named = {
        "_id", "kind", "status", "revision", "classKey", "priority", "queuedAt", "notBefore", "attempt",
        "claimedBy", "claimedAt", "lease", "settled", "journal", "failures", "maxAttempts", "cancelRequested",
        "logOpen", "logIncomplete", "lastEventSeq", "currentStage", "lastHeartbeat", "hypothesisId",
        "parentRunId", "labels", "error", "createdAt", "startedAt", "finishedAt",
    }  # fmt: skip
    assert named <= set(stored)
    assert (stored["status"], stored["classKey"], stored["labels"]) == (
        "QUEUED",
        "probe/cpu/any",
        {"team": "a"},
    )


def test_cancel_and_retry_answer_by_the_state_of_the_run(fleet: Any) -> None:
    run_id = fleet.submit(not_before="2099-01-01T00:00:00Z")
    assert fleet.run(run_id)["status"] == "DELAYED"
    assert fleet.client.post(f"/api/runs/{run_id}/retry").status_code == 409
    for _ in range(2):
        assert fleet.client.post(f"/api/runs/{run_id}/cancel").json()["status"] == "CANCELED"
    part = fleet.client.post(f"/api/runs/{run_id}/retry", json={"from_stage": "paper"})
    assert (part.status_code, part.json()["code"]) == (422, "no_stages")
    again = fleet.client.post(f"/api/runs/{run_id}/retry")
    assert (again.status_code, again.json()["parentRunId"]) == (201, run_id)
    assert fleet.client.post(f"/api/runs/{run_id}/review", json={"verdict": "pass"}).status_code == 409
    assert fleet.client.post("/api/runs/unknown/cancel").status_code == 404


def test_a_page_whose_button_is_pressed_twice_makes_one_run(fleet: Any, database: Any) -> None:
    run_id = fleet.submit(not_before="2099-01-01T00:00:00Z")
    fleet.client.post(f"/api/runs/{run_id}/cancel")

    def pressed(page: str) -> str:
        (form,) = re.findall(r'name="pressed" value="([^"]*)"', page)
        answer = fleet.client.post(f"/runs/{run_id}/retry", data={"from_stage": "", "pressed": form})
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    page = fleet.client.get(f"/runs/{run_id}").text
    assert pressed(page) == pressed(page)
    assert database.runs.count_documents({"parentRunId": run_id}) == 1
    assert pressed(fleet.client.get(f"/runs/{run_id}").text) != pressed(page)
    assert database.runs.count_documents({"parentRunId": run_id}) == 2


def hidden(page: str, name: str) -> str:
    (value,) = re.findall(rf'name="{name}" value="([^"]*)"', page)
    return html.unescape(str(value))


@pytest.mark.parametrize("ideation", [{}, {"enable_ideation": "on"}])
def test_a_button_that_is_pressed_twice_proposes_one_hypothesis(
    fleet: Any, database: Any, ideation: dict[str, str]
) -> None:
    text = {"title": "Smoothing", "idea": "Label smoothing improves accuracy on digits", **ideation}

    def pressed(pressed: str, **other: str) -> str:
        form = {**text, "pressed": pressed, **other}
        answer = fleet.client.post("/hypotheses", data=form)
        if answer.status_code == 200:  # it says what it measures, and asks
            form["confirmed"] = hidden(answer.text, "confirmed")
            answer = fleet.client.post("/hypotheses", data=form)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    page = hidden(fleet.client.get("/hypotheses").text, "pressed")
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(pressed, [page] * 6))
    assert len(found) == 1
    queue = database.ideation_requests if ideation else database.runs
    assert (database.hypotheses.count_documents({}), queue.count_documents({})) == (1, 1)
    assert pressed(page, title="Another") not in found
    later = hidden(fleet.client.get("/hypotheses").text, "pressed")
    for other in (later, "7ZZZZZZZZZ0000000000000000", "no", ""):
        assert pressed(other) not in found, "another page, or none that there was, makes another one"


def test_a_button_that_is_pressed_twice_launches_one_run_of_a_hypothesis(fleet: Any, database: Any) -> None:
    body = {"title": "Smoothing", "idea": "Label smoothing improves accuracy on digits"}
    address = f"/hypotheses/{fleet.client.post('/api/hypotheses', json=body).json()['id']}"
    page = fleet.client.get(address).text

    def pressed(pressed: str, **other: str) -> str:
        form = {"idea_index": "", "pressed": pressed, **other}
        answer = fleet.client.post(f"{address}/runs", data=form)
        if answer.status_code == 200:
            form["confirmed"] = hidden(answer.text, "confirmed")
            answer = fleet.client.post(f"{address}/runs", data=form)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(pressed, [hidden(page, "pressed")] * 6))
    assert len(found) == 1
    assert pressed(hidden(page, "pressed"), seed="7") not in found
    assert pressed(hidden(fleet.client.get(address).text, "pressed")) not in found
    assert database.runs.count_documents({}) == 4


def test_the_runs_of_a_pod_are_found_by_its_name_over_all_its_starts_and_slots(fleet: Any) -> None:
    held: dict[str, str] = {}
    for number, worker in enumerate(("p/1", "p/2/0", "p/2/1", "p-2/1", "p0/1", "q/1")):
        fleet.submit()
        asked = {"pod": worker, "token": f"{number}" * 43, "kinds": ["probe"]}
        held[worker] = fleet.client.post("/api/claims", json=asked).json()["claim"]["runId"]

    def of(**filters: str) -> list[str]:
        found = fleet.client.get("/api/runs", params=filters).json()["items"]
        return [next(worker for worker, run in held.items() if run == each["id"]) for each in found]

    assert of(pod="p") == ["p/2/1", "p/2/0", "p/1"], "the newest first, and none of p-2 and p0"
    assert of(pod="p/2") == ["p/2/1", "p/2/0"]
    assert of(pod="p/2/1") == ["p/2/1"]
    assert of(pod="p-2") == ["p-2/1"]
    assert of(pod="P") == of(pod="p.") == of(pod="") == []
    assert of(pod="p", q="probe", kind="probe") == ["p/2/1", "p/2/0", "p/1"], "also where it sieves"
    first = fleet.client.get("/api/runs", params={"pod": "p", "limit": 2}).json()
    assert of(pod="p", after=first["next"]) == ["p/1"]
    assert sorted(of(pod="p", sort="-spec.seconds")) == ["p/1", "p/2/0", "p/2/1"], "also where it is sorted"


def test_my_runs_are_those_of_my_key_and_a_bulk_of_them_leaves_the_others(keyed_url: str) -> None:
    with ExitStack() as stack:
        root = stack.enter_context(httpx.Client(base_url=keyed_url, headers=bearer(KEY)))
        other = root.post("/api/keys", json={"name": "ada", "kind": "operator"}).json()["key"]
        ada = stack.enter_context(httpx.Client(base_url=keyed_url, headers=bearer(other)))
        look_at_own_runs(root, ada)


def look_at_own_runs(root: httpx.Client, ada: httpx.Client) -> None:
    mine = [ada.post("/api/runs", json={"kind": "probe"}).json() for _ in range(2)]
    theirs = root.post("/api/runs", json={"kind": "probe"}).json()
    assert {each["submittedBy"] for each in mine} == {"ada"}
    again = ada.post("/api/runs", json={"kind": "probe", "labels": {"n": "1"}}).json()

    def ids(client: httpx.Client, **filters: str) -> list[str]:
        return [each["id"] for each in client.get("/api/runs", params=filters).json()["items"]]

    wanted = [again["id"], mine[1]["id"], mine[0]["id"]]
    assert ids(ada, mine="true") == ids(root, by="ada") == ids(ada, mine="true", by="ada") == wanted
    assert ids(ada, mine="true", label="n=1") == [again["id"]]
    assert theirs["id"] not in wanted
    two = ada.get("/api/runs", params={"mine": "true", "by": "root"})
    assert (two.status_code, two.json()["code"]) == (422, "two_submitters")
    assert 'href="/runs?by=ada"' in ada.get("/runs").text
    page = ada.get("/runs", params={"mine": "true"}).text
    assert wanted[0] in page
    assert theirs["id"] not in page
    assert '<input type="hidden" name="by" value="ada">' in page, "or a button for all would act on others"
    done = ada.post("/api/runs/bulk", json={"action": "cancel", "filters": {"by": "ada"}})
    assert done.status_code == 200, done.text
    assert root.get(f"/api/runs/{theirs['id']}").json()["status"] == "QUEUED"
    assert {root.get(f"/api/runs/{each}").json()["status"] for each in wanted} == {"CANCELED"}


def test_a_hypothesis_queues_its_run_or_its_ideation(fleet: Any, database: Any) -> None:
    body = {"title": "Smoothing", "idea": "Label smoothing improves calibration"}
    made = fleet.client.post("/api/hypotheses", json=body).json()
    assert fleet.run(made["run_id"])["hypothesisId"] == made["id"]
    asked = fleet.client.post("/api/hypotheses", json={**body, "enable_ideation": True}).json()
    assert asked["ideation"]["status"] == "QUEUED"
    assert database.ideation_requests.find_one({"_id": asked["ideation_request_id"]})["status"] == "QUEUED"
    launched = fleet.client.post(f"/api/hypotheses/{made['id']}/runs", json={})
    assert launched.status_code == 201
    shown = fleet.client.get(f"/api/hypotheses/{made['id']}").json()
    assert len(shown["runs"]) == 2
    assert fleet.client.post("/api/hypotheses", json={"title": "", "idea": "x"}).status_code == 422
    assert len(fleet.client.get("/api/hypotheses").json()["items"]) == 2


def test_only_the_holder_of_the_claim_may_have_urls_signed(fleet: Any) -> None:
    run_id = fleet.submit()
    body = {"name": "a.txt", "size": 1, "sha256": "0" * 64}
    path = f"/api/runs/{run_id}/artifacts/presign"
    answer = fleet.client.post(path, json=body, headers=bearer(run_token(run_id, 1, "0" * 43)))
    assert (answer.status_code, answer.json()["code"]) == (401, "bad_key")
    answer = fleet.client.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_run")


def test_a_file_in_parts_goes_on_where_storage_stands(fleet: Any, by_hand: Any) -> None:
    fleet.submit()
    claim = by_hand("runs", "probe/cpu/any").claim
    headers, path = bearer(claim.run_token), f"/api/runs/{claim.run_id}/artifacts"
    content = os.urandom((11 << 20) + 1)
    body = {"name": "model.pt", "size": len(content), "upload": "01K00000000000000000000002"}

    def ask(action: str, changes: Mapping[str, Any], status: int = 200, code: str | None = None) -> Any:
        answer = fleet.client.post(f"{path}/{action}", json={**body, **changes}, headers=headers)
        assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
        return answer.json()

    assert "ask for 2 at most" in ask("presign", {"parts": 3}, 422, "bad_parts")["detail"]
    assert "leave parts out" in ask("presign", {"parts": 2, "size": 9 << 20}, 422, "bad_parts")["detail"]
    for parts in (0, 1, 10_001, "2"):
        ask("presign", {"parts": parts}, 422, "invalid")
    ask("presign", {"parts": 2, "sha256": "0" * 64}, 422, "bad_upload")
    ask("presign", {"parts": 2, "upload": None}, 422, "bad_upload")
    ask("presign", {}, 422, "bad_upload")
    ask("presign", {"parts": 2, "name": "../model.pt"}, 422, "bad_name")

    signed = ask("presign", {"parts": 2})
    assert (signed["missing"], [part["number"] for part in signed["parts"]]) == (2, [1, 2])
    first = content[: signed["part_size"]]
    assert httpx.put(signed["parts"][0]["url"], content=first, trust_env=False).status_code == 200
    whole = {"key": signed["key"], "sha256": hashlib.sha256(content).hexdigest()}
    missing = ask("complete", whole, 422, "artifact_missing")
    assert "storage holds nothing" in missing["detail"]
    again = ask("presign", {"parts": 2})
    assert (again["upload_id"], again["missing"]) == (signed["upload_id"], 1)
    (left,) = again["parts"]
    assert (left["number"], left["size"]) == (2, len(content) - signed["part_size"])
    rest = content[signed["part_size"] :]
    assert httpx.put(left["url"], content=rest, trust_env=False).status_code == 200
    ask("complete", {**whole, "size": len(content) - 1}, 422, "artifact_missing")
    ask("complete", {**whole, "key": whole["key"].replace("/a1/", "/a2/")}, 422, "foreign_key")
    for _ in range(2):
        assert ask("complete", whole)["size"] == len(content)
    stranger = fleet.client.post(f"{path}/presign", json={**body, "parts": 2})
    assert (stranger.status_code, stranger.json()["code"]) == (403, "foreign_run")


def test_another_sites_page_may_not_steer_a_keyless_fleet(fleet: Any) -> None:
    run_id = fleet.submit()
    foreign = {"origin": "https://evil.example"}
    assert fleet.client.post(f"/api/runs/{run_id}/cancel", headers=foreign).status_code == 403
    rebound = {"host": "evil.example"}
    assert fleet.client.get("/api/runs", headers=rebound).status_code == 403
    assert fleet.run(run_id)["status"] == "QUEUED"


def start(folder: Path, program: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program of ours with nothing but this environment; it is expected to end by itself."""
    return run_program(["-m", *program], env={"PATH": os.defpath, **environment}, cwd=folder)


def routes_of(fleet: Any) -> Iterator[tuple[str, str]]:
    for path, methods in fleet.client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            yield method.upper(), path.replace("{", "").replace("}", "")
    yield from (("GET", path) for path in ("/", "/runs", "/runs/x", "/runs/x/events", "/hypotheses", "/pods"))
    yield from (("GET", "/openapi.json"), ("POST", "/runs/x/cancel"), ("POST", "/hypotheses"))


def test_with_a_key_every_route_asks_for_it(fleet: Any, keyed_url: str) -> None:
    with httpx.Client(base_url=keyed_url, trust_env=False) as stranger:
        for method, path in routes_of(fleet):
            expected = {"/healthz": 200, "/readyz": 200}.get(path, 401)
            assert stranger.request(method, path).status_code == expected, path
        assert stranger.get("/api/runs", headers={"authorization": f"Bearer {KEY}"}).status_code == 200
        assert stranger.get("/api/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert stranger.get("/", auth=("anybody", KEY)).status_code == 401


@pytest.mark.parametrize(
    ("environment", "arguments", "words"),
    [
        ({}, [], ["MONGODB_URL", "MINIO_ENDPOINT", "MINIO_ACCESS_KEY"]),
        (
            {"MONGODB_URL": "x", "MINIO_SECURE": "maybe"},
            ["--host", "0.0.0.0"],  # noqa: S104 - this is what is refused
            ["MINIO_SECURE", "PODFLEET_API_KEY"],
        ),
    ],
)
def test_a_configuration_that_cannot_work_names_every_problem(
    tmp_path: Path, environment: dict[str, str], arguments: list[str], words: list[str]
) -> None:
    done = start(tmp_path, ["control_plane", "serve", *arguments], environment)
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_with_a_wrong_mode_lists_the_three(tmp_path: Path) -> None:
    done = start(tmp_path, ["pod_worker", "--mode", "everything"], {})
    assert done.returncode == 2
    for word in ("experiment", "ideation", "hybrid"):
        assert word in done.stderr


def test_runs_are_compared_in_one_answer_that_the_document_describes(fleet: Any) -> None:
    first, second = (fleet.submit(spec={"seconds": seconds}) for seconds in (1, 2))

    def compare(*ids: str) -> httpx.Response:
        return fleet.client.get("/api/runs/compare", params={"run": ids})

    answer = compare(first, second, first)
    assert answer.status_code == 200, answer.text
    assert answer.json()["runs"] == [first, second]
    fields = {each["field"]: (each["differs"], each["values"]) for each in answer.json()["fields"]}
    assert fields["spec.seconds"] == (True, [1, 2])
    assert fields["status"] == (False, ["QUEUED", "QUEUED"])
    for wrong in ((), (first,), (first, first), [f"{first}{number}" for number in range(13)]):
        refused = compare(*wrong)
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_selection")
        assert refused.json()["detail"] == f"2 to 12 runs can be compared, not {len(set(wrong))}"
    assert compare(first, "nobody").status_code == 404
    document = fleet.client.get("/openapi.json").json()
    operation = document["paths"]["/api/runs/compare"]["get"]
    (reference,) = operation["responses"]["200"]["content"]["application/json"]["schema"].values()
    schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    assert schema["required"] == ["runs", "fields"]
    (several,) = (each["schema"] for each in operation["parameters"] if each["name"] == "run")
    assert (several["minItems"], several["maxItems"]) == (2, 12)
