"""Rows of results: pages of a run that has as many as it may, and their ingest beside that of metrics."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from pymongo import MongoClient

from control_plane.model.projection import RESULTS, result_write
from events.catalog import ResultRecorded, RunStarted, StageMetric
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.kinds.results import ROWS_MAX, Value
from podfleet.embedded.mongod import Mongod
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from testing.bench.load.senders import CLOCK, Say, claimed, senders
from testing.bench.servers import control_planes, mongod
from testing.bench.workloads.ingest import BARE_CONNECTIONS, LARGE, fresh

SECONDS: Final = 2.5
EVENTS_PER_S_MAX: Final = 12_000  # more are not made ready
TIMES: Final = 21
BATCH: Final = 1_000
DEEP_PAGES: Final = 25
METRICS: Final = "metrics"
READ: Final = (
    Metric("median", "ms", more_is_better=False),
    Metric("slowest question's p95", "ms", more_is_better=False, goals=(Goal(50.0),)),
)
# The set of probes has six columns that an index sorts; each is asked for in both directions.
COLUMNS: Final = ("key", "number", "value", "seconds", "share", "group", "is_even")
FILTERED: Final[Sequence[dict[str, str]]] = (
    {"filter": "number>=50000"},
    {"filter": "share>0.5", "sort": "share"},
    {"filter": "group=group 3", "sort": "-value"},
    {"filter": "group=nobody", "sort": "-value"},
    {"filter": "is_even=true", "sort": "value"},
    {"q": "row-099"},
    {"q": "nobody", "sort": "-number"},
)


def run(setting: Setting) -> Iterator[Row]:
    """Ask for pages of a full run, then send rows and metrics in turn."""
    with mongod(setting.scratch / "results") as server:
        count = 2_000 if setting.small else ROWS_MAX
        with fresh(server) as url, control_planes(url, 1) as (address,):
            ((run_id, _),) = claimed(address, url, 1)
            _fill(url, run_id, count)
            connection = HTTPConnection(address.removeprefix("http://"))
            ways = {OURS: partial(_asked, setting, connection, f"/api/runs/{run_id}/results")}
            yield from contest(f"a run with {count:,} rows: pages", READ, ways, setting)
            connection.close()
        seconds = 0.3 if setting.small else SECONDS
        sent = {OURS: partial(_sent, server, seconds, row), METRICS: partial(_sent, server, seconds, metric)}
        told = (Metric("events", "/s", goals=(Goal(0.4, METRICS),)),)
        yield from contest(f"{LARGE} rows a request, {BARE_CONNECTIONS} connections", told, sent, setting)


def row(number: int) -> Fact:
    """Return the event that a run says at this position, of rows."""
    if number == 1:
        return RunStarted()
    chance = random.Random(number)
    values: dict[str, Value] = {
        "number": number,
        "value": chance.gauss(0, 1),
        "seconds": chance.expovariate(10),
        "share": chance.random(),
        "group": f"group {number % 7}",
        "is_even": number % 2 == 0,
    }
    return ResultRecorded(set="rows", key=f"row-{number:06d}", values=values, status="done")


def metric(number: int) -> Fact:
    """Return the same, of metrics."""
    return (
        RunStarted()
        if number == 1
        else StageMetric(stage="train", name="loss", value=1 / number, step=number)
    )


def _fill(url: str, run_id: str, count: int) -> None:
    with MongoClient[dict[str, Any]](url) as client:
        rows = client.get_default_database()[RESULTS]
        for first in range(2, count + 2, BATCH):
            numbers = range(first, min(first + BATCH, count + 2))
            rows.insert_many([_document(run_id, number) for number in numbers], ordered=False)


def _document(run_id: str, number: int) -> dict[str, Any]:
    fact = row(number)
    assert isinstance(fact, ResultRecorded)
    event = Event(
        id=str(number),
        source="//bench",
        type="ai.result.recorded",
        run_id=run_id,
        attempt=1,
        sequence=number,
        time=None,
        data={},
        fact=fact,
    )
    write = result_write("probe", event, fact)
    return {"_id": write.id, **write.fields, "seq": number}


def _asked(setting: Setting, connection: HTTPConnection, path: str) -> Figures:
    orders = [{"sort": f"{sign}{column}"} for column in COLUMNS for sign in ("", "-")]
    asked = [f"{path}?{urlencode(each)}" for each in (*orders, *FILTERED)]
    asked += [_deep(connection, path, {"sort": sort}) for sort in ("number", "-value", "is_even")]
    took_ms = {each: [_ask(connection, each)[0] for _ in range(TIMES)] for each in asked}
    late_ms = {address: percentile(each, 0.95) for address, each in took_ms.items()}
    slowest = max(late_ms, key=late_ms.__getitem__)
    setting.say(f"of {len(asked)} questions the slowest is {slowest}")
    everything = [each for group in took_ms.values() for each in group]
    return {"median": percentile(everything, 0.5), "slowest question's p95": late_ms[slowest]}


def _deep(connection: HTTPConnection, path: str, query: dict[str, str]) -> str:
    """Return the address of a page that is far from the first."""
    after: str | None = None
    for _ in range(DEEP_PAGES):
        _, page = _ask(connection, _page(path, {**query, "limit": "200"}, after))
        after = page["next"] or after
    return _page(path, query, after)


def _page(path: str, query: dict[str, str], after: str | None) -> str:
    return f"{path}?{urlencode({**query, **({'after': after} if after else {})})}"


def _ask(connection: HTTPConnection, address: str) -> tuple[float, Any]:
    begun_s = CLOCK.monotonic_s()
    connection.request("GET", address)
    answer = connection.getresponse()
    content = answer.read()
    took_s = CLOCK.monotonic_s() - begun_s
    assert answer.status < 400, f"{address}: {content[:300]!r}"
    return 1000 * took_s, msgspec.json.decode(content)


def _sent(server: Mongod, seconds: float, say: Say) -> Figures:
    with fresh(server) as url, control_planes(url, 1) as urls:
        runs = claimed(urls[0], url, BARE_CONNECTIONS)
        requests = 2 + int(EVENTS_PER_S_MAX * seconds / LARGE / BARE_CONNECTIONS)
        with senders(urls, runs, size=LARGE, requests=requests, say=say) as sending:
            results = sending.send(seconds)
    return {"events": results.events / results.seconds}


BENCH: Final = Bench("results", "pages of a run's rows, and their ingest beside metrics", run)
