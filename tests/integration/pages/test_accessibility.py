"""Every page as a screen reader hears it: its tree of names and roles, in a real Chromium."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.xdist_group("pages")

# What each page has to say, in this order; what else stands between is its own matter.
TREES = {
    "/": """
        - banner:
          - navigation "Main":
            - link "podfleet"
            - link "Runs"
        - main:
          - heading "Fleet" [level=1]
          - heading "Needs a person" [level=2]
          - heading "Running" [level=2]
          - heading "Queue" [level=2]
          - table:
            - rowgroup:
              - row "Class Waiting Oldest wait Why it waits"
          - heading "Pods" [level=2]
          - heading "Today" [level=2]
          - heading "Latest runs" [level=2]
          - table
    """,
    "/runs/{run}/results": """
        - main:
          - heading [level=1]
          - navigation "Run"
          - navigation "Result sets"
          - searchbox "Text"
          - textbox "Filter"
          - button "Filter"
          - table:
            - rowgroup:
              - row /Key Status/
    """,
    "/runs": """
        - main:
          - heading "Runs" [level=1]
          - combobox "Status"
          - combobox "Kind"
          - textbox "Pod"
          - textbox "Submitted by"
          - textbox "Label"
          - searchbox "Text"
          - button "Filter"
          - table:
            - rowgroup
            - rowgroup:
              - row:
                - cell:
                  - checkbox /Select/
    """,
    "/runs/new?kind=experiment": """
        - main:
          - heading "New run" [level=1]
          - list "Kinds":
            - listitem:
              - link "experiment"
          - heading "experiment" [level=2]
          - textbox "idea (required)"
          - textbox "seed"
          - combobox "preset"
          - group "nodes":
            - textbox "Stage_1"
          - group: Limits of an attempt
          - button "Submit"
          - button "Check"
    """,
    "/runs/{run}": """
        - main:
          - heading "Dropout improves accuracy on iris" [level=1]
          - navigation "Run":
            - link "Overview"
            - link "Metrics"
            - link "Paper"
            - link "Tree"
            - link "Validation"
            - link "Log"
            - link "Files"
            - link "Attempts"
            - link "Spec"
          - region "Now":
            - button "Cancel"
          - group:
            - heading "Notes to the researcher" [level=2]
          - region "Numbers":
            - term: Cost
    """,
    "/runs/{run}/spec": """
        - main:
          - heading "Specification" [level=2]
          - button "Copy"
          - heading "Submit one like it" [level=2]
          - heading "With podfleet" [level=3]
          - button "Copy"
          - heading "With curl" [level=3]
          - button "Copy"
    """,
    "/runs/{run}/log": """
        - main:
          - heading "Events" [level=2]
          - combobox "Type"
          - combobox "Level"
          - searchbox "Text"
          - table
    """,
    "/races": """
        - main:
          - heading "Races" [level=1]
          - textbox "Pods"
          - combobox "Kind"
          - combobox "Status"
          - button "Filter"
          - table:
            - rowgroup:
              - row "Race State Round Machines Best so far Created"
          - heading "New race" [level=2]
          - list "Kinds"
    """,
    "/races/new?kind=probe": """
        - main:
          - heading "New race" [level=1]
          - list "Kinds"
          - 'group "Machines: at least two"'
          - group "The race":
            - textbox "Name"
            - combobox "Decided by"
          - button "Start"
          - button "Check"
    """,
    "/boards": """
        - main:
          - heading "Boards" [level=1]
          - table:
            - rowgroup:
              - row "Name What Saved by Saved"
          - heading "New board" [level=2]
          - form "Board":
            - combobox "Kind"
            - combobox "Rows"
            - combobox "Columns"
            - combobox "Number"
            - combobox "Show"
            - combobox "Keep"
            - button "Show"
    """,
    "/boards/view?kind=probe&rows=spec.seconds&columns=label.team&cell=value": """
        - main:
          - heading "Board" [level=1]
          - form "Board"
          - paragraph:
            - link "CSV"
          - table:
            - rowgroup:
              - row /spec.seconds by label.team/
          - textbox "Name"
          - button "Save this board"
    """,
    "/hypotheses": """
        - main:
          - heading "Hypotheses" [level=1]
    """,
    "/tasks": """
        - main:
          - heading "Tasks" [level=1]
          - table
    """,
    "/tasks/new": """
        - main:
          - heading "New task" [level=1]
          - textbox "Name"
          - group "Model":
            - combobox /Model id/
          - group "Engine":
            - combobox /Engine/
          - group "Traffic":
            - textbox /Scenarios/
          - group "Optimization":
            - combobox /Strategy/
          - button "Create"
          - button "Create and start"
          - button "Check"
    """,
    "/pods": """
        - main:
          - heading "Pods" [level=1]
    """,
    "/reviews": """
        - main:
          - heading "Reviews" [level=1]
    """,
    "/schedules": """
        - main:
          - heading "Schedules" [level=1]
          - textbox /Name/
          - textbox /When/
          - button "Preview"
    """,
    "/models": """
        - main:
          - heading "Models" [level=1]
          - table
          - heading "Sync from a listing" [level=2]
          - textbox /Address/
          - button "Sync"
    """,
    "/projects": """
        - main:
          - heading "Projects" [level=1]
          - table
          - heading "Set a project" [level=2]
          - textbox /Name/
          - textbox /Weight/
          - button "Set"
    """,
    "/secrets": """
        - main:
          - heading "Secrets" [level=1]
          - table
          - heading "Set a secret" [level=2]
          - textbox /Name/
          - textbox /Value/
          - button "Set"
    """,
    "/webhooks": """
        - main:
          - heading "Webhooks" [level=1]
          - table
          - heading "Add a webhook" [level=2]
          - textbox /URL/
          - combobox /Format/
          - textbox /Types/
          - button "Add"
    """,
    "/numbers": """
        - main:
          - heading "Numbers" [level=1]
          - heading "Day by day" [level=2]
          - table
    """,
}

NAMELESS = """() => {
  const name = (each) => each.ariaLabel || [...(each.labels || [])].map((label) => label.textContent).join("")
    || each.textContent || each.title || each.alt || "";
  const kinds = "a[href], button, input:not([type=hidden]), select, textarea";
  const wanted = [...document.querySelectorAll(kinds)];
  const mute = wanted.filter((each) => !name(each).trim()).map((each) => each.outerHTML.slice(0, 120));
  const drawn = "img:not([alt]), svg:not([aria-label], [aria-hidden], :has(title))";
  const pictures = [...document.querySelectorAll(drawn)];
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  const twice = ids.filter((each, index) => ids.indexOf(each) !== index);
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((each) => Number(each.tagName[1]));
  const skipped = levels.filter((level, index) => level > (levels[index - 1] ?? 0) + 1);
  return { mute, pictures: pictures.map((each) => each.outerHTML.slice(0, 120)), twice, skipped };
}"""


@pytest.mark.parametrize("path", TREES)
def test_a_page_can_be_heard(scripted: Page, fleet: Any, path: str) -> None:
    run = fleet.submit("experiment", spec={"idea": "Dropout improves accuracy on iris"})
    scripted.goto(path.format(run=run))
    expect(scripted.locator("body")).to_match_aria_snapshot(TREES[path])
    assert scripted.evaluate(NAMELESS) == {"mute": [], "pictures": [], "twice": [], "skipped": []}
    assert scripted.locator("html").get_attribute("lang") == "en"


def test_a_filter_is_taken_back_by_back_and_kept_by_reload(scripted: Page, fleet: Any, name: str) -> None:
    kept = fleet.submit("probe", labels={"batch": name})
    fleet.submit("experiment", spec={"idea": "Dropout improves accuracy on iris"}, labels={"batch": name})
    scripted.goto(f"/runs?label=batch={name}")
    scripted.get_by_role("combobox", name="Kind").select_option("probe")
    scripted.get_by_role("button", name="Filter").click()
    scripted.wait_for_url("**kind=probe**")
    assert scripted.locator("tbody tr").evaluate_all("(rows) => rows.map((each) => each.id)") == [f"r-{kept}"]
    scripted.reload()
    expect(scripted.get_by_role("combobox", name="Kind")).to_have_value("probe")
    scripted.go_back()
    expect(scripted.locator("tbody tr")).to_have_count(2)
    scripted.go_forward()
    expect(scripted.locator("tbody tr")).to_have_count(1)
