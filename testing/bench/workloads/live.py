"""Live pages: how long a change takes from MongoDB to what a browser shows, and what many open pages cost."""

from __future__ import annotations

import multiprocessing
import random
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any, Final

import httpx
import psutil
from playwright.sync_api import Browser, Page, sync_playwright
from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection

from events.runtime.errors import ConfigError
from podfleet.embedded.stack import Stack
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from testing.bench.load import readers
from testing.bench.machine import CLOCK, pause
from testing.bench.servers import fleet

Runs = Collection[dict[str, Any]]

CHANGES: Final = 20
APART_S: Final = 1.2  # and up to as much again, so that no rhythm of ours meets one of theirs
SOON_MS: Final = 20_000
READERS: Final = 500
RUNS: Final = 50
CHANGES_A_SECOND: Final = 20.0
SECONDS: Final = 15.0
SETTLE_S: Final = 2.0
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS: Final = ("--no-sandbox", "--disable-background-networking", "--no-first-run")
WORDS: Final = map("change-{}.".format, count(1))
WATCH: Final = """() => {
  window.seen = {};
  new MutationObserver(() => {
    for (const [word] of document.body.textContent.matchAll(/change-\\d+[.]/g))
      window.seen[word] ??= performance.timeOrigin + performance.now();
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
SHOWN: Final = (
    Metric("median", "ms", more_is_better=False, goals=(Goal(15),)),
    Metric("p99", "ms", more_is_better=False),
)
COST: Final = (
    Metric("server", "cores", more_is_better=False, goals=(Goal(1),)),
    Metric("heard after, median", "ms", more_is_better=False),
    Metric("heard after, p99", "ms", more_is_better=False),
    Metric("sent", "MiB/s", more_is_better=False),
)


def run(setting: Setting) -> Iterator[Row]:
    """Change runs in the store while a browser looks, then while many pages are open."""
    with (
        fleet(setting.scratch / "fleet") as stack,
        MongoClient[dict[str, Any]](stack.mongodb_url, tz_aware=True) as client,
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as http,
    ):
        ids = [http.post("/api/runs", json={"kind": "probe"}).json()["id"] for _ in range(RUNS)]
        runs = client.get_default_database().get_collection(
            "runs", write_concern=WriteConcern("majority", j=True)
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=_chromium(), args=list(BROWSER_FLAGS))
            for name, address in (("a row of /runs", "/runs"), ("a run's page", f"/runs/{ids[-1]}")):
                page = _opened(browser, stack, address)
                ways = {OURS: partial(_shown, page, runs, ids[-1], 5 if setting.small else CHANGES)}
                yield from contest(f"from MongoDB to {name}", SHOWN, ways, setting)
                page.close()
            browser.close()
        pages = 20 if setting.small else READERS
        ways = {
            name: partial(_cost, stack, runs, ids, way, pages)
            for name, way in ((OURS, "listen"), ("polling", "poll"))
        }
        yield from contest(f"{pages} open pages, {CHANGES_A_SECOND:g} changes a second", COST, ways, setting)


def _chromium() -> str:
    """Return the system's Chromium. Raises `ConfigError`."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise ConfigError(["this bench needs Chromium: install it (`apt-get install chromium`)"])
    return found


def _opened(browser: Browser, stack: Stack, address: str) -> Page:
    page = browser.new_page(base_url=stack.url)
    page.goto(address)
    page.locator("html[data-live=open]").wait_for(timeout=SOON_MS)
    page.evaluate(WATCH)
    return page


def _shown(page: Page, runs: Runs, run_id: str, changes: int) -> Figures:
    """Change a run's title, one change at a time; the clock of the page is the clock of this machine."""
    draw = random.Random(1)
    late_ms = []
    for _ in range(changes):
        pause(APART_S * (1 + draw.random()))
        word = next(WORDS)
        written_ms = 1000 * CLOCK.now().timestamp()
        runs.update_one({"_id": run_id}, {"$set": {"title": word}})
        seen = page.wait_for_function("word => window.seen[word]", arg=word, timeout=SOON_MS)
        late_ms.append(seen.json_value() - written_ms)
    return {"median": percentile(late_ms, 0.5), "p99": percentile(late_ms, 0.99)}


def _cost(stack: Stack, runs: Runs, run_ids: list[str], way: str, pages: int) -> Figures:
    """Change runs at a steady pace while so many pages look, and measure the control plane meanwhile."""
    server = psutil.Process(stack.pids()["control-plane"])
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=readers.read, args=(stack.port, way, pages, there))
    process.start()
    here.recv()
    pause(SETTLE_S)
    spent_s, begun_s = _spent_s(server), CLOCK.monotonic_s()
    written_s: dict[str, float] = {}
    for number in range(int(CHANGES_A_SECOND * SECONDS)):
        pause(max(0.0, begun_s + number / CHANGES_A_SECOND - CLOCK.monotonic_s()))
        word = next(WORDS)
        written_s[word] = CLOCK.monotonic_s()
        runs.update_one({"_id": run_ids[number % len(run_ids)]}, {"$set": {"title": word}})
    took_s = CLOCK.monotonic_s() - begun_s
    spent_s = _spent_s(server) - spent_s
    pause(SETTLE_S)
    here.send("end")
    heard_s, bytes_read = here.recv()
    process.join()
    late_ms = [1000 * (at_s - written_s[word]) for word in written_s for at_s in heard_s.get(word, ())]
    return {
        "server": spent_s / took_s,
        "heard after, median": percentile(late_ms, 0.5),
        "heard after, p99": percentile(late_ms, 0.99),
        "sent": bytes_read / took_s / 2**20,
    }


def _spent_s(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


BENCH: Final = Bench("live", "open pages: how soon they show a change, and what they cost", run)
