"""Schedules, single pods, bulk orders, comparisons and keys in a real Chromium."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect
from pymongo import MongoClient

from events.catalog import RunStarted, StageMetric, StageStarted
from events.queue.matching import WaitingClass
from events.queue.settlement import End
from events.runtime.clock import SystemIds
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from tests.integration.conftest import Fleet, HandDriven

pytestmark = pytest.mark.xdist_group("pages")

TABS = ("", "/metrics?x=time", "/kind/tree", "/log", "/files", "/attempts", "/spec")
POD = "<img src=x onerror=alert(1)>&'"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe" + "W" * 200


@pytest.fixture(scope="module")
def pod(fleet: Fleet) -> dict[str, Any]:
    """A real pod with a hostile name, which has made one run and left."""
    # before whatever another test has left in the queue, which the pod would take for its one run
    run_id = fleet.submit("probe", spec={"seconds": 0}, priority=100)
    worker = fleet.start_worker("--max-runs", "1", PODFLEET_POD_ID=POD, PODFLEET_REGION="EU & <b>north")
    fleet.wait_for(run_id, "COMPLETED", limit_s=90)
    worker.wait(60)
    pods = fleet.client.get("/api/pods", params={"region": "EU & <b>north"}).json()["items"]
    (found,) = [each for each in pods if each["id"].startswith(POD)]
    return {**found, "run": run_id}


@pytest.fixture(scope="module")
def sweep(fleet: Fleet) -> list[str]:
    """Three runs with measurements: two differ in the seed alone, the third in the preset."""
    specs: list[dict[str, object]] = [{"seed": 1}, {"seed": 2}, {"seed": 1, "preset": "quick"}]
    made = [
        fleet.submit("experiment", spec={"idea": HOSTILE, "researcher": "model", **each}, priority=100)
        for each in specs
    ]
    db = connect(fleet.database_url)
    for offset in range(len(made)):
        claim = MongoQueue(db).take(
            WaitingClass("runs", "experiment/cpu/any", 0), token=letters(SystemIds().token()), pod="by/hand"
        )
        assert claim is not None
        assert claim.run_id == made[offset]
        hand = HandDriven(fleet.client, MongoQueue(db), claim)
        hand.say(RunStarted(), StageStarted(stage="Stage_1"))
        hand.say(
            *(
                StageMetric(stage="Stage_1", name="loss", value=10.0**-step + offset, step=step)
                for step in range(5)
            )
        )
        hand.say(StageMetric(stage="Stage_1", name="<b>accuracy", value=0.5 + offset / 10))
        hand.settle(End("failed", "BROKEN", "it broke"))
    db.client.close()
    return made


def test_a_run_is_filled_in_checked_and_submitted_from_its_page(page: Page, fleet: Any, name: str) -> None:
    page.goto("/runs")
    page.get_by_role("link", name="New run").click()
    page.get_by_role("link", name="experiment").click()
    expect(page.get_by_role("textbox", name="seed")).to_have_attribute("placeholder", "")
    limit = page.get_by_role("textbox", name="program_limit_s")
    expect(limit).to_have_attribute("placeholder", re.compile("^600"))
    page.get_by_role("textbox", name="idea").fill("Dropout helps\non iris")
    page.get_by_role("combobox", name="review").select_option("none")
    page.get_by_role("group", name="nodes").get_by_label("Stage_1").fill("0")
    page.get_by_text("The run itself").click()
    page.locator("[name=labels]").fill(f"batch={name}")
    page.get_by_role("button", name="Check").click()
    stage = page.get_by_role("textbox", name="Stage_1")
    expect(stage).to_have_accessible_description(re.compile(r"^Integer, at least 1\. .*Expected `int` >= 1$"))
    expect(stage).to_have_value("0")
    page.get_by_role("alert").get_by_role("link", name="nodes.Stage_1").click()
    expect(stage).to_be_in_viewport()
    stage.fill("2")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status")).to_contain_text("The run is valid; nothing was queued")
    expect(page.get_by_role("status")).to_contain_text("With dropout, the accuracy on iris becomes higher.")
    assert fleet.client.get("/api/runs", params={"label": f"batch={name}"}).json()["items"] == []
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile("/runs/[0-9A-Z]{26}$"))
    (run,) = fleet.client.get("/api/runs", params={"label": f"batch={name}"}).json()["items"]
    assert page.url.endswith(run["id"])
    spec = {"idea": "Dropout helps\non iris", "review": "none", "nodes": {"Stage_1": 2}}
    stored = fleet.run(run["id"])["spec"]
    assert stored.pop("seed") > 0, "it follows from the id of the run"
    assert stored == spec


def test_what_is_typed_is_judged_at_once_and_a_waiting_run_is_changed(scripted: Page, fleet: Any) -> None:
    scripted.goto("/")
    scripted.get_by_role("link", name="New", exact=True).click()
    with scripted.expect_navigation():  # the scripts of the form are at work then
        scripted.get_by_role("link", name="probe").click()
    seconds = scripted.get_by_role("textbox", name="seconds", exact=True)
    seconds.fill("soon")
    expect(seconds).to_have_accessible_description(re.compile("a number$"))
    expect(scripted.locator("#commands")).to_be_hidden()
    seconds.fill("2.5")
    scripted.get_by_text("The same by command line or curl").click()
    expect(scripted.locator("#commands-cli")).to_have_text("podfleet submit --kind probe -p seconds=2.5")
    expect(seconds).to_have_attribute("aria-invalid", "false")
    scripted.get_by_text("What a pod must have").click()
    scripted.get_by_label("region").fill("mars")
    expect(scripted.locator("#outlook-where")).not_to_be_empty()
    scripted.get_by_role("button", name="Submit").click()
    scripted.wait_for_url(re.compile("/runs/[0-9A-Z]{26}$"))
    scripted.get_by_role("link", name="Change").click()
    scripted.get_by_label("region").fill("moon")
    scripted.get_by_role("button", name="Save").click()
    scripted.wait_for_url(re.compile("/runs/[0-9A-Z]{26}$"))
    assert fleet.run(scripted.url[-26:])["classKey"] == "probe/cpu/moon"
    fleet.client.post(f"/api/runs/{scripted.url[-26:]}/cancel")


def schedule(fleet: Any, name: str, **body: object) -> dict[str, Any]:
    """Store a schedule of probes, and return it."""
    wanted = {"id": name, "cron": "0 2 * * 1-5", "run": {"kind": "probe"}, **body}
    answer = fleet.client.post("/api/schedules", json=wanted)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_the_lanes_of_a_race_are_checked_as_they_are_typed(scripted: Page, two_pods: list[str]) -> None:
    scripted.goto("/races/new?kind=probe")
    for each in two_pods:
        scripted.locator(f'[name="lane.{each}"]').check()
    own = scripted.locator(f'[name="own.{two_pods[0]}"]')
    badges = scripted.locator(f'.machine[data-pod^="{two_pods[0][:-1]}"] .badge')
    problem = scripted.locator("#race-problem")
    own.fill("seconds=soon")
    expect(problem).to_contain_text("seconds")
    expect(badges).to_have_count(0)  # what was said of other fields is gone
    own.fill("seconds=1" + " " * 9_000)  # too long for an address
    expect(problem).to_be_empty()
    expect(badges).to_have_count(2)
    scripted.route("**/races/new/look", lambda route: route.fulfill(body="no JSON"))
    own.fill("seconds=2")
    expect(problem).to_contain_text("could not be checked")
    expect(badges).to_have_count(0)
    scripted.unroute_all()


def test_a_schedule_is_previewed_and_added_by_the_form(
    page: Page, fleet: Any, name: str, has_scripts: bool
) -> None:
    page.goto("/schedules")
    expect(page.get_by_label("Repeat")).to_be_visible(visible=has_scripts)
    page.get_by_label("Name").fill("Nightly!")
    page.get_by_label("When (cron)").fill("0 9 * *")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.get_by_role("combobox", name="Kind").select_option("probe")
    page.get_by_label("Specification").fill('{"seconds": 0')
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".preview")).to_contain_text("must have five fields")
    page.get_by_label("When (cron)").fill("0 9 * * 1-5")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".preview")).to_contain_text("At 09:00 on Monday through Friday")
    expect(page.locator(".preview li")).to_have_count(5)
    expect(page.locator(".preview li").first).to_contain_text("09:00 UTC+0")
    expect(page.get_by_label("Specification")).to_have_value('{"seconds": 0')
    expect(page.locator("main")).to_have_attribute("data-topics", "")  # nobody's change takes it away

    page.locator("form[data-cron]").evaluate("(form) => { form.noValidate = true }")
    page.get_by_role("button", name="Add the schedule").click()
    problems = page.get_by_role("alert")
    expect(problems).to_contain_text("Name: lower-case letters, digits and dashes")
    expect(problems).to_contain_text("Specification: no JSON at line 1, column 14")
    assert fleet.client.get(f"/api/schedules/{name}").status_code == 404
    expect(page.locator("main")).to_have_attribute("data-topics", "")

    page.get_by_label("Name").fill(name)
    page.get_by_label("Specification").fill('{"seconds": 0, "colour": 1}')
    page.get_by_role("button", name="Add the schedule").click()
    expect(problems).to_contain_text("colour")
    page.get_by_label("Specification").fill('{"seconds": 0}')
    page.get_by_role("button", name="Add the schedule").click()
    page.wait_for_url(f"**/schedules/{name}")
    expect(page.locator(".lead")).to_have_text("At 09:00 on Monday through Friday")
    stored = fleet.client.get(f"/api/schedules/{name}").json()
    assert (stored["cron"], stored["timeZone"]) == ("0 9 * * 1-5", "Europe/Berlin")
    assert stored["run"]["spec"] == {"seconds": 0}
    expect(page.locator(".slots tbody tr")).to_have_count(5)

    page.get_by_role("link", name="Change it").click()
    expect(page.get_by_label("Specification")).to_have_value('{\n  "seconds": 0\n}')
    page.get_by_label("When (cron)").fill("30 9 * *")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("five fields")
    page.get_by_label("When (cron)").fill("30 9 * * 1-5")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/schedules/{name}")
    expect(page.locator(".lead")).to_have_text("At 09:30 on Monday through Friday")


def test_a_cron_text_is_explained_while_it_is_typed(scripted: Page, fleet: Any) -> None:
    scripted.goto("/schedules")
    scripted.get_by_label("When (cron)").press_sequentially("*/15 9-17 * *")
    expect(scripted.locator(".preview")).to_contain_text("must have five fields")
    scripted.get_by_label("When (cron)").press_sequentially(" 1-5")
    expect(scripted.locator(".preview strong")).to_have_text(
        "Every 15th minute from 09:00 through 17:59 on Monday through Friday"
    )
    scripted.get_by_label("Time zone").fill("Mars/Olympus")
    expect(scripted.locator(".preview")).to_contain_text("no time zone")
    scripted.get_by_label("Time zone").fill("Asia/Kolkata")
    in_hours = re.compile(r"(09|1[0-7]):(00|15|30|45) UTC\+05:30")  # which of them is next, the hour decides
    expect(scripted.locator(".preview li").first).to_contain_text(in_hours)
    words, slots = scripted.locator(".preview strong"), scripted.locator(".preview li")
    typed, coming = words.inner_text(), slots.all_inner_texts()
    with scripted.expect_navigation():
        scripted.get_by_role("button", name="Preview").click()
    assert words.inner_text() == typed  # the server's words are the script's
    later = slots.all_inner_texts()
    assert coming in (later, [coming[0], *later[:-1]]), "the first may have passed meanwhile"
    scripted.get_by_label("Specification").fill("[1]")
    expect(scripted.locator("#spec-problem")).to_contain_text("A JSON object")


def test_a_cron_text_is_written_by_choosing(scripted: Page) -> None:
    scripted.goto("/schedules")
    repeat, cron = scripted.get_by_label("Repeat"), scripted.get_by_label("When (cron)")
    weekday = scripted.locator("[data-part=weekday]")
    expect(scripted.get_by_label("Minutes apart")).to_be_hidden()
    repeat.select_option("every few minutes")
    scripted.get_by_label("Minutes apart").select_option("15")
    expect(cron).to_have_value("*/15 * * * *")
    expect(scripted.locator(".preview strong")).to_have_text("Every 15th minute of every hour")
    repeat.select_option("every hour")
    scripted.get_by_label("Minute", exact=True).fill("60")
    expect(cron).to_have_value("0 * * * *")  # as before: there is no such minute
    scripted.get_by_label("Minute", exact=True).fill("7")
    expect(cron).to_have_value("7 * * * *")
    repeat.select_option("every week")
    scripted.get_by_label("At", exact=True).fill("21:05")
    weekday.select_option("Sunday")
    expect(cron).to_have_value("5 21 * * 0")
    expect(scripted.locator(".preview strong")).to_have_text("At 21:05 on Sunday")
    repeat.select_option("every month")
    expect(weekday).to_be_hidden()
    scripted.get_by_label("Day of the month").fill("31")
    expect(cron).to_have_value("5 21 31 * *")
    repeat.select_option("every day")
    expect(cron).to_have_value("5 21 * * *")
    cron.fill("0 9 * * 1-5")
    expect(repeat).to_have_value("")
    expect(scripted.get_by_label("At", exact=True)).to_be_hidden()


def test_a_schedule_rests_with_a_note_runs_at_once_and_goes_when_confirmed(
    page: Page, fleet: Any, name: str
) -> None:
    schedule(fleet, name)
    page.goto(f"/schedules/{name}")
    page.get_by_label("Why").fill(HOSTILE)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".warn")).to_contain_text("onerror=alert(1)")
    paused = fleet.client.get(f"/api/schedules/{name}").json()
    assert (paused["paused"], paused["nextAt"], paused["pausedBy"]) == (True, None, "loopback")
    assert (paused["pauseNote"], paused["pausedAt"] is not None) == (HOSTILE, True)
    expect(page.get_by_role("heading", name="Times if it were not paused")).to_be_visible()
    page.goto("/schedules")
    expect(page.locator("script:text('alert')")).to_have_count(0)
    page.goto(f"/schedules/{name}")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".facts")).to_contain_text("active")
    resumed = fleet.client.get(f"/api/schedules/{name}").json()
    assert [resumed[name] for name in ("paused", "pausedBy", "pausedAt", "pauseNote")] == [
        False,
        None,
        None,
        None,
    ]

    page.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/*")
    run = fleet.run(page.url.rpartition("/")[2])
    assert (run["labels"], run["status"]) == ({"schedule": name}, "QUEUED")
    page.goto(f"/schedules/{name}")
    expect(page.locator(f"a[href='/runs/{run['id']}']")).to_have_count(1)
    page.locator("summary", has_text="Remove").click()
    page.get_by_role("button", name=f"Remove {name}").click()
    page.wait_for_url("**/schedules")
    assert fleet.client.get(f"/api/schedules/{name}").status_code == 404
    assert fleet.run(run["id"])["status"] == "QUEUED"


def test_whoever_presses_run_now_twice_gets_one_run(fleet: Any, name: str) -> None:
    schedule(fleet, name)
    html = fleet.client.get(f"/schedules/{name}").text
    key = html.partition('name="key" value="')[2].partition('"')[0]
    answers = [fleet.client.post(f"/schedules/{name}/run", data={"key": key}) for _ in range(2)]
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert len(fleet.client.get(f"/api/runs?label=schedule={name}").json()["items"]) == 1
    for _ in range(2):
        assert fleet.client.post(f"/api/schedules/{name}/run").status_code == 201
    assert len(fleet.client.get(f"/api/runs?label=schedule={name}").json()["items"]) == 3


def test_a_preview_tells_times_or_the_problem(fleet: Any) -> None:
    def preview(**query: str) -> dict[str, Any]:
        answer = fleet.client.get("/api/schedules/preview", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    found = preview(cron="0 9 * * 1-5", time_zone="Asia/Kolkata")
    assert (found["meaning"], found["problem"]) == ("At 09:00 on Monday through Friday", None)
    assert [each["local"][10:] for each in found["next"]] == ["T09:00:00+05:30"] * 5
    assert [each["at"][10:] for each in found["next"]] == ["T03:30:00.000Z"] * 5
    for query, code in (
        ({"cron": "0 9 * *"}, "bad_cron"),
        ({"cron": HOSTILE[:150]}, "bad_cron"),
        ({"cron": "0 9 * * *", "time_zone": "../etc/passwd"}, "unknown_zone"),
        ({"cron": "0 0 31 2 *"}, "bad_cron"),
    ):
        found = preview(**query)
        assert (found["meaning"], found["next"], found["problem"]["code"]) == (None, [], code)
    taken = fleet.client.post(
        "/api/schedules", json={"id": "preview", "cron": "@daily", "run": {"kind": "probe"}}
    )
    assert (taken.status_code, taken.json()["code"]) == (422, "reserved_id")


def test_a_pod_has_a_page_with_what_it_has_used_and_done(page: Page, fleet: Any, pod: dict[str, Any]) -> None:
    page.goto("/pods?region=nowhere")
    expect(page.locator("td.empty")).to_have_text("No pod of this region has reported.")
    page.get_by_label("Region").fill("EU & <b>north")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**region=EU**")
    page.reload()
    expect(page.get_by_label("Region")).to_have_value("EU & <b>north")
    page.locator("tbody a", has_text=pod["id"]).click()
    expect(page.locator("h1")).to_have_text(pod["id"])
    expect(page.locator(".facts").first).to_contain_text("EU & <b>north")
    history = page.locator("tbody tr", has=page.locator(f"a[href='/runs/{pod['run']}']"))
    expect(history).to_contain_text("completed")
    memory = page.get_by_role("img", name="Memory")
    expect(memory).to_have_count(1)
    expect(memory.locator("path.line, circle.dot").first).to_be_attached()
    assert re.fullmatch(
        r"Memory: [\d.]+ GiB last, [\d.]+ GiB to [\d.]+ GiB\.", memory.locator("desc").text_content() or ""
    )
    expect(page.locator("figure", has_text="GPU")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("It has no GPU.")
    page.get_by_role("link", name="24 h").click()
    page.wait_for_url("**hours=24")
    expect(page.locator("[aria-current]")).to_have_text("24 h")
    expect(page.get_by_role("img", name="Memory")).to_have_count(1)


def test_what_a_pod_uses_is_kept_by_the_stores_clock(fleet: Any, pod: dict[str, Any]) -> None:
    path = f"/api/pods/{quote(pod['id'])}"
    samples = fleet.client.get(f"{path}/telemetry").json()["items"]
    assert samples[-1]["at"] == pod["reportedAt"]
    assert [each["at"] for each in samples] == sorted(each["at"] for each in samples)
    assert all(each["memoryMib"] > 0 and "gpuUtil" not in each for each in samples)
    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        hours = list(client.get_default_database().pod_telemetry.find({"podId": pod["id"]}))
    assert sum(len(hour["samples"]) for hour in hours) == len(samples)
    assert {hour["expiresAt"] - hour["from"] for hour in hours} == {timedelta(days=14)}
    (attempt,) = fleet.client.get(f"{path}/attempts").json()["items"]
    assert [attempt[name] for name in ("runId", "attempt", "outcome")] == [pod["run"], 1, "completed"]
    for path in ("/api/pods/nobody/telemetry", "/pods/nobody"):
        assert fleet.client.get(path).status_code == 404
    assert fleet.client.get(f"/api/pods/{quote(pod['id'])}/telemetry?hours=25").status_code == 422


def submit_many(fleet: Any, count: int, name: str, **body: object) -> list[str]:
    """Queue probes under a label of their own."""
    return [fleet.submit("probe", labels={"batch": name}, **body) for _ in range(count)]


def statuses(fleet: Any, name: str) -> list[str]:
    items = fleet.client.get("/api/runs", params={"label": f"batch={name}"}).json()["items"]
    return [str(run["status"]) for run in items]


def test_ticked_runs_are_canceled_and_retried_after_a_question(page: Page, fleet: Any, name: str) -> None:
    first, second, third = submit_many(fleet, 3, name)
    page.goto(f"/runs?label=batch={name}")
    page.locator(f"#r-{first} .pick input").check()
    page.locator(f"#r-{third} .pick input").check()
    page.get_by_role("button", name="Cancel…").click()
    expect(page.locator("h1")).to_have_text("Cancel 2 runs?")
    assert statuses(fleet, name) == ["QUEUED"] * 3, "nothing happens before the answer"
    page.get_by_role("button", name="Cancel 2 runs").click()
    expect(page.locator("h1")).to_have_text("2 cancelled")
    assert statuses(fleet, name) == ["CANCELED", "QUEUED", "CANCELED"]

    page.goto(f"/runs?label=batch={name}")
    for run_id in (first, second):
        page.locator(f"#r-{run_id} .pick input").check()
    page.get_by_role("button", name="Run again…").click()
    page.get_by_role("button", name="Retry 2 runs").click()
    expect(page.locator("h1")).to_have_text("1 retried")
    expect(page.locator("main")).to_contain_text("only a finished run can be retried")
    link = page.locator("tbody tr", has_text=first).get_by_role("link").last
    again = fleet.run(link.inner_text())
    assert (again["parentRunId"], again["labels"], again["status"]) == (first, {"batch": name}, "QUEUED")


def test_all_that_match_are_canceled_and_no_other(page: Page, fleet: Any, name: str) -> None:
    submit_many(fleet, 3, name)
    (other,) = submit_many(fleet, 1, f"{name}-other")
    page.goto("/runs")
    page.get_by_role("textbox", name="Label").fill(f"batch={name}")
    page.get_by_role("button", name="Filter").click()
    page.get_by_label("All that match the filters").check()
    page.get_by_role("button", name="Cancel…").click()
    expect(page.locator("h1")).to_have_text("Cancel 3 runs?")
    expect(page.locator("main")).to_contain_text(f"label batch={name}")
    (late,) = submit_many(fleet, 1, name)  # after the question
    page.get_by_role("button", name="Cancel 3 runs").click()
    expect(page.locator("h1")).to_have_text("3 cancelled")
    assert fleet.run(late)["status"] == fleet.run(other)["status"] == "QUEUED"
    page.goto("/runs/bulk?action=cancel&status=QUEUED")
    expect(page.locator("main")).to_contain_text("No run is ticked")
    back = page.get_by_role("link", name="Back to the last page")
    expect(back).to_have_attribute("href", "/runs?status=QUEUED")


def test_a_tick_stays_while_the_rows_change(scripted: Page, fleet: Any, name: str) -> None:
    first, second = submit_many(fleet, 2, name)
    scripted.goto(f"/runs?label=batch={name}")
    scripted.locator(f"#r-{first} .pick input").check()
    scripted.locator(f"#r-{second} .pick input").check()
    fleet.client.post(f"/api/runs/{first}/cancel")
    expect(scripted.locator(f"#r-{first}")).to_contain_text("CANCELED")
    expect(scripted.locator(f"#r-{first} .pick input")).to_be_checked()


def test_a_bulk_over_http_goes_on_where_it_was_and_repeats_nothing(fleet: Any, name: str) -> None:
    def bulk(**body: object) -> dict[str, Any]:
        answer = fleet.client.post("/api/runs/bulk", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    made = submit_many(fleet, 4, name)
    asked = bulk(action="cancel", ids=[made[0], made[0], "nobody"])
    assert [(each["id"], each["outcome"]) for each in asked["results"]] == [
        (made[0], "done"),
        ("nobody", "unknown"),
    ]
    told = bulk(action="cancel", filters={"label": f"batch={name}"})
    assert (told["counts"], told["next"]) == ({"done": 3, "already": 1, "refused": 0, "unknown": 0}, None)
    assert told["results"][0]["id"] == made[3], "the newest first"

    again = bulk(action="retry", filters={"label": f"batch={name}", "status": "CANCELED"})
    assert again["counts"]["done"] == 4
    order = {"name": again["name"], "asked_at": again["askedAt"]}
    repeated = bulk(action="retry", filters={"label": f"batch={name}"}, **order)
    assert repeated["counts"] == {"done": 0, "already": 4, "refused": 0, "unknown": 0}
    assert [each["run_id"] for each in repeated["results"]] == [each["run_id"] for each in again["results"]]
    assert len(statuses(fleet, name)) == 8

    for wrong in (
        {"action": "cancel"},
        {"action": "cancel", "ids": [], "filters": None},
        {"action": "cancel", "ids": ["x"], "filters": {}},
        {"action": "erase", "ids": ["x"]},
        {"action": "cancel", "ids": ["x"] * 1001},
        {"action": "cancel", "filters": {"status": "LOST"}},
        {"action": "retry", "filters": {"colour": "red"}},
    ):
        assert fleet.client.post("/api/runs/bulk", json=wrong).status_code == 422, wrong


def test_runs_are_compared_side_by_side(page: Page, has_scripts: bool, sweep: list[str]) -> None:
    page.goto("/runs?kind=experiment")
    for run_id in sweep:
        page.locator(f"#r-{run_id} .pick input").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/runs/compare?**")
    expect(page.locator("h1")).to_have_text("Compare 3 runs")
    page.goto(f"/runs/compare?ids={','.join(sweep)}")
    differing = page.locator("section", has=page.get_by_role("heading", name="Parameters that differ"))
    rows = differing.locator("> .scroll tbody tr")
    expect(rows).to_have_text(["seed 1 2 1", "preset – – quick"], use_inner_text=True)
    expect(differing.locator("summary")).to_have_text("2 equal parameters")
    expect(page.locator("main")).to_contain_text("A, B differ only in the seed.")

    chart = page.get_by_role("img", name="Stage_1: loss")
    expect(chart.locator("path.line")).to_have_count(2)
    expect(chart.locator("path.band")).to_have_count(1)
    expect(chart.locator("text.name")).to_have_text(["A+B", "C"])
    values = page.locator("tr", has_text="<b>accuracy")
    expect(values).to_contain_text("0.55")
    expect(values).to_contain_text("-0.0853")
    linear = chart.locator("path.line").first.get_attribute("d")
    figure = page.locator("figure", has=chart)
    expect(figure.locator("tr[data-x]")).to_have_count(5)
    expect(figure.locator("tr[data-x] td").last).to_have_text("2", use_inner_text=False)
    if has_scripts:
        chart.hover(position={"x": 60, "y": 40})
        expect(figure.locator(".readout")).to_contain_text("step 0: mean of 2 seeds: 1.5 · <img src=x")

    page.get_by_label("Logarithmic axis").check()
    page.get_by_label("Smoothing").fill("0.5")
    page.locator("select[name=seeds]").select_option("each")
    page.get_by_role("button", name="Draw").click()
    page.wait_for_url("**log=on**")
    expect(chart.locator("path.line")).to_have_count(3)
    expect(chart.locator("path.band")).to_have_count(0)
    assert "on a logarithmic axis" in (chart.locator("desc").text_content() or "")
    assert chart.locator("path.line").first.get_attribute("d") != linear
    page.reload()
    expect(page.get_by_label("Smoothing")).to_have_value("0.5")
    for wrong in (sweep[0], ",".join(sweep * 1 + [str(number) for number in range(10)])):
        answer = page.goto(f"/runs/compare?ids={wrong}")
        assert answer is not None
        assert answer.status == 422
        expect(page.locator("main")).to_contain_text("2 to 12 runs can be compared")
    page.goto(f"/runs/compare?ids={sweep[0]},nobody")
    expect(page.locator(".warn")).to_contain_text("nobody")


def test_a_theme_is_chosen_and_holds_from_the_first_paint_on(scripted: Page) -> None:
    page = scripted.context.new_page()
    page.emulate_media(color_scheme="light")
    page.add_init_script(
        """requestAnimationFrame(function frame() {
             if (!document.body) return requestAnimationFrame(frame);
             window.atFirst = getComputedStyle(document.body).backgroundColor;
           })"""
    )
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto("/schedules")
    ground = "getComputedStyle(document.body).backgroundColor"
    button = page.locator("button.theme")
    expect(button).to_have_attribute("aria-label", "Theme: system")
    light = page.evaluate(ground)
    button.click()
    expect(button).to_have_attribute("aria-label", "Theme: light")
    assert page.evaluate(ground) == light
    button.click()
    dark = page.evaluate(ground)
    assert dark != light
    page.goto("/pods")
    page.wait_for_function("window.atFirst")  # a page may be loaded before its first frame is drawn
    assert page.evaluate("window.atFirst") == dark
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.locator("button.theme").click()
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert page.evaluate(ground) == dark, "the system's own choice again"
    assert errors == []
    page.close()


def test_the_keyboard_alone_is_enough(scripted: Page, fleet: Any, name: str) -> None:
    first, second, third = submit_many(fleet, 3, name)
    scripted.goto(f"/runs?label=batch={name}")
    scripted.keyboard.press("?")
    dialog = scripted.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    scripted.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    scripted.keyboard.press("j")
    expect(scripted.locator("tr.current")).to_have_attribute("id", f"r-{third}")
    scripted.keyboard.press("j")
    scripted.keyboard.press("j")
    scripted.keyboard.press("j")
    expect(scripted.locator("tr.current")).to_have_attribute("id", f"r-{first}")
    scripted.keyboard.press("k")
    scripted.keyboard.press("x")
    expect(scripted.locator(f"#r-{second} .pick input")).to_be_checked()
    fleet.client.post(f"/api/runs/{second}/cancel")
    expect(scripted.locator(f"#r-{second}")).to_contain_text("CANCELED")
    expect(scripted.locator("tr.current")).to_have_attribute("id", f"r-{second}")
    expect(scripted.locator(f"#r-{second} .pick input")).to_be_checked()
    scripted.keyboard.press("Escape")
    expect(scripted.locator("tr.current")).to_have_count(0)

    scripted.keyboard.press("/")
    scripted.keyboard.type("jk?x/")
    expect(scripted.get_by_label("Text")).to_have_value("jk?x/")
    scripted.keyboard.press("Escape")
    scripted.keyboard.press("j")
    scripted.keyboard.press("Enter")
    scripted.wait_for_url(f"**/runs/{third}")
    scripted.keyboard.press("/")
    scripted.wait_for_url("**/runs#search")
    expect(scripted.get_by_label("Text")).to_be_focused()


def test_every_page_here_takes_hostile_text_in_both_themes_at_phone_width(
    scripted: Page, fleet: Any, sweep: list[str], name: str
) -> None:
    schedule(fleet, name, run={"kind": "experiment", "spec": {"idea": HOSTILE, "researcher": "model"}})
    fleet.client.patch(f"/api/schedules/{name}", json={"paused": True, "note": HOSTILE})
    secret = {"value": "a value", "keys": [HOSTILE[:100]], "kinds": [HOSTILE[:200]]}
    assert fleet.client.put(f"/api/secrets/{'A' * 100}", json=secret).status_code in (200, 201)
    probe = fleet.submit("probe", requires={"region": name})  # its columns are wider than a phone
    paths = (
        "/runs",
        f"/runs/{probe}/results",
        "/secrets",
        "/schedules",
        f"/schedules/{name}",
        "/pods",
        f"/runs/compare?ids={','.join(sweep)}",
        *(f"/runs/{sweep[0]}{tab}" for tab in TABS),
        "/runs/bulk?" + urlencode({"action": "retry", "all": "on", "q": HOSTILE[:150]}),
        "/runs/bulk?" + urlencode({"action": "retry", "ids": [*sweep, HOSTILE[:150]]}, doseq=True),
    )
    scripted.set_viewport_size({"width": 400, "height": 800})
    for path in paths:
        answer = scripted.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        for theme in ("light", "dark"):
            scripted.emulate_media(color_scheme=theme)
            assert scripted.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (
                theme == "dark"
            )
            assert scripted.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_a_schedules_page_hears_of_its_runs_and_of_its_pause(scripted: Page, fleet: Any, name: str) -> None:
    schedule(fleet, name)
    run_id = fleet.client.post(f"/api/schedules/{name}/run").json()["id"]
    scripted.goto(f"/schedules/{name}")
    expect(scripted.locator("html")).to_have_attribute("data-live", "open")
    fleet.client.post(f"/api/runs/{run_id}/cancel")
    expect(scripted.locator(f"#r-{run_id}")).to_contain_text("CANCELED")
    fleet.client.patch(f"/api/schedules/{name}", json={"paused": True, "note": "for now"})
    expect(scripted.locator(".warn")).to_contain_text("for now")


def test_the_list_has_the_region_and_the_columns_of_its_address(page: Page, fleet: Any) -> None:
    region = f"eu-{SystemIds().ulid()}"
    there = fleet.submit("probe", requires={"region": region}, labels={"owner": "maria"})
    fleet.submit("probe", requires={"region": "us-east"})
    fleet.submit("probe")
    page.goto(f"/runs?region={region}&columns=labels,queued")
    assert page.locator("tbody tr").evaluate_all("(rows) => rows.map((each) => each.id)") == [f"r-{there}"]
    titles = page.locator("thead th:visible")
    expect(titles).to_have_text(["Select", "Status", "Run", "Labels", "Queued"], use_inner_text=True)
    expect(page.locator("tbody .c-labels")).to_have_text("owner=maria")
    page.locator("#columns summary").click()
    page.get_by_label("Labels").uncheck()
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url(f"**region={region}**")
    expect(titles).to_have_text(["Select", "Status", "Run", "Queued"], use_inner_text=True)
    answer = page.goto("/runs?columns=colour")
    assert answer is not None
    assert answer.status == 422
    expect(page.locator("main")).to_contain_text("known: kind, labels")


def test_a_model_is_added_changed_and_removed_by_its_form(page: Page, fleet: Any, name: str) -> None:
    model = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    page.goto("/models")
    page.get_by_label("Name here").fill(model)
    page.get_by_role("button", name="Save the model").click()
    expect(page.get_by_role("alert")).to_contain_text("Give the address of an endpoint")
    page.get_by_label("Address of its API").fill("https://api.example.com/v1")
    page.get_by_label("Price of prompts").fill("0.5")
    page.get_by_role("button", name="Save the model").click()
    row = page.locator(f"[id='m-{model}']")
    expect(row).to_contain_text("$0.5 in")
    row.get_by_role("link", name=f"Edit {model}").click()
    expect(page.get_by_role("heading", name=f"Change {model}")).to_be_visible()
    page.get_by_label("Requests at once").fill("8")
    page.get_by_role("button", name="Save the model").click()
    expect(row).to_contain_text("8 at once")
    row.get_by_text("Remove…").click()
    row.get_by_role("button", name=f"Remove {model}").click()
    expect(row).to_have_count(0)
