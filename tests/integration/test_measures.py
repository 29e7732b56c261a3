"""What a run will measure is read before it is queued: by the API, the forms and schedules, in process."""

from __future__ import annotations

import re
from html import unescape
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import pytest

from tests.integration.test_new_runs import FORM

READ: Final = "Dropout of 0.5 beats 0.2 on wine"
SAID: Final = "With dropout (dropout 0.5) instead of dropout 0.2, the accuracy on wine becomes higher."
UNREAD: Final = "Lookahead with Adam improves accuracy"
NEAREST: Final = "With Adam, the accuracy on digits becomes higher."
STORED: Final = ("runs", "run_specs", "hypotheses", "schedules", "ideation_requests")


def run_of(idea: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "experiment", "spec": {"idea": idea, **spec}}


async def stored(deps: Any) -> dict[str, int]:
    counts = {name: await deps.db[name].count_documents({}) for name in STORED}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/runs", run_of(UNREAD)),
        ("/api/runs?dry_run=true", run_of(UNREAD)),
        ("/api/runs", run_of(UNREAD, researcher="built_in")),
        ("/api/hypotheses", {"title": "t", "idea": UNREAD}),
        ("/api/hypotheses", {"title": "t", "idea": {"Short Hypothesis": UNREAD, "Title": "Adam"}}),
        ("/api/schedules", {"id": "nightly", "cron": "0 2 * * *", "run": run_of(UNREAD)}),
    ],
)
async def test_what_cannot_be_measured_as_it_is_said_is_refused_and_nothing_is_stored(
    deps: Any, asking: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    answer = await asking.post(path, json=body)
    told = answer.json()
    assert (answer.status_code, told["code"], told["words"]) == (422, "not_measurable", ["lookahead"])
    assert told["nearest"] == [NEAREST]
    assert {"dropout", "Adam"} <= {*told["measurable"]["interventions"]}
    assert "“lookahead”" in told["detail"]
    assert await stored(deps) == {}


async def test_a_dry_run_says_what_would_be_measured(deps: Any, asking: httpx.AsyncClient) -> None:
    for idea in (READ, {"Short Hypothesis": READ}):
        answer = await asking.post("/api/runs?dry_run=true", json=run_of(idea))  # type: ignore[arg-type]
        assert answer.json()["measures"].startswith(SAID)
    probe = await asking.post("/api/runs?dry_run=true", json={"kind": "probe"})
    assert probe.json()["measures"] is None
    assert await stored(deps) == {}


async def test_a_run_says_what_it_measures_in_its_answer_and_on_its_page(asking: httpx.AsyncClient) -> None:
    made = (await asking.post("/api/runs", json=run_of(READ))).json()
    found = (await asking.get(f"/api/runs/{made['id']}")).json()
    assert found["measures"] == made["measures"]
    assert found["measures"].startswith(SAID)
    assert SAID in unescape((await asking.get(f"/runs/{made['id']}")).text)


async def test_an_idea_that_is_not_read_is_queued_for_a_model_on_demand(asking: httpx.AsyncClient) -> None:
    answer = await asking.post("/api/runs", json=run_of(UNREAD, researcher="model"))
    assert answer.status_code == 201
    assert "language model binds every word" in answer.json()["measures"]
    read = await asking.post("/api/runs?dry_run=true", json=run_of(READ, researcher="model"))
    assert read.json()["measures"].startswith(SAID)


async def test_ideas_may_start_from_what_is_no_claim(asking: httpx.AsyncClient) -> None:
    body = {"title": "t", "idea": "Which augmentation helps on small tables?", "enable_ideation": True}
    assert (await asking.post("/api/hypotheses", json=body)).status_code == 201


async def test_a_stored_run_that_would_be_refused_today_is_still_shown(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    run_id = (await asking.post("/api/runs", json=run_of(READ))).json()["id"]
    await deps.db.run_specs.update_one({"_id": run_id}, {"$set": {"spec.idea": UNREAD}})
    assert (await asking.get(f"/api/runs/{run_id}")).json()["measures"] is None
    assert (await asking.get(f"/runs/{run_id}")).status_code == 200


async def sent(asking: httpx.AsyncClient, path: str, **typed: str) -> httpx.Response:
    return await asking.post(path, content=urlencode(typed), headers=FORM)


def confirmation(answer: httpx.Response) -> str:
    """Return what a form asks to confirm."""
    assert answer.status_code == 200
    assert f"<strong>This will be measured:</strong> {SAID}" in unescape(answer.text)
    (found,) = re.findall(r'name="confirmed" value="([^"]+)"', answer.text)
    return unescape(found)


@pytest.mark.parametrize(
    ("path", "typed", "field", "place"),
    [
        ("/runs/new", {"kind": "experiment", "do": "submit"}, "spec.idea", "/runs/"),
        ("/hypotheses", {"title": "t"}, "idea", "/hypotheses/"),
    ],
)
async def test_a_form_shows_what_will_be_measured_before_it_queues_anything(
    deps: Any, asking: httpx.AsyncClient, path: str, typed: dict[str, str], field: str, place: str
) -> None:
    first = await sent(asking, path, **typed, **{field: READ})
    confirmed = confirmation(first)
    changed = await sent(asking, path, **typed, **{field: "Dropout hurts"}, confirmed=confirmed)
    assert (changed.status_code, "becomes lower" in changed.text) == (200, True)
    refused = await sent(asking, path, **typed, **{field: UNREAD}, confirmed=confirmed)
    assert (refused.status_code, "“lookahead”" in refused.text, UNREAD in refused.text) == (422, True, True)
    assert await stored(deps) == {}
    last = await sent(asking, path, **typed, **{field: READ}, confirmed=confirmed)
    assert (last.status_code, last.headers["location"].startswith(place)) == (303, True)
    assert (await stored(deps))["runs"] == 1


async def test_the_form_of_another_run_shows_what_will_be_measured_too(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    made = (await asking.post("/api/hypotheses", json={"title": "t", "idea": READ})).json()
    path = f"/hypotheses/{made['id']}/runs"
    first = await sent(asking, path, preset="quick")
    confirmed = confirmation(first)
    assert "to measure this" in first.text
    again = await sent(asking, path, preset="quick", confirmed="something else")
    assert confirmation(again) == confirmed
    assert (await stored(deps))["runs"] == 1, "that of the hypothesis itself"
    last = await sent(asking, path, preset="quick", confirmed=confirmed)
    assert (last.status_code, last.headers["location"].startswith("/runs/")) == (303, True)
    assert (await stored(deps))["runs"] == 2


async def test_a_form_queues_an_idea_for_a_model_after_a_confirmation(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    typed = {"title": "t", "idea": UNREAD, "researcher": "model"}
    first = await sent(asking, "/hypotheses", **typed)
    assert "language model binds every word" in unescape(first.text)
    (confirmed,) = re.findall(r'name="confirmed" value="([^"]+)"', first.text)
    assert (await sent(asking, "/hypotheses", **typed, confirmed=unescape(confirmed))).status_code == 303
    assert (await stored(deps))["runs"] == 1
