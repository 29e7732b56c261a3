"""`python -m scripts.page_times`: how long the control plane takes for its pages, on whatever store it has.

Asks CONTROL_PLANE_URL for each page `--times` times, one after the other, after one answer that does not
count; prints the median and the longest in milliseconds and the bytes. The whole answer is waited for.
Runs to look at are found by asking; `--long RUN` names one with a long log.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from events.runtime.clock import Clock, SystemClock

DEFAULT_URL: Final = "http://127.0.0.1:8700"
DEEP_PAGES: Final = 20
TIMEOUT_S: Final = 60.0
EXIT_UNREACHABLE: Final = 3


@dataclass(frozen=True, slots=True)
class Took:
    """How long a page took, and how large it is."""

    name: str
    milliseconds: tuple[float, ...]
    size: int

    def line(self) -> str:
        middle, longest = median(self.milliseconds), max(self.milliseconds)
        return f"| {self.name} | {middle:.1f} | {longest:.1f} | {self.size:,} |"


@dataclass(frozen=True, slots=True)
class Pages:
    """Asks for pages and looks at the clock."""

    client: httpx.Client
    clock: Clock
    times: int

    def take(self, name: str, path: str) -> Took:
        """Ask for a page as often as is wanted."""
        size = len(self._get(path).content)
        took = []
        for _ in range(self.times):
            begun_s = self.clock.monotonic_s()
            self._get(path)
            took.append((self.clock.monotonic_s() - begun_s) * 1000)
        return Took(name, tuple(took), size)

    def all(self, long: str | None) -> Iterator[Took]:
        """Take every page that is looked at on a large store."""
        newest = self._json("/api/runs?limit=1")["items"]
        yield self.take("/", "/")
        yield self.take("/runs", "/runs")
        filters = self.filters()
        for name, value in filters.items():
            yield self.take(f"/runs?{name}", f"/runs?{urlencode({name: value})}")
        for one, other in combinations(filters, 2):
            pair = {one: filters[one], other: filters[other]}
            yield self.take(f"/runs?{one}&{other}", f"/runs?{urlencode(pair)}")
        yield self.take(f"/runs, page {DEEP_PAGES}", self.deep({}))
        yield self.take(f"/runs?status, page {DEEP_PAGES}", self.deep({"status": filters.get("status", "")}))
        yield self.take("/api/runs?q=one word", f"/api/runs?{urlencode({'q': filters.get('q', 'probe')})}")
        yield self.take("/api/runs?q=no such word", "/api/runs?q=nothinghasthisword")
        yield self.take("/api/queue", "/api/queue")
        yield self.take("/metrics", "/metrics")
        yield self.take("/numbers", "/numbers")
        for run in newest:
            yield self.take("/runs/{id}", f"/runs/{run['id']}")
        queued = self._json("/api/runs?status=QUEUED&limit=1")["items"]
        for run in queued:
            yield self.take("/api/runs/{id}/explain", f"/api/runs/{run['id']}/explain")
        if long is not None:
            yield self.take("/runs/{long}", f"/runs/{long}")
            yield self.take("/runs/{long}/log", f"/runs/{long}/log")
            yield self.take("/runs/{long}/log?level=error", f"/runs/{long}/log?level=error")
            yield self.take("/runs/{long}/log?text=no such word", f"/runs/{long}/log?text=nothinghasthis")

    def filters(self) -> dict[str, str]:
        """Return a value for each filter, taken from a finished run that has all of them."""
        found = self._json("/api/runs?status=COMPLETED&kind=experiment&limit=1")["items"]
        found = found or self._json("/api/runs?limit=1")["items"]
        if not found:
            return {}
        run: Mapping[str, Any] = found[0]
        label = next((f"{name}={value}" for name, value in run["labels"].items() if "." not in name), None)
        given = {
            "status": "FAILED",
            "kind": run["kind"],
            "label": label,
            "pod": run["claimedBy"],
            "hypothesis": run["hypothesisId"],
            "q": next((word.lower() for word in run["title"].split() if word.isalpha()), None),
        }
        return {name: value for name, value in given.items() if value}

    def deep(self, chosen: Mapping[str, str]) -> str:
        """Return the address of a page far down a list."""
        after: dict[str, str] = {}
        for _ in range(DEEP_PAGES - 1):
            following = self._json(f"/api/runs?{urlencode({**chosen, **after, 'limit': '200'})}")["next"]
            if following is None:
                break
            after = {"after": following}
        return f"/runs?{urlencode({**chosen, **after})}"

    def _json(self, path: str) -> Any:
        return self._get(path).json()

    def _get(self, path: str) -> httpx.Response:
        return self.client.get(path).raise_for_status()


def main() -> int:
    """Run the command line; return 0 when every page answered."""
    parser = argparse.ArgumentParser(prog="scripts.page_times", description=__doc__)
    parser.add_argument("--url", default=os.environ.get("CONTROL_PLANE_URL", DEFAULT_URL))
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--long", help="the id of a run with a long log")
    arguments = parser.parse_args()
    key = os.environ.get("PODFLEET_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    print("| page | median ms | longest ms | bytes |\n|---|---|---|---|")
    try:
        with httpx.Client(base_url=arguments.url, headers=headers, timeout=TIMEOUT_S) as client:
            for took in Pages(client, SystemClock(), max(1, arguments.times)).all(arguments.long):
                print(took.line(), flush=True)
    except httpx.HTTPError as error:
        print(f"{arguments.url} does not answer as it should: {error}", file=sys.stderr)
        return EXIT_UNREACHABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
