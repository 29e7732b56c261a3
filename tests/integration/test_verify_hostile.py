"""`podfleet verify` on a store that somebody filled to exhaust it: what it holds has a bound."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from control_plane.store.log.events import Arrival, storable
from control_plane.store.verify import collecting
from events.catalog import RunLog, StageStarted
from events.codec import decode_ndjson
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.runtime.clock import SystemClock
from events.testing import make_line
from tests.integration.test_core import Core, in_core

ORPHANS = int(os.environ.get("HOSTILE_ORPHANS", "2000"))  # noqa: TID251 - the long form, by hand
EVENTS = int(os.environ.get("HOSTILE_EVENTS", "2000"))  # noqa: TID251 - the long form, by hand
GAPS = 10_000
PEAK_MIB_MAX = 300
# The command line, with the most memory that it ever had as its last word.
MEASURED = (
    "-c",
    "import atexit, pathlib, sys; from podfleet.main import main;"
    "status = pathlib.Path('/proc/self/status');"
    "atexit.register(lambda: print(status.read_text(), file=sys.stderr)); sys.exit(main())",
)


def verified(url: str, home: Path) -> tuple[int, list[str], float]:
    """Return the exit status, the findings, and the peak in MiB."""
    environment = {"PATH": os.defpath, "MONGODB_URL": url}
    with (home / "findings").open("w+") as told:
        done = subprocess.run(
            [sys.executable, *MEASURED, "verify", "--rebuild"],
            env=environment, cwd=home, stdout=told, stderr=subprocess.PIPE, text=True, timeout=500,
        )  # fmt: skip
        told.seek(0)
        findings = told.read().splitlines()
    peak = re.search(r"VmHWM:\s+(\d+) kB", done.stderr)
    assert peak is not None, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, findings, int(peak[1]) / 1024


def hour_ago() -> datetime:
    return SystemClock().now() - timedelta(hours=1)


def said(run_id: str, fact: Fact, sequences: Iterable[int], **data: Any) -> Iterator[dict[str, Any]]:
    """Yield events as ingest stored them an hour ago; their numbers may be any."""
    (decoded,) = decode_ndjson(make_line(fact, sequence=1, run_id=run_id))
    assert isinstance(decoded.outcome, Event)
    first: dict[str, Any] = bson.decode(storable(decoded.outcome, Arrival("p", hour_ago())).raw)
    for n in sequences:
        changed = {"_id": f"{run_id}/{n}", "sequence": n, "hash": "", "data": {**first["data"], **data}}
        yield {**first, **changed}


def submitted(url: str, count: int) -> list[str]:
    """Return runs that were claimed."""

    async def scenario(core: Core) -> list[str]:
        runs = [await core.submit() for _ in range(count)]
        for number in range(count):
            await core.claim(f"token-{number}", f"pod/{number}")
        await core.sweeper.run_once()
        # What is young is looked at again for a while: nothing here is.
        await core.db.events.update_many({}, {"$set": {"receivedAt": hour_ago()}})
        return sorted(runs)

    return in_core(url, scenario)


def fill(url: str, collection: str, documents: Iterator[dict[str, Any]]) -> None:
    with MongoClient[dict[str, Any]](url) as client:
        found = client.get_default_database()[collection]
        batch: list[Any] = []
        for document in documents:
            batch.append(RawBSONDocument(bson.encode(document)))
            if len(batch) == 10_000:
                found.insert_many(batch, ordered=False)
                batch.clear()
        if batch:
            found.insert_many(batch, ordered=False)


def test_a_verify_holds_little_whatever_a_store_is_filled_with(emptied_url: str, tmp_path: Path) -> None:
    far, holey, honest, bloated = submitted(emptied_url, 4)
    log, stage = RunLog(message="x"), StageStarted(stage="x")
    fill(emptied_url, "events", said(far, log, (1, 10**9, 2**53)))
    fill(emptied_url, "events", said(holey, log, range(2, 2 * GAPS + 1, 2)))
    fill(emptied_url, "events", said(honest, log, range(1, EVENTS + 1)))
    fill(emptied_url, "events", said(bloated, stage, range(1, 100), more="x" * 240_000))
    orphans = ({"_id": f"o{n}/a1/s", "runId": f"o{n:09}", "attempt": 1, "name": "s"} for n in range(ORPHANS))
    fill(emptied_url, "stages", orphans)
    status, findings, peak_mib = verified(emptied_url, tmp_path)
    assert (status, peak_mib <= PEAK_MIB_MAX) == (1, True), peak_mib
    assert sum(each.startswith("orphan-document") for each in findings) == ORPHANS
    gap = f"sequence-gap  {far}  attempt 1: events 2–999999999, 1000000001–{2**53 - 1} never came"
    assert any(each.startswith(gap) for each in findings), findings[:9]
    assert any(f"{holey}  attempt 1: events 1, 3, 5" in each and "more ranges" in each for each in findings)
    assert any(each.startswith(f"too-large  {bloated}") for each in findings)
    assert max(map(len, findings)) < 3_000
    assert collecting.HELD_BYTES_MAX < 99 * 240_000
