"""What the client of load costs, and how exactly it times a first token, beside a bare loop and httpx.

A scripted engine in a process of its own sends 20 tokens a second to each stream, and says when it got a
request and when it sent its first token. The error is by how much a client's time differs from that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

from testing.bench.comparison import OURS, Absent, Bench, Figures, Goal, Metric, Row, Setting, Way, contest
from testing.bench.machine import ROOT
from testing.bench.peers import load_generators
from testing.bench.servers import scripted_engine

STREAMS: Final = 64
MODEL: Final = "paced=0.05"
REQUESTS_OF_STREAM: Final = 3
LEAST: Final = 40  # tokens of an answer
MOST: Final = 80
SMALL_STREAMS: Final = 4
LOOP: Final = "bare loop"
METRICS: Final = (
    Metric("processor", "% of a core", more_is_better=False, goals=(Goal(25.0),)),
    Metric("first token, median error", "ms", more_is_better=False, goals=(Goal(2.0),)),
    Metric("first token, p99 error", "ms", more_is_better=False, goals=(Goal(5.0),)),
)


def run(setting: Setting) -> Iterator[Row]:
    """Ask in so many streams, by each client in a process of its own."""
    streams = SMALL_STREAMS if setting.small else STREAMS
    ways: dict[str, Way | Absent] = {way: partial(_measured, way, streams) for way in (OURS, LOOP, "httpx")}
    for peer in load_generators.PEERS:
        traffic, requests = f"U(99,100)/({LEAST},{MOST})", streams * REQUESTS_OF_STREAM
        ways[peer] = load_generators.way(peer, setting, MODEL, streams, traffic, requests)
    yield from contest(f"{streams} streams of 20 tokens a second", METRICS, ways, setting)


def _measured(way: str, streams: int) -> Figures:
    with scripted_engine() as url:
        order = {
            "way": way,
            "url": url,
            "model": MODEL,
            "streams": streams,
            "requests": streams * REQUESTS_OF_STREAM,
            "least": LEAST,
            "most": MOST,
        }
        command = [sys.executable, "-m", "testing.bench.programs.load_client", json.dumps(order)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON_DOTENV_DISABLED": "1"}
        done = subprocess.run(command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


BENCH: Final = Bench("load-client", "what measuring an engine costs, and how exactly it is timed", run)
