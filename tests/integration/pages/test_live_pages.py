"""Pages that stay current by themselves, in a real Chromium."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from events.catalog import LaneReady, LaneStarted, RunLog, RunStarted
from events.delivery.pipe import Shown
from events.queue.requirements import class_key, read_requirements
from events.queue.settlement import End
from events.runtime.clock import SystemClock
from tests.integration.conftest import start_control_plane
from tests.integration.pages.conftest import patient
from tests.integration.test_live_text import showing

pytestmark = pytest.mark.xdist_group("pages")
Until = Callable[..., None]

SOON_MS = 60_000


def seconds(told: Any) -> float:
    return float(told.inner_text().removesuffix(" s"))


def is_live(page: Any, state: str = "open") -> None:
    page.locator(f"html[data-live={state}]").wait_for(timeout=SOON_MS)


def lines_of(page: Any) -> list[str]:
    found: list[str] = page.locator("tbody[data-tail] tr td:nth-child(5)").all_inner_texts()
    return [each.split("\n")[0] for each in found if "line " in each]


def test_rows_come_and_change_by_themselves_and_only_where_they_belong(
    scripted: Page, fleet: Any, name: str
) -> None:
    every, canceled = scripted, scripted.context.new_page()
    every.goto(f"/runs?label=batch={name}")
    canceled.goto(f"/runs?label=batch={name}&status=CANCELED")
    is_live(every)
    is_live(canceled)
    run_id = fleet.submit("probe", labels={"batch": name, "note": "<b>bold</b>"})
    every.locator(f"#r-{run_id}", has_text="QUEUED").wait_for(timeout=SOON_MS)
    expect(canceled.locator(f"#r-{run_id}")).to_have_count(0)
    fleet.client.post(f"/api/runs/{run_id}/cancel")
    every.locator(f"#r-{run_id}", has_text="CANCELED").wait_for(timeout=SOON_MS)
    canceled.locator(f"#r-{run_id}").wait_for(timeout=SOON_MS)
    expect(every.locator("tbody tr")).to_have_count(1)
    later = fleet.submit("probe", labels={"batch": name})
    every.locator(f"#r-{later}").wait_for(timeout=SOON_MS)
    assert every.locator("tbody tr").first.get_attribute("id") == f"r-{later}", "the newest comes first"
    canceled.close()


def test_a_log_is_followed_only_from_its_bottom(
    scripted: Page, fleet: Any, by_hand: Callable[..., Any], name: str
) -> None:
    run_id = fleet.submit("probe", requires={"region": name})
    hand = by_hand("runs", f"probe/cpu/{name}")
    hand.say(RunStarted(), *(RunLog(level="info", message=f"line {n}") for n in range(99)))
    hand.say(RunLog(level="info", message="line 99"), time="2016-12-31T23:59:60Z")  # no browser reads that
    page = scripted
    page.set_viewport_size({"width": 1000, "height": 600})
    page.goto(f"/runs/{run_id}/log?type=ai.run.log")
    is_live(page)
    hand.say(RunLog(level="info", message="line 100"))
    page.locator("tbody tr", has_text="line 100").wait_for(timeout=SOON_MS)
    at_bottom = "() => document.documentElement.scrollHeight - scrollY - innerHeight < 80"
    page.wait_for_function(at_bottom)
    page.evaluate("scrollTo(0, 0)")
    hand.say(RunLog(level="info", message="line 101"), RunLog(level="error", message="<script>x</script>"))
    page.get_by_text("New events below").wait_for(timeout=SOON_MS)
    assert page.evaluate("scrollY") == 0
    expect(page.locator("tbody tr", has_text="<script>x</script>")).to_have_count(1)
    link = page.locator("tbody tr", has_text="line 101").locator("a")
    other = page.context.new_page()
    other.goto(str(link.get_attribute("href")))
    expect(other.locator("tbody tr:target")).to_contain_text("line 101")
    page.goto(f"/runs/{run_id}/log?text=LINE+7&level=info")
    assert [each.split()[1] for each in lines_of(page)] == ["7", *(str(n) for n in range(70, 80))]
    other.close()


def test_eight_tabs_at_once_all_stay_current(scripted: Page, fleet: Any) -> None:
    tabs = [scripted, *(scripted.context.new_page() for _ in range(7))]
    for tab in tabs:
        tab.goto("/runs")
    for tab in tabs:
        is_live(tab)
    run_id = fleet.submit("probe")
    for tab in tabs:
        tab.locator(f"#r-{run_id}").wait_for(timeout=SOON_MS)
    for tab in tabs[1:]:
        tab.close()


def test_a_tab_that_opens_beside_another_hears_what_changed_since_it_was_made(
    scripted: Page, fleet: Any
) -> None:
    first, second = scripted, scripted.context.new_page()
    first.goto("/runs")
    is_live(first)

    submitted: list[str] = []

    def late(route: Route) -> None:
        made = route.fetch()
        submitted.append(fleet.submit("probe"))
        first.locator(f"#r-{submitted[0]}").wait_for(timeout=SOON_MS)
        route.fulfill(response=made)

    second.route("**/runs", late, times=1)  # and not where the page looks again by itself
    second.goto("/runs")
    second.locator(f"#r-{submitted[0]}").wait_for(timeout=SOON_MS)
    second.close()


def test_a_restart_of_the_control_plane_loses_and_repeats_no_event(
    browser: Browser,
    fleet: Any,
    s3: Any,
    by_hand: Callable[..., Any],
    until: Until,
    tmp_path: Any,
    name: str,
) -> None:
    run_id = fleet.submit("probe", requires={"region": name})
    hand = by_hand("runs", f"probe/cpu/{name}")
    home = tmp_path / "other"
    home.mkdir()
    process, url = start_control_plane(home, fleet.database_url, s3)
    try:
        page = patient(browser.new_context(base_url=url)).new_page()
        page.goto(f"/runs/{run_id}/log")
        is_live(page)
        hand.say(RunStarted(), *(RunLog(level="info", message=f"line {n}") for n in range(10)))
        until(lambda: len(lines_of(page)) == 10)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        is_live(page, "lost")
        hand.say(*(RunLog(level="info", message=f"line {n}") for n in range(10, 20)))
        process = start_control_plane(home, fleet.database_url, s3, port=int(url.rpartition(":")[2]))[0]
        is_live(page)
        hand.say(*(RunLog(level="info", message=f"line {n}") for n in range(20, 30)))
        until(lambda: len(lines_of(page)) >= 30)
        assert lines_of(page) == [f"line {n}" for n in range(30)]
        page.context.close()
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow("a run that is started in a browser, claimed and ended")
def test_the_header_starts_a_benchmark_and_says_by_itself_that_one_runs(
    scripted: Page, fleet: Any, by_hand: Callable[..., Any], name: str
) -> None:
    scripted.goto("/pods")
    with scripted.expect_navigation():  # the scripts of the form are at work then
        scripted.get_by_role("link", name="Run benchmark").click()
    expect(scripted.get_by_role("textbox", name="epochs")).to_be_hidden()
    expect(scripted.get_by_label("model (required)")).to_have_value("smollm2")
    scripted.get_by_label("sample_size").fill("12")
    expect(scripted.locator("#outlook-cost")).to_contain_text("12 items")
    scripted.get_by_label("sample_size").fill("1000")
    expect(scripted.locator("#outlook-cost")).to_contain_text("164 items")
    scripted.get_by_text("What a pod must have").click()
    scripted.get_by_label("region").fill(name)
    scripted.get_by_role("button", name="Submit").click()
    scripted.wait_for_url(re.compile("/runs/[0-9A-Z]{26}$"))
    scripted.goto("/runs?kind=benchmark")
    is_live(scripted)
    sign = scripted.locator("header #running-benchmark")
    expect(sign).to_have_count(0)
    hand = by_hand("runs", f"benchmark/cpu/{name}")
    hand.say(RunStarted())
    expect(sign).to_contain_text("1", timeout=SOON_MS)
    hand.settle(End("failed", "BROKEN", "it broke"))
    expect(sign).to_have_count(0, timeout=SOON_MS)


def test_a_race_shows_what_its_lanes_say_once_each_also_to_a_phone_that_was_away(
    scripted: Page, fleet: Any, by_hand: Callable[..., Any], until: Until, two_pods: list[str], name: str
) -> None:
    body = {"kind": "probe", "name": name, "lanes": [{"pod": pod} for pod in two_pods]}
    assert fleet.client.post("/api/races", json=body).status_code == 201
    until(lambda: all(each["runId"] for each in fleet.client.get(f"/api/races/{name}").json()["lanes"]))
    hands = [by_hand("runs", class_key("probe", read_requirements({"pod": pod}))) for pod in two_pods]
    page = scripted
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"/races/{name}")
    first, second = (page.locator(f".lane[data-pod='{pod}'] .said") for pod in two_pods)
    with showing(fleet, hands[0].claim) as a, showing(fleet, hands[1].claim) as b:
        a.put(Shown(lap=1, offset=0, text="one "))
        b.put(Shown(lap=1, offset=0, text="<b>eins</b>"))
        expect(first).to_have_text("one ", timeout=SOON_MS)
        expect(second).to_have_text("<b>eins</b>", timeout=SOON_MS)
        page.context.set_offline(True)
        a.put(Shown(lap=1, offset=4, text="two ü 🚀 "))
        page.context.set_offline(False)
        a.put(Shown(lap=1, offset=12, text="three"))
        expect(first).to_have_text("one two ü 🚀 three", timeout=SOON_MS)
        page.reload()
        expect(first).to_have_text("one two ü 🚀 three", timeout=SOON_MS)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it fits a phone"
    for hand in hands:
        hand.say(RunStarted())
        hand.say(LaneReady(offset_s=0.0, bound_s=0.001, hears_s=0.1))

    def start() -> Any:
        return fleet.client.get(f"/api/races/{name}").json()["startAt"]

    until(start)
    agreed = datetime.fromisoformat(start())
    until(lambda: SystemClock().now() > agreed)
    page.evaluate("() => { const now = Date.now; Date.now = () => now() - 3_600_000; }")
    for hand in hands:
        hand.say(LaneStarted(agreed=agreed, late_s=0.0, ready_late_s=0.0, offset_s=0.0, bound_s=0.001))
    took, bars = page.locator("[data-took]"), page.locator(".tracks rect")
    expect(bars).to_have_count(2, timeout=SOON_MS)
    expect(took.first).to_have_text(re.compile(r"^\d+\.\d s$"), timeout=SOON_MS)
    first_s, begun_s = seconds(took.first), SystemClock().now().timestamp()
    assert first_s <= begun_s - agreed.timestamp() + 0.2, "true to the time of the server"
    until(lambda: seconds(took.first) > first_s + 1.0)
    assert [bars.nth(each).get_attribute("width") for each in (0, 1)] == ["1000.0"] * 2
    for hand in hands:
        hand.settle(End("failed", "BROKEN", "it broke"))
    expect(page.locator(".lanes")).not_to_have_attribute("data-active", "", timeout=SOON_MS)
