"""One fleet and one browser (`browser`, `page`, `scripted`) for the tests of the web pages.

A browser takes a second of the processor to start, a tab half a second, and a page in a tab that was used
before a sixth of one. So the tests share them, and each has runs, schedules and names of its own. All pages
are of one fleet, so one process draws them all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    BrowserType,
    Dialog,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)
from pymongo import MongoClient

from events.runtime.clock import SystemClock, SystemIds
from podfleet.embedded.mongod import Mongod
from tests.integration.conftest import Fleet, fleet_on
from tests.servers import S3Server, own_database

BROWSER_FLAGS = (
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-quic", "--process-per-site", "--renderer-process-limit=1",
)  # fmt: skip
DESK: ViewportSize = {"width": 1280, "height": 720}
Tabs = Callable[[bool], Page]

PATIENCE_MS = 60_000  # a limit for a loaded machine, which nobody waits for; of a browser's own, half as long
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="package")
def fleet(mongod: Mongod, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One fleet for all tests here, each of which has things of its own."""
    with own_database(mongod) as url, fleet_on(url, s3, tmp_path_factory.mktemp("fleet")) as started:
        yield started


@pytest.fixture
def name() -> str:
    """A name that nothing else in the fleet has: a label, a region, a schedule."""
    return f"n{SystemIds().ulid().lower()}"


@pytest.fixture(scope="package")  # and no longer: its event loop would be in the way of other tests' own
def launcher() -> Iterator[BrowserType]:
    """What starts browsers."""
    with sync_playwright() as driver:
        yield driver.chromium


@pytest.fixture(scope="package")
def browser(launcher: BrowserType, chromium: str) -> Browser:
    """The system's Chromium, without a window: its shell, where that is installed."""
    found = shutil.which("chromium-headless-shell") or chromium
    return launcher.launch(executable_path=found, args=list(BROWSER_FLAGS))


@pytest.fixture
def reading(launcher: BrowserType, chromium: str, fleet: Fleet) -> Iterator[Page]:
    """A page of the fleet in a Chromium that has all that a person's has, such as a reader of PDF."""
    with launcher.launch(executable_path=chromium, args=list(BROWSER_FLAGS)) as whole:
        yield patient(whole.new_context(base_url=fleet.url)).new_page()


def patient(context: BrowserContext) -> BrowserContext:
    """Return a context whose pages take their time: to load, and to have what a test is going to click."""
    context.set_default_timeout(PATIENCE_MS)
    return context


@pytest.fixture(scope="package")
def tabs(browser: Browser, fleet: Fleet) -> Tabs:
    """The tab with scripts and the one without, each in a context of its own."""

    @cache
    def tab(has_scripts: bool) -> Page:
        context = browser.new_context(base_url=fleet.url, java_script_enabled=has_scripts, viewport=DESK)
        return patient(context).new_page()

    return tab


@contextmanager
def quiet(tab: Page, url: str, *excused: str) -> Iterator[Page]:
    """Lend a tab whose pages must not complain; forget what they have stored, and how they were looked at."""
    complaints: list[str] = []

    def refuse(dialog: Dialog) -> None:
        complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    heard = {
        "console": lambda message: complaints.append(message.text) if message.type == "error" else None,
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": refuse,
    }
    for event, hear in heard.items():
        tab.on(event, hear)  # type: ignore[call-overload]
    yield tab
    for other in tab.context.pages:
        if other != tab:
            other.close()  # as where a test failed before it did
    tab.goto("about:blank")
    for event, hear in heard.items():
        tab.remove_listener(event, hear)
    session = tab.context.new_cdp_session(tab)
    session.send("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "all"})
    session.detach()
    tab.set_viewport_size(DESK)
    tab.emulate_media(color_scheme="light")
    assert [each for each in complaints if not any(excuse in each for excuse in excused)] == []


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without JavaScript"])
def page(request: pytest.FixtureRequest, tabs: Tabs, fleet: Fleet) -> Iterator[Page]:
    """A page of the fleet that must not complain, once with scripts and once without."""
    # What a form refuses comes with its own status, which the browser calls an error.
    with quiet(tabs(request.param), fleet.url, "status of 409", "status of 422") as lent:
        yield lent


@pytest.fixture
def has_scripts(page: Page, tabs: Tabs) -> bool:
    """Whether scripts run in `page`; to look for what they made would be too soon at times."""
    return page == tabs(True)


@pytest.fixture
def scripted(tabs: Tabs, fleet: Fleet) -> Iterator[Page]:
    """A page of the fleet that must not complain, for what scripts alone do."""
    with quiet(tabs(True), fleet.url) as lent:
        yield lent


@pytest.fixture
def two_pods(fleet: Fleet, name: str) -> Iterator[list[str]]:
    """Two pods that report as little as a race needs, and are gone afterwards."""
    pods = [f"{name}-{each}" for each in "ab"]
    line = {"state": "idle", "kinds": ["probe"], "checks": [], "region": None}
    now = SystemClock().now()
    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        known = client.get_default_database().pods
        known.insert_many([{"_id": f"{each}/1", "pod": each, "reportedAt": now, **line} for each in pods])
        yield pods
        known.delete_many({"pod": {"$in": pods}})
