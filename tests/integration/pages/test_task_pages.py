"""Tasks in a real browser: fields that follow the model, and the page with the best configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pymongo import MongoClient

from control_plane.kinds.trial.planning import group_of

SLOTS = "[name='p.xllamacpp.n_parallel']"
pytestmark = pytest.mark.xdist_group("pages")


def test_the_names_of_a_model_follow_its_id_until_a_person_writes_them(scripted: Page, name: str) -> None:
    page = scripted
    page.goto("/tasks/new")
    model, served, tokenizer = (page.get_by_label(each) for each in ("Model id", "Model name", "Tokenizer"))
    model.press_sequentially("org/Lla")
    expect(served).to_have_value("Lla")
    expect(tokenizer).to_have_value("org/Lla")
    model.press_sequentially("ma")
    expect(served).to_have_value("Llama")
    served.fill("mine")
    model.press("End")
    model.press_sequentially("-Q4")
    expect(served).to_have_value("mine")
    expect(tokenizer).to_have_value("org/Llama-Q4")
    served.fill("")
    model.press("End")
    model.press_sequentially("2")
    expect(served).to_have_value("Llama-Q42")
    served.fill("mine")
    page.get_by_label("Scenarios").fill("D(100, 20), N(200,50)/(40,10)")
    told = page.locator("#scenarios-told")
    expect(told).to_contain_text("2 scenarios: 100 tokens in, 20 out")
    page.get_by_label("Scenarios").fill("D(100")
    expect(told).to_contain_text("✗")
    page.get_by_label("Scenarios").fill("D(100,20)")
    page.get_by_label("Name", exact=True).fill(name)
    page.locator(SLOTS).fill("1, 2, 4")
    page.get_by_label("Strategy").select_option("grid")
    expect(page.locator("[data-told=outlook]")).to_contain_text("at most 3 experiments")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Task created")
    page.get_by_role("link", name="Edit…").click()
    expect(page.get_by_label("Model name")).to_have_value("mine")
    page.get_by_label("Model id").press("End")
    page.get_by_label("Model id").press_sequentially("3")
    expect(page.get_by_label("Model name")).to_have_value("mine")
    expect(page.get_by_label("Tokenizer")).to_have_value("org/Llama-Q423")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Task updated")


def test_a_task_is_made_and_watched_with_or_without_scripts(
    fleet: Any, page: Page, has_scripts: bool, name: str, until: Callable[..., None]
) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(fleet.database_url)
    database = client.get_default_database()
    page.goto("/tasks/new?engine=xllamacpp&preset=slots")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Model id").fill("smollm2")
    page.locator(SLOTS).fill("1, 999")
    page.get_by_role("button", name="Create and start").click()
    expect(page.get_by_role("alert")).to_contain_text("1 to 256")
    expect(page.get_by_label("Model id")).to_have_value("smollm2")
    page.locator(SLOTS).fill("1, 4")
    page.get_by_label("Strategy").select_option("grid")
    page.locator("[name=metric]").select_option("e2e_mean_s")
    page.locator("[name=direction]").select_option("minimize")
    page.get_by_label("Runs at once").fill("2")
    page.get_by_role("button", name="Create and start").click()
    expect(page.get_by_role("status")).to_have_text("Task started")
    task_id = page.url.rpartition("/")[2].partition("?")[0]
    members = {"groupId": group_of(task_id)}
    until(lambda: database.runs.count_documents(members) == 2)
    for run in database.runs.find(members):
        value = 0.1916 if run["slot"] else 0.1931
        sets = {"status": "COMPLETED", "attempt": 1, "logOpen": False}
        sets["summary"] = {"e2e_mean_s": value, "command": f"serve --slot={run['slot']}"}
        database.runs.update_one({"_id": run["_id"]}, {"$set": sets})
    client.close()
    page.goto(f"/tasks/{task_id}")
    best = page.get_by_role("region", name="Best configuration")
    expect(best).to_contain_text("Experiment 2: e2e_mean_s 0.1916")
    expect(best.locator("[data-copied]")).to_contain_text("serve --slot=")
    bars = page.get_by_role("region", name="Objective by experiment").locator("svg.chart rect")
    expect(bars).to_have_count(2)
    for number, color in enumerate(("#3b82f6", "#10b981")):
        expect(bars.nth(number)).to_have_attribute("fill", color)
    expect(bars.nth(1).locator("title")).to_contain_text("Experiment 2: 0.1916, Best Experiment")
    expect(page.get_by_role("button", name="Copy")).to_have_count(1 if has_scripts else 0)
    page.goto("/tasks")
    expect(page.get_by_role("row", name=name)).to_contain_text("0.1916")
