"""The pages in a real Chromium, with JavaScript and without."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any
from zlib import compress, crc32

import pytest
from playwright.sync_api import Browser, Page, expect

from events.catalog import RunStarted, StageStarted
from events.kinds.experiment import NodeCreated
from tests.integration.files import keep

pytestmark = pytest.mark.xdist_group("pages")

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe\x1b[31m" + "W" * 300


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a part of a PNG file."""
    return pack(">I", len(content)) + kind + content + pack(">I", crc32(kind + content))


PNG = (  # 200 x 100 pixels, all black
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", pack(">IIBBBBB", 200, 100, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", compress(bytes(100 * (1 + 200))))
    + chunk(b"IEND", b"")
)
PATHS = (
    "/",
    "/runs",
    "/runs/{run}",
    "/runs/{run}/metrics",
    "/runs/{run}/kind/tree",
    "/runs/{run}/log",
    "/runs/{run}/files",
    "/runs/{run}/attempts",
    "/runs/{run}/spec",
    "/hypotheses",
    "/hypotheses/{hypothesis}",
    "/reviews",
    "/pods",
)


@pytest.fixture
def made(fleet: Any) -> dict[str, str]:
    """A hypothesis with hostile text, its run, and what a worker would have said."""
    body = {"title": HOSTILE[:200].replace("\x1b", ""), "idea": "Dropout improves accuracy on iris"}
    answer = fleet.client.post("/api/hypotheses", json=body).json()
    return {"hypothesis": answer["id"], "run": answer["run_id"]}


def test_every_page_loads_without_a_complaint_and_shows_hostile_text_as_text(
    page: Page, made: dict[str, str]
) -> None:
    for path in PATHS:
        answer = page.goto(path.format(**made))
        assert answer is not None
        assert answer.status == 200, path
        expect(page.locator("h1")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
    page.goto(f"/hypotheses/{made['hypothesis']}")
    expect(page.locator("h1")).to_contain_text("onerror=alert(1)")


def test_an_unknown_page_says_so_to_people(browser: Browser, fleet: Any) -> None:
    page = browser.new_page(base_url=fleet.url)
    answer = page.goto("/runs/nobody")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("h1")).to_contain_text("Not found")
    page.close()


def test_filters_stand_in_the_address_and_survive_a_reload(page: Page, fleet: Any, name: str) -> None:
    fleet.submit("probe", labels={"batch": name})
    fleet.submit("experiment", spec={"idea": "Dropout improves accuracy on iris"}, labels={"batch": name})
    page.goto(f"/runs?label=batch={name}")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("combobox", name="Kind").select_option("probe")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**kind=probe**")
    page.reload()
    expect(page.get_by_role("combobox", name="Kind")).to_have_value("probe")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_run_is_canceled_by_its_button(page: Page, fleet: Any, made: dict[str, str]) -> None:
    page.goto(f"/runs/{made['run']}")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url(f"**/runs/{made['run']}")
    assert fleet.run(made["run"])["status"] == "CANCELED"
    expect(page.get_by_role("button", name="Run again")).to_be_visible()


def test_a_hypothesis_is_proposed_by_the_form(page: Page, fleet: Any) -> None:
    page.goto("/hypotheses")
    page.get_by_label("Title").fill("Mine")
    page.get_by_label("Idea", exact=True).fill("Dropout improves accuracy on iris")
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_role("status")).to_contain_text(
        "This will be measured: With dropout, the accuracy on iris becomes higher."
    )
    page.get_by_role("button", name="Propose, to measure this").click()
    page.wait_for_url("**/hypotheses/0*")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_change_arrives_without_a_reload(scripted: Page, fleet: Any, made: dict[str, str]) -> None:
    scripted.goto(f"/runs/{made['run']}")
    expect(scripted.locator(".facts")).to_contain_text("QUEUED")
    fleet.client.post(f"/api/runs/{made['run']}/cancel")
    scripted.locator(".facts", has_text="CANCELED").wait_for()


def test_pictures_of_a_run_stand_with_what_they_show(
    scripted: Page, fleet: Any, by_hand: Callable[[str, str], Any], name: str
) -> None:
    spec = {"idea": "Dropout improves accuracy on iris"}
    run_id = fleet.submit("experiment", spec=spec, requires={"region": name})
    hand = by_hand("runs", f"experiment/cpu/{name}")
    hand.say(
        RunStarted(), StageStarted(stage="Stage_1"), NodeCreated(stage="Stage_1", node="Stage_1/1", plan="x")
    )
    for path in ("plots/comparison.png", "plots/stages/Stage_1.png", "plots/nodes/Stage_1-1.png"):
        keep(hand, path, PNG)
    scripted.goto(f"/runs/{run_id}/kind/paper")
    expect(scripted.locator("section:has(> h2:text-is('Figures')) img")).to_have_count(1)
    scripted.goto(f"/runs/{run_id}/kind/tree")
    for details in scripted.locator("details").all():
        details.evaluate("(each) => { each.open = true }")
    for picture in scripted.locator(".gallery img").all():
        picture.scroll_into_view_if_needed()
        scripted.wait_for_function(
            "(image) => image.complete && image.naturalWidth > 100", arg=picture.element_handle()
        )
    expect(scripted.locator(".gallery img")).to_have_count(2)
    assert scripted.locator("table.nodes .gallery img").get_attribute("alt") == "plots/nodes/Stage_1-1.png"
