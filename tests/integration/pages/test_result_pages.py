"""Items of a benchmark and two runs item by item, in a browser."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pymongo import MongoClient

from events.kinds.benchmark import ITEMS
from events.kinds.results import sort_values
from events.testing import EPOCH

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def benchmarks(fleet: Any) -> list[str]:
    """Two runs that asked the same four items."""
    made = []
    for outcomes in (("right", "right", "wrong", "error"), ("right", "wrong", "unparsed", "right")):
        run_id = str(fleet.submit("benchmark", spec={"model": "smollm2", "suites": "gsm8k"}))
        rows = []
        for number, outcome in enumerate(outcomes):
            values = {
                "suite": "gsm8k", "item": str(number), "outcome": outcome, "question": str(number),
                "score": float(outcome == "right"), "answer": HOSTILE, "expected": "42",
            }  # fmt: skip
            key = f"gsm8k/{number}"
            row = {
                "_id": f"{run_id}/a1/items/{key}", "runId": run_id, "attempt": 1, "set": "items",
                "key": key, "seq": 1, "values": values, "status": None, "detail": None, "at": EPOCH,
            }  # fmt: skip
            rows.append({**row, **sort_values(ITEMS, values)})
        with MongoClient[dict[str, Any]](fleet.database_url) as client:
            client.get_default_database()["results"].insert_many(rows)
        made.append(run_id)
    return made


def test_items_are_gone_through_and_two_runs_are_compared(page: Page, benchmarks: list[str]) -> None:
    one, other = benchmarks
    page.goto(f"/runs/{other}/results?set=items")
    page.get_by_role("navigation", name="Outcomes").get_by_role("link", name="unparsed 1").click()
    expect(page.locator("tbody th[scope=row]")).to_have_text(["gsm8k/2"])
    page.get_by_role("link", name="all 4").click()
    page.get_by_role("link", name="gsm8k/1", exact=True).click()
    expect(page.locator("h2", has_text="gsm8k/1")).to_be_visible()
    expect(page.get_by_role("row", name="answer").locator("td")).to_have_text(HOSTILE)
    page.get_by_role("navigation", name="Rows").get_by_role("link", name="Next").click()
    expect(page.locator("h2", has_text="gsm8k/2")).to_be_visible()
    page.get_by_role("navigation", name="Rows").get_by_role("link", name="Previous").click()
    expect(page.locator("h2", has_text="gsm8k/1")).to_be_visible()

    page.goto(f"/runs/compare?ids={one},{other}")
    page.get_by_role("link", name="Item by item").click()
    expect(page.locator("h1")).to_have_text("Item by item")
    expect(page.get_by_text("p = 1", exact=False)).to_be_visible()
    expect(page.get_by_text("1 without an answer", exact=False)).to_be_visible()
    page.get_by_role("link", name="gsm8k/1 of B").click()
    expect(page.locator("h2", has_text="gsm8k/1")).to_be_visible()
