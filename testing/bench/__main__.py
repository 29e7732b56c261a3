"""`python -m testing.bench [NAME ...]`: measures podfleet beside the parts that it is made of and its peers.

Starts what it needs, on loopback, and ends it. Say which benches, or none for all. Ratios of one run mean
something; figures of two runs, or of two machines, beside each other mean less.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from testing.bench.comparison import Setting
from testing.bench.keeping import retention
from testing.bench.machine import ROOT, facts
from testing.bench.report import Report, into, table
from testing.bench.search import searches, task_pages
from testing.bench.stored import backup, files
from testing.bench.workloads import (
    artifacts,
    claims,
    emit,
    groups,
    ingest,
    lists,
    live,
    noop,
    pickup,
    races,
    results,
    sick_pods,
    start,
    trees,
)
from testing.bench.workloads.models import agreement, evaluation, load_client, prompt_laps

_ALL: Final = (
    pickup.BENCH, claims.BENCH, claims.LABELLED_BENCH, claims.SHARED_BENCH, noop.BENCH, ingest.BENCH,
    ingest.SCALING, results.BENCH, lists.BENCH, live.BENCH, emit.BENCH, artifacts.BENCH, start.BENCH,
    sick_pods.BENCH, retention.BENCH, groups.BENCH, races.BENCH, races.SHOWN, trees.BENCH, evaluation.BENCH,
    agreement.BENCH, load_client.BENCH, prompt_laps.BENCH, searches.BENCH, task_pages.BENCH,
    backup.BENCH, files.BENCH,
)  # fmt: skip
BENCHES: Final = {each.name: each for each in _ALL}
PAGE: Final = ROOT / "docs" / "performance.md"
ROUNDS: Final = 5


def main() -> int:
    """Run the command line."""
    arguments = _parser().parse_args()
    if arguments.list:
        for bench in BENCHES.values():
            print(f"{bench.name:12} {bench.purpose}")
        return 0
    before = _reports(arguments.compare) if arguments.compare else {}
    reports: dict[str, Report] = {}
    for name in arguments.names or BENCHES:
        with tempfile.TemporaryDirectory(prefix=f"podfleet-bench-{name}-") as scratch:
            setting = Setting(
                arguments.rounds,
                Path(scratch),
                _say,
                arguments.small,
                arguments.store,
                arguments.peers,
                arguments.runs,
            )
            reports[name] = report = Report(name, facts(), list(BENCHES[name].run(setting)))
        if arguments.write:
            PAGE.write_text(into(PAGE.read_text(), report))
        if not arguments.json:
            print(f"\n{name}\n{table(report, before.get(name))}\n")
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(list(reports.values())) + b"\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m testing.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *BENCHES], help="see --list")
    parser.add_argument("--list", action="store_true", help="name the benches, and run none")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often everything is measured")
    parser.add_argument("--json", action="store_true", help="print the figures for machines")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="show beside what --json printed before")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/performance.md")
    parser.add_argument("--small", action="store_true", help="try it out: the figures mean nothing")
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="leave other people's programs out"
    )
    parser.add_argument(
        "--runs", type=int, metavar="N", help="how many old runs, for benches that fill a store with some"
    )
    parser.add_argument("--store", metavar="URL", help="a filled MongoDB, for benches that can use one")
    return parser


def _reports(file: Path) -> dict[str, Report]:
    return {each.bench: each for each in msgspec.json.decode(file.read_bytes(), type=list[Report])}


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
