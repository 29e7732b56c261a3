"""Ideas in a real browser: what was found, what was not finished, and the hand of a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.test_ideas import Ideation, begin, idea

pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture
def ideation(fleet: Any, by_hand: Callable[[str, str], Any]) -> Ideation:
    return begin(fleet, by_hand)


def test_a_person_picks_another_idea_on_the_page_and_sees_what_was_not_finished(
    ideation: Ideation, page: Page
) -> None:
    half = {
        "number": 3,
        "why": "not final after 3 rounds: Abstract is empty",
        "idea": idea("half", Abstract=""),
    }
    none = {"number": 4, "why": "the model gave no answer (timed_out): too late", "idea": None}
    ideation.finish(idea("dropout"), idea("mixup", Title="<b>Mix</b>"), unfinished=(half, none))
    page.goto(f"/hypotheses/{ideation.hypothesis_id}")
    told = page.get_by_role("note")
    expect(told).to_contain_text("2 begun and not finished")
    expect(told).to_contain_text("On half: not final after 3 rounds: Abstract is empty")
    expect(told).to_contain_text("idea 4: the model gave no answer (timed_out): too late")
    expect(page.locator(".idea.chosen")).to_contain_text("On dropout")
    page.get_by_label("<b>Mix</b>").check()
    page.get_by_role("button", name="Launch a run").click()
    expect(page.get_by_role("status")).to_contain_text("This will be measured")
    expect(page.get_by_label("<b>Mix</b>")).to_be_checked()
    page.get_by_role("button", name="Launch a run, to measure this").click()
    page.wait_for_url("**/runs/0*")
    expect(page.locator("h1")).to_have_text("<b>Mix</b>")
    page.goto(f"/hypotheses/{ideation.hypothesis_id}")
    expect(page.locator(".idea.chosen")).to_contain_text("<b>Mix</b>")
    page.get_by_text("The whole idea").nth(1).click()
    for name in idea("mixup"):
        expect(page.locator(".idea.chosen").get_by_text(name, exact=True)).to_be_visible()


def test_ideation_that_waits_is_cancelled_on_the_page(ideation: Ideation, page: Page) -> None:
    page.goto(f"/hypotheses/{ideation.hypothesis_id}")
    expect(page.get_by_text("Waits for a pod that serves ideation")).to_be_visible()
    page.get_by_role("button", name="Cancel ideation").click()
    page.wait_for_url(f"**/hypotheses/{ideation.hypothesis_id}")
    expect(page.get_by_label("Ideation").get_by_text("CANCELED")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel ideation")).to_have_count(0)
    assert ideation.launch().json()["spec"]["idea"] == "Dropout improves accuracy on iris"
