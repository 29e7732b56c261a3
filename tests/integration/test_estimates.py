"""What a benchmark would take is said before it is submitted, by what earlier ones took, in process."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from events.catalog import RunUsage, type_of

SPEC = {"model": "m-1", "suites": "gsm8k", "sample_size": 100, "concurrency": 4}


async def ran(
    deps: Any, asking: httpx.AsyncClient, rows: dict[str, Any], model: str = "m-1", **tokens: int
) -> str:
    """Store a benchmark with these rows of suites, as an attempt of it would have said them."""
    body = {"kind": "benchmark", "spec": {"model": model, "suites": "gsm8k"}}
    run_id: str = (await asking.post("/api/runs", json=body)).json()["id"]
    await deps.db.runs.update_one({"_id": run_id}, {"$set": {"summaryAttempt": 2}})
    for key, values in rows.items():
        for attempt, said in ((1, {**values, "items": 1, "seconds": 1e6}), (2, values)):
            row = {"runId": run_id, "attempt": attempt, "set": "suites", "key": key, "values": said}
            await deps.db.results.insert_one({"_id": f"{run_id}/{attempt}/{key}", **row})
    data = {"model": model, "prompt_tokens": 900, "completion_tokens": 100, "cost_usd": 0.0, **tokens}
    event = {"_id": f"{run_id}/u", "runId": run_id, "type": type_of(RunUsage), "position": 1, "data": data}
    await deps.db.events.insert_one(event)
    return run_id


def row(items: int, seconds: float, tokens: int, cost_usd: float | None = None) -> dict[str, Any]:
    return {"items": items, "seconds": seconds, "tokens": tokens, "cost_usd": cost_usd, "state": "succeeded"}


async def estimated(asking: httpx.AsyncClient, **spec: Any) -> dict[str, Any]:
    answer = await asking.post("/api/run-estimates", json={"kind": "benchmark", "spec": {**SPEC, **spec}})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_what_nothing_was_measured_of_is_not_known(asking: httpx.AsyncClient, deps: Any) -> None:
    found = await estimated(asking, subset_pct=10, sample_size=None, epochs=2)
    assert (found["items"], found["seconds"], found["costUsd"]) == (264, None, None), "132 items, twice"
    assert "no run has asked it yet" in found["basis"]
    refused = await asking.post(
        "/api/run-estimates", json={"kind": "benchmark", "spec": {"model": "m", "suites": "x"}}
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")
    assert await deps.db.runs.count_documents({}) == 0, "nothing is submitted"


async def test_items_take_what_those_of_the_model_took(deps: Any, asking: httpx.AsyncClient) -> None:
    await ran(deps, asking, {"gsm8k": row(10, 40.0, 2_000, 0.5)})
    await ran(deps, asking, {"gsm8k": row(30, 40.0, 6_000, None), "aime": row(2, 9.0, 50)})
    await ran(deps, asking, {"gsm8k": row(10, 9e5, 9_000_000, 99.0)}, model="m-2")
    found = await estimated(asking)
    # 2 s and 200 tokens an item, at 4 at once; a cost is known of the first run alone
    assert (found["items"], found["seconds"], found["tokens"], found["costUsd"]) == (100, 50.0, 20_000, 5.0)
    assert found["basis"] == "as 2 runs of this model took"
    assert (found["isLeast"], found["exceedsBudget"]) == (False, False)
    both = await estimated(asking, suites="gsm8k,humaneval", max_cost_usd=4.0)
    assert (both["isLeast"], both["exceedsBudget"], both["maxCostUsd"]) == (True, True, 4.0)
    assert "above max_cost_usd, $4.00" in both["words"]
    assert [each["name"] for each in both["parts"]] == ["gsm8k", "humaneval"]


async def test_another_model_says_the_time_and_the_catalogue_the_price(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    await ran(deps, asking, {"gsm8k": row(10, 20.0, 10_000, 7.0)}, model="m-2")
    found = await estimated(asking)
    assert (found["seconds"], found["tokens"], found["costUsd"]) == (50.0, 100_000, None)
    assert found["basis"] == "as 1 run of other models took"
    entry = {"endpoint": {"model": "m", "base_url": "https://api.example.com"}}
    prices = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 11.0}
    assert (await asking.put("/api/models/m-1", json={**entry, **prices})).status_code == 201
    assert (await estimated(asking))["costUsd"] == pytest.approx(0.2), "of ten tokens, nine are the prompt's"
    served = {"served": {"engine": "xllamacpp", "weights": "smollm2"}}
    assert (await asking.put("/api/models/m-1", json=served)).status_code == 200
    assert (await estimated(asking))["costUsd"] == 0.0


async def test_rows_that_a_pod_made_up_change_no_type(deps: Any, asking: httpx.AsyncClient) -> None:
    lies = [-5, "many", None, True, 1e300, float("nan"), [1], {"$gt": 0}]
    for lie in lies:
        await ran(deps, asking, {"gsm8k": {"items": 10, "seconds": lie, "tokens": lie, "cost_usd": lie}})
        await ran(deps, asking, {"gsm8k": {"items": lie, "seconds": 5, "tokens": 5, "cost_usd": 5}})
    found = await estimated(asking)
    assert (found["items"], found["seconds"], found["tokens"], found["costUsd"]) == (100, 0.0, 0, None)


async def test_a_pod_that_says_too_much_takes_no_estimate_away(deps: Any, asking: httpx.AsyncClient) -> None:
    await ran(deps, asking, {"gsm8k": row(10, 20, 30, 0.5)})
    await ran(deps, asking, {"gsm8k": {"items": 1e-9, "seconds": 1e12, "tokens": 1e12, "cost_usd": 1e12}})
    assert (await estimated(asking))["costUsd"] == 5.0
    await ran(deps, asking, {"gsm8k": {"items": 1, "seconds": 1e12, "tokens": 1e12, "cost_usd": 1e12}})
    found = await estimated(asking, sample_size=1_319, epochs=32, suites="gsm8k,aime")
    (part, _) = found["parts"]
    assert (part["tokens"], part["costUsd"], found["costUsd"]) == (10**15, 1e15, 1e15)


async def test_the_form_says_it_while_one_types_and_after_a_check(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    await ran(deps, asking, {"gsm8k": row(10, 20.0, 2_000, 0.5)})
    typed = {"kind": "benchmark", "spec.model": "m-1", "spec.suites": "gsm8k", "spec.sample_size": "100"}
    look = (await asking.get("/runs/new/look", params={**typed, "at": "spec.sample_size"})).json()
    words = "100 items, 20,000 tokens, about 50.0 s, $5.00 (as 1 run of this model took)"
    assert look["cost"] == words
    unfinished = (await asking.get("/runs/new/look", params={"kind": "benchmark", "at": "spec.model"})).json()
    assert "no run of this kind" in unfinished["cost"]
    checked = await asking.post("/runs/new", data={**typed, "do": "check"})
    assert (checked.status_code, checked.text.count(words)) == (200, 2), "in the check, and in the form"
    assert await deps.db.runs.count_documents({}) == 1


async def test_the_header_starts_a_run_with_few_fields_and_says_how_many_run(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    entry = {"endpoint": {"model": "m", "base_url": "https://api.example.com"}}
    assert (await asking.put("/api/models/fast", json=entry)).status_code == 201
    home = (await asking.get("/")).text
    link = "/runs/new?kind=benchmark&amp;quick=true"
    assert f'href="{link}">Run benchmark</a>' in home
    assert 'class="running"' not in home
    form = (await asking.get("/runs/new?kind=benchmark&quick=true")).text
    assert "<option>smollm2</option><option>fast</option>" in form
    assert form.index('name="spec.suites"') < form.index("Other fields") < form.index('name="spec.epochs"')
    assert 'name="spec.model" ' in form
    assert 'value="smollm2"' in form
    typed = {"kind": "benchmark", "quick": "1", "spec.model": "fast", "spec.suites": "gsm8k"}
    wrong = await asking.post("/runs/new", data={**typed, "spec.sample_size": "0", "do": "submit"})
    assert (wrong.status_code, "Other fields" in wrong.text) == (422, True), "what was typed is kept"
    made = await asking.post("/runs/new", data={**typed, "spec.sample_size": "7", "pressed": "p"})
    assert made.status_code == 303
    run = await deps.db.runs.find_one()
    assert (run["kind"], run["labels"]) == ("benchmark", {"model": "fast"})
    await deps.db.runs.update_one({"_id": run["_id"]}, {"$set": {"status": "RUNNING"}})
    said = (await asking.get("/models")).text
    assert 'href="/runs?kind=benchmark&amp;status=RUNNING"' in said
    assert '<span class="count">1</span>' in said
