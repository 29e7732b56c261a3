"""The pages in a real Chromium, with JavaScript and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

pytestmark = pytest.mark.timeout(240)

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe\x1b[31m" + "W" * 300
PATHS = (
    "/",
    "/runs",
    "/runs/{run}",
    "/runs/{run}/events",
    "/hypotheses",
    "/hypotheses/{hypothesis}",
    "/pods",
)
FLAGS = (
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-quic",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "no Chromium: on Debian, as root: apt-get install -y chromium"
    with sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=found, args=list(FLAGS))


@pytest.fixture
def made(fleet: Any) -> dict[str, str]:
    """A hypothesis with hostile text, its run, and what a worker would have said."""
    body = {"title": HOSTILE[:200].replace("\x1b", ""), "idea": "Dropout improves accuracy on iris"}
    answer = fleet.client.post("/api/hypotheses", json=body).json()
    return {"hypothesis": answer["id"], "run": answer["run_id"]}


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without JavaScript"])
def page(request: pytest.FixtureRequest, browser: Browser, fleet: Any) -> Iterator[Page]:
    context = browser.new_context(base_url=fleet.url, java_script_enabled=request.param)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    yield opened
    context.close()
    assert complaints == []


def test_every_page_loads_without_a_complaint_and_shows_hostile_text_as_text(
    page: Page, made: dict[str, str]
) -> None:
    for path in PATHS:
        answer = page.goto(path.format(**made))
        assert answer is not None
        assert answer.status == 200, path
        assert page.locator("h1").count() == 1
        overflow = (
            page.evaluate("document.documentElement.scrollWidth - innerWidth") if page_runs(page) else 0
        )
        assert overflow <= 0, path
    page.goto(f"/hypotheses/{made['hypothesis']}")
    assert "onerror=alert(1)" in page.locator("h1").inner_text()


def page_runs(page: Page) -> bool:
    """Say whether scripts run in this page."""
    return page.locator("html").evaluate("() => true")


def test_an_unknown_page_says_so_to_people(browser: Browser, fleet: Any) -> None:
    page = browser.new_page(base_url=fleet.url)
    answer = page.goto("/runs/nobody")
    assert answer is not None
    assert answer.status == 404
    assert "Not found" in page.locator("h1").inner_text()
    page.close()


def test_filters_stand_in_the_address_and_survive_a_reload(
    page: Page, fleet: Any, made: dict[str, str]
) -> None:
    fleet.submit("probe")
    page.goto("/runs")
    page.get_by_label("Kind").select_option("probe")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**kind=probe**")
    page.reload()
    assert page.get_by_label("Kind").input_value() == "probe"
    assert page.locator("tbody tr").count() == 1


def test_a_run_is_canceled_by_its_button(page: Page, fleet: Any, made: dict[str, str]) -> None:
    page.goto(f"/runs/{made['run']}")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url(f"**/runs/{made['run']}")
    assert fleet.run(made["run"])["status"] == "CANCELED"
    assert page.get_by_role("button", name="Run again").is_visible()


def test_a_hypothesis_is_proposed_by_the_form(page: Page, fleet: Any) -> None:
    page.goto("/hypotheses")
    page.get_by_label("Title").fill("Mine")
    page.get_by_label("Idea").fill("Dropout improves accuracy on iris")
    page.get_by_role("button", name="Propose and run").click()
    page.wait_for_url("**/hypotheses/0*")
    assert page.locator("tbody tr").count() == 1


def test_a_change_arrives_without_a_reload(browser: Browser, fleet: Any, made: dict[str, str]) -> None:
    page = browser.new_page(base_url=fleet.url)
    page.goto(f"/runs/{made['run']}")
    assert "QUEUED" in page.locator(".facts").inner_text()
    fleet.client.post(f"/api/runs/{made['run']}/cancel")
    page.locator(".facts", has_text="CANCELED").wait_for(timeout=15_000)
    page.close()


def test_a_plot_of_a_run_is_shown(browser: Browser, fleet: Any) -> None:
    fleet.start_worker()
    nodes = {"Stage_1": 1, "Stage_2": 1, "Stage_3": 1, "Stage_4": 1}
    spec = {"idea": "Dropout improves accuracy on iris", "preset": "quick", "nodes": nodes}
    run_id = fleet.submit("experiment", spec=spec)
    run = fleet.wait_for(run_id, "COMPLETED", limit_s=180)
    assert run["validation"]["verdict"] in ("pass", "fail")
    assert [stage["status"] for stage in run["stages"]] == ["COMPLETED"] * 7
    page = browser.new_page(base_url=fleet.url)
    page.goto(f"/runs/{run_id}")
    for picture in page.locator(".gallery img").all():
        picture.scroll_into_view_if_needed()
        page.wait_for_function(
            "(image) => image.complete && image.naturalWidth > 100", arg=picture.element_handle()
        )
    assert page.locator(".gallery img").count() == 5
    page.close()
