"""`make screenshots`: pictures of every page, in both themes and two widths, of a fleet filled for them.

Starts the embedded stack in a folder of its own, fills its store (`testing.seed`), runs one real probe so
that something is under way, and writes `<page>-<theme>-<width>.png` into the folder that is named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, sync_playwright

from events.runtime.clock import SystemClock, SystemIds
from podfleet.embedded.stack import Options, Stack, World

THEMES: Final = ("light", "dark")
WIDTHS: Final = (1280, 400)
HEIGHT: Final = 900
TALL_MAX: Final = 3_000
SETTLED_MS: Final = 800
SEED: Final = ("--runs", "400", "--events", "6000", "--long-log", "2000")
UNDER_WAY: Final = {"kind": "probe", "spec": {"seconds": 600}, "labels": {"owner": "maria"}}
NIGHTLY: Final = {
    "id": "nightly",
    "cron": "30 2 * * 1-5",
    "time_zone": "Europe/Berlin",
    "run": {"kind": "probe", "labels": {"owner": "maria"}},
}
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Write the pictures; return 1 where a page complains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("screenshots"), help="the folder for the pictures")
    parser.add_argument("--url", help="a control plane that is there already; nothing is started or filled")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.url:
        return shoot(arguments.url, arguments.out)
    with filled_stack() as url:
        return shoot(url, arguments.out)


@contextmanager
def filled_stack() -> Iterator[str]:
    """Run a fleet with a past and one run under way; yield its address."""
    with tempfile.TemporaryDirectory(prefix="podfleet-pictures-") as home:
        world = World(environment=os.environ, clock=SystemClock(), ids=SystemIds(), say=print)
        with Stack(Options(data=Path(home) / "data", port=0, workers=1, keyless=True), world) as stack:
            subprocess.run(
                [sys.executable, "-m", "testing.seed", "--url", stack.mongodb_url, *SEED], check=True
            )
            # it is newer than all that the past holds, so it stands first on every list
            httpx.post(f"{stack.url}/api/runs", json=UNDER_WAY, timeout=30).raise_for_status()
            httpx.post(f"{stack.url}/api/schedules", json=NIGHTLY, timeout=30).raise_for_status()
            yield stack.url


def shoot(url: str, out: Path) -> int:
    """Take a picture of every page in every form."""
    with sync_playwright() as driver:
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        complaints = [
            complaint
            for theme in THEMES
            for width in WIDTHS
            for complaint in _pictures(browser, url, out, theme, width)
        ]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def _pictures(browser: Browser, url: str, out: Path, theme: Any, width: int) -> Iterator[str]:
    context = browser.new_context(
        base_url=url, color_scheme=theme, viewport={"width": width, "height": HEIGHT}
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name, path in pages(url).items():
        page.goto(path)
        page.wait_for_timeout(SETTLED_MS)
        tall = min(TALL_MAX, page.evaluate("() => document.documentElement.scrollHeight"))
        page.set_viewport_size({"width": width, "height": max(HEIGHT, tall)})
        page.screenshot(path=out / f"{name}-{theme}-{width}.png")
        page.set_viewport_size({"width": width, "height": HEIGHT})
        yield from (f"{name}, {theme}, {width}: {each}" for each in errors)
        errors.clear()
    context.close()


def pages(url: str) -> dict[str, str]:
    """Return the address of each kind of page, by a name for its picture."""
    with httpx.Client(base_url=url, timeout=30) as client:

        def first(path: str, **params: str) -> str | None:
            items = client.get(path, params=params).json()["items"]
            return items[0]["id"] if items else None

        experiment = first("/api/runs", kind="experiment", status="COMPLETED")
        failed = first("/api/runs", status="FAILED")
        hypothesis, pod = first("/api/hypotheses"), first("/api/pods")
        found = {
            "fleet": "/",
            "runs": "/runs",
            "run": f"/runs/{experiment}",
            "run-failed": f"/runs/{failed}",
            "log": f"/runs/{experiment}/log",
            **{
                each: f"/runs/{experiment}/{each}"
                for each in ("metrics", "validation", "files", "attempts", "spec")
            },
            "tree": f"/runs/{experiment}/kind/tree",
            "paper": f"/runs/{experiment}/kind/paper",
            "hypotheses": "/hypotheses",
            "hypothesis": f"/hypotheses/{hypothesis}",
            "pods": "/pods",
            "pod": f"/pods/{pod}",
            "reviews": "/reviews",
            "schedules": "/schedules",
            "models": "/models",
            "secrets": "/secrets",
            "webhooks": "/webhooks",
            "numbers": "/numbers",
        }
    return found


if __name__ == "__main__":
    sys.exit(main())
