"""What the page of a run shows of its stages, its tree and its files, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pymongo import MongoClient

from events.catalog import RunStarted, StageProgress, StageStarted
from events.delivery.control_plane_client import bearer
from events.kinds.experiment import NodeCompleted, NodeCreated, NodeSelectedBest
from events.queue.settlement import End
from tests.integration.conftest import Fleet
from tests.integration.files import keep

pytestmark = pytest.mark.xdist_group("pages")

SCRIPT = b"<!doctype html><script>document.title = 'ran'; parent.document.title = 'ran'</script>"
CALLING = b"<!doctype html><script>setInterval(() => parent.postMessage('ran', '*'), 10)</script>"
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    b"trailer<</Root 1 0 R>>\n"
)


@pytest.fixture
def hand(fleet: Any, by_hand: Callable[[str, str], Any], name: str) -> Any:
    """A worker that is in the middle of an experiment."""
    fleet.submit("experiment", spec={"idea": "Dropout improves accuracy on iris"}, requires={"region": name})
    worker = by_hand("runs", f"experiment/cpu/{name}")
    worker.say(
        RunStarted(),
        StageStarted(stage="Stage_1"),
        NodeCreated(stage="Stage_1", node="Stage_1/1", plan="the first"),
        NodeCreated(stage="Stage_1", node="Stage_1/2", parent="Stage_1/1", plan="<b>the second</b>"),
        NodeCompleted(stage="Stage_1", node="Stage_1/1", metric=0.9, seconds=1.0, buggy=False),
        NodeCompleted(stage="Stage_1", node="Stage_1/2", metric=0.8, seconds=1.0, buggy=False),
        NodeSelectedBest(stage="Stage_1", node="Stage_1/1", metric=0.9, reason="the higher one"),
        StageProgress(stage="Stage_1", progress=0.0, activity="training"),
    )
    return worker


def test_stages_and_nodes_are_pictures_and_a_node_leads_to_its_row(
    page: Page, has_scripts: bool, hand: Any
) -> None:
    page.goto(f"/runs/{hand.claim.run_id}#n-Stage_1/2")
    if has_scripts:  # a link from before there were tabs
        page.wait_for_url("**/kind/tree#n-Stage_1/2")
        page.goto(f"/runs/{hand.claim.run_id}")
    assert (
        "no step of this stage is finished yet"
        in page.locator("section[aria-label=Now]").inner_text().lower()
    )
    expect(page.locator("svg .bar.b-RUNNING")).to_have_count(1)
    page.get_by_role("navigation", name="Run").get_by_role("link", name="Tree").click()
    expect(page.locator("svg .node")).to_have_count(2)
    assert (
        page.locator("svg .node.best title").text_content() == "Stage_1/1, best, good, metric 0.9: the first"
    )
    page.locator("svg.tree a circle").nth(1).click()
    page.locator("tr:target").wait_for()
    expect(page).to_have_url(re.compile("#n-Stage_1/2$"))
    expect(page.locator("tr:target")).to_contain_text("<b>the second</b>")


def test_files_are_shown_in_place_and_what_could_run_does_not(page: Page, hand: Any) -> None:
    keep(hand, "data.csv", b'name,score\n"<i>x</i>",0.5\n', "text/csv")
    keep(hand, "page.html", SCRIPT, "text/html")
    keep(
        hand,
        "drawing.svg",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "image/svg+xml",
    )
    keep(hand, "paper.pdf", PDF, "application/pdf")
    run_path = f"/runs/{hand.claim.run_id}/files"
    page.goto(run_path)
    page.get_by_role("link", name="data.csv").click()
    expect(page.locator(".file a[aria-current]")).to_have_text("data.csv")
    expect(page.locator("table.cells th")).to_have_text(["name", "score"], use_inner_text=True)
    expect(page.locator("table.cells td")).to_have_text(["<i>x</i>", "0.5"], use_inner_text=True)
    page.goto(run_path)
    page.get_by_role("link", name="page.html").click()
    expect(page.locator("pre")).to_contain_text("document.title = 'ran'")
    page.get_by_role("link", name="Full page").click()
    expect(page).to_have_title("page.html · podfleet")
    expect(page.locator("pre")).to_contain_text("document.title = 'ran'")
    page.goto(run_path)
    page.get_by_role("link", name="drawing.svg").click()
    expect(page.get_by_text("have no preview")).to_be_visible()
    page.goto(f"/runs/{hand.claim.run_id}/kind/paper")
    assert re.fullmatch(r"/api/artifacts/.+", page.locator("iframe.paper").get_attribute("src") or "")
    answers = [hand.client.get(f"/api/runs/{hand.claim.run_id}/artifacts").json()["items"]]
    for each in answers[0]:
        sent = hand.client.get(f"/api/artifacts/{each['id']}", follow_redirects=True)
        is_safe = each["contentType"] == "application/pdf"
        kind = "inline" if is_safe else "attachment"
        assert sent.headers["content-disposition"].startswith(kind), each["name"]
        shown_as = "application/pdf" if is_safe else "application/octet-stream"
        assert sent.headers["content-type"] == shown_as, each["name"]


def test_a_page_in_the_place_of_a_paper_does_not_run(reading: Page, hand: Any, until: Any) -> None:
    keep(hand, "paper.pdf", CALLING, "application/pdf", put_as="text/html")
    keep(hand, "sound.pdf", PDF, "application/pdf", put_as="application/pdf")
    for each in hand.client.get(f"/api/runs/{hand.claim.run_id}/artifacts").json()["items"]:
        reading.goto(f"/artifacts/{each['id']}")
        reading.evaluate("() => { window.heard = []; onmessage = (said) => { heard.push(said.data); }; }")
        # the browser's own reader of PDF takes either, and runs nothing of it
        until(lambda: "ran" in reading.evaluate("heard") or is_read_as_pdf(reading))
        assert reading.evaluate("heard") == []


def is_read_as_pdf(page: Page) -> bool:
    return any(each.url.startswith("chrome-extension:") for each in page.frames)


def test_a_stored_key_that_leads_elsewhere_is_told_in_words(
    scripted: Page, hand: Any, fleet: Fleet, by_hand: Any, name: str
) -> None:
    keep(hand, "secret.txt", b"old", "text/plain")
    keep(hand, "checkpoints/one/manifest.json", b"{}", "application/json")
    run_id = hand.claim.run_id
    with MongoClient[dict[str, Any]](fleet.database_url) as store:  # as versions before have stored it
        moved = {"$set": {"key": f"runs/{run_id}/a1/../../other/a1/secret.txt"}}
        store.get_default_database().artifacts.update_many({"runId": run_id}, moved)
    for each in hand.client.get(f"/api/runs/{run_id}/artifacts").json()["items"]:
        for path in (f"/api/artifacts/{each['id']}", f"/artifacts/{each['id']}"):
            answer = hand.client.get(path, follow_redirects=False)
            assert answer.status_code == 422, path
            assert "a key that no storage holds" in answer.text, path
    scripted.goto(f"/runs/{run_id}/files")
    expect(scripted.get_by_role("link", name="secret.txt")).to_be_visible()
    hand.settle(End("preempted"))
    resumed = by_hand("runs", f"experiment/cpu/{name}").claim
    path = f"/api/runs/{run_id}/artifacts/checkpoints"
    answer = hand.client.post(path, headers=bearer(resumed.run_token))
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "checkpoints": [],
            "replicationAsked": False,
            "spentUsd": 0.0,
            "cheapestUsd": None,
            "told": {"verdicts": {}, "isWhole": True},
        },
    )


def test_whoever_reads_a_paper_keeps_the_place_when_the_page_changes(scripted: Page, hand: Any) -> None:
    keep(hand, "paper.pdf", PDF, "application/pdf")
    scripted.goto(f"/runs/{hand.claim.run_id}/kind/paper")
    paper = scripted.locator("iframe.paper")
    paper.evaluate("frame => { frame.isTheSame = true; frame.closest('details').open = true; }")
    keep(hand, "zoology.pdf", PDF, "application/pdf")
    scripted.get_by_role("link", name="zoology.pdf").wait_for()
    assert paper.evaluate("frame => frame.isTheSame && frame.closest('details').open")
