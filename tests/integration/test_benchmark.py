"""Benchmarks on a fleet: real programs, a scripted endpoint over HTTP, children that are killed."""

from __future__ import annotations

import html
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from tests.fork_server import Program
from tests.integration.conftest import Fleet
from tests.integration.programs.model_server import Asked, ModelServer, Reply
from tests.integration.test_fleet import child_of
from tests.integration.test_steering import must_agree_with_its_log

pytestmark = pytest.mark.common_fleet
Until = Callable[..., None]

MODEL: Final = "scripted-1"
COUNT: Final = 40
LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)
PRICES: Final = f'[usd_per_million_tokens]\n"{MODEL}" = {{ input = 100.0, output = 1000.0 }}\n'


def start_pod(fleet: Fleet, server: ModelServer, name: str = "pod", **environment: str) -> Program:
    """Start a worker whose pod has the model, its prices, and the file of a suite."""
    folder = fleet.home / "suites"
    folder.mkdir(exist_ok=True)
    lines = [
        {"question": f"What is {number}?", "answer": f"It is.\n#### {number}"} for number in range(COUNT)
    ]
    (folder / "gsm8k.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    (fleet.home / "prices.toml").write_text(PRICES)
    return fleet.start_quick_worker(
        name=name,
        OPENAI_BASE_URL=server.openai_url,
        OPENAI_API_KEY="sk-of-a-test",
        OPENAI_MODEL=MODEL,
        PODFLEET_PRICES=str(fleet.home / "prices.toml"),
        PODFLEET_DATASETS=str(folder),
        PODFLEET_HUB_URL="none",
        **environment,
    )


def submit(fleet: Fleet, **spec: Any) -> str:
    return fleet.submit("benchmark", spec={"model": MODEL, "suites": "gsm8k", **spec}, max_attempts=3)


def number_in(asked: Asked) -> int:
    found = re.search(r"What is (\d+)\?", asked.text)
    assert found is not None
    return int(found[1])


def rows_of(fleet: Fleet, run_id: str, name: str = "items") -> dict[str, Any]:
    answer = fleet.client.get(f"/api/runs/{run_id}/results", params={"set": name, "limit": 200})
    assert answer.status_code == 200, answer.text
    return {each["key"]: each for each in answer.json()["items"]}


def must_show_its_texts(fleet: Fleet, run_id: str, row: Any) -> None:
    """The page of results links to a page with the whole texts of a row."""
    page = fleet.client.get(f"/runs/{run_id}/results", params={"set": "items"}).text
    link = re.search(rf'href="([^"]+)">{re.escape(row["key"])}<', page)
    assert link is not None
    text = fleet.client.get(html.unescape(link[1])).text
    assert f"What is {row['values']['expected']}?" in text
    assert f"Answer: {row['values']['parsed']}" in text


@pytest.mark.slow("two attempts of a worker's child, with a back-off between them")
def test_a_killed_child_costs_the_items_that_were_open_and_no_other(
    fleet: Fleet, database: Any, until: Until
) -> None:
    gate = threading.Event()
    many = 15

    def script(asked: Asked) -> Reply:
        number = number_in(asked)
        text = f"Answer: {number if number % 4 else number + 1}"
        return Reply(text=text, until=gate if asked.number > many else None)

    with ModelServer(script) as server:
        worker = start_pod(fleet, server)
        run_id = submit(fleet, suites="gpqa,gsm8k", concurrency=3)
        until(lambda: len(rows_of(fleet, run_id)) == many)
        until(lambda: len(server.asked) == many + 3)
        first = rows_of(fleet, run_id)
        child_of(worker).kill()
        gate.set()
        until(lambda: fleet.run(run_id)["attempts"][0]["endedAt"] is not None)
        database.runs.update_one({"_id": run_id, "status": "DELAYED"}, {"$set": {"notBefore": LONG_AGO}})
        run = fleet.wait_for(run_id, "COMPLETED", "FAILED", limit_s=300)
    assert run["status"] == "COMPLETED", run
    assert run["settled"]["message"] == "scripted-1: gsm8k 75.0% of 40; not asked: gpqa"
    assert run["labels"] == {"model": MODEL}

    asked = Counter(number_in(each) for each in server.asked)
    open_ones = {number_in(each) for each in server.asked[many : many + 3]}
    assert {number for number, count in asked.items() if count == 2} == open_ones
    assert sum(asked.values()) == COUNT + 3
    rows = rows_of(fleet, run_id)
    values = [each["values"] for each in rows.values()]
    assert Counter(each["outcome"] for each in values) == {"right": 30, "wrong": 10}
    assert {int(each["expected"]) for each in values if each["lost_requests"]} == open_ones
    unknown = {"runId": run_id, "type": "ai.run.usage", "data.purpose": "gsm8k", "data.prompt_tokens": None}
    assert database.events.count_documents(unknown) == 3, "billed perhaps, and not known"

    summary = run["summary"]
    assert (summary["score_gsm8k"], summary["items"], summary["failures"]) == (0.75, COUNT, 0)
    cost = sum(each["prompt_tokens"] * 1e-4 + each["completion_tokens"] * 1e-3 for each in values)
    assert summary["cost_usd"] == pytest.approx(cost)
    suites = {name: each["values"] for name, each in rows_of(fleet, run_id, "suites").items()}
    assert [(each["state"], each["lost_requests"]) for each in suites.values()] == [
        ("needs_setup", 0),
        ("succeeded", 3),
    ]
    assert "nothing may be fetched" in suites["gpqa"]["says"]
    taken_over = sorted(first)[0]
    for key in (taken_over, next(key for key in rows if key not in first)):
        must_show_its_texts(fleet, run_id, rows[key])
    must_agree_with_its_log(fleet)
