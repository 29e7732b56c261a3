"""`python -m testing.chaos`: runs one campaign from a seed, and says what it came to."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from minio import Minio

from control_plane.config import read_storage
from control_plane.files.blobs import open_blobs
from events.runtime.clock import Ids, SystemClock, SystemIds
from podfleet.embedded.s3 import BUCKET
from testing.chaos import report
from testing.chaos.bugs import COMPOSABLE, NO_BUG
from testing.chaos.campaign import Settings, Trouble, World, run, short
from testing.chaos.checking.checker import check
from testing.chaos.checking.evidence import Violation
from testing.chaos.checking.figures import figures
from testing.chaos.checking.gathering import Bucket, gather
from testing.chaos.controls.failover import running_cluster
from testing.chaos.controls.runner import NAMES, run_control
from testing.chaos.faults.plan import LANES
from testing.chaos.system.fleet import Fleet

SEED_MAX: Final = 1_000_000
EXIT_RED: Final = 1
ALL: Final = "all"


def main() -> int:
    """Run what the command line asks for; return 1 when anything is wrong."""
    arguments = _arguments()
    # As Ctrl-C: what was started and mounted is ended and unmounted on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if arguments.sum is not None:
        return _show(report.read(arguments.sum))
    ids = SystemIds()
    if arguments.controls:
        return _controls(arguments.controls, ids)
    seed = int(ids.fraction() * SEED_MAX) if arguments.seed is None else arguments.seed
    home = arguments.home or Path(tempfile.mkdtemp(prefix="podfleet-chaos-"))
    settings = Settings(seed=seed, seconds=arguments.seconds, home=home, bug=arguments.bug)
    form = f"--seconds {arguments.seconds:g}"
    if arguments.short:
        settings, form = replace(short(seed, home), bug=arguments.bug), "--short"
    if arguments.slots > 1:
        # One slot of a second pod besides: runs ask for its rack, and the first pod leaves it what it failed.
        size = replace(settings.size, pods=arguments.slots + 1, slots=arguments.slots)
        settings = replace(settings, size=size)
        form += f" --slots {arguments.slots}"
    if arguments.lanes:
        lanes = tuple(lane for lane in settings.lanes if lane.name in arguments.lanes)
        settings = replace(settings, lanes=lanes)
        form += "".join(f" --lane '{lane.name}'" for lane in lanes)
    if arguments.bug != NO_BUG:
        form += f" --bug '{arguments.bug}'"
    _say(f"seed {seed}; again: python -m testing.chaos {form} --seed {seed}")
    results: list[report.Result] = []

    def examine(fleet: Fleet, trouble: Trouble) -> None:
        one, violations = examined(settings, fleet, trouble)
        results.append(one)
        for line in report.violations_shown(violations):
            print(line)

    run(settings, World(clock=SystemClock(), ids=ids, say=_say), examine)
    if arguments.append is not None:
        report.append(arguments.append, results[0])
    status = _show(results)
    if status or arguments.keep:
        print(f"everything is kept in {home}")
    else:
        shutil.rmtree(home)
    return status


def examined(settings: Settings, fleet: Fleet, trouble: Trouble) -> tuple[report.Result, list[Violation]]:
    """Check what a quiet fleet holds."""
    home = settings.home
    people = ("user", "group-user", "campaign")
    journals = [*(home / f"{name}.journal" for name in people), *(pod.journal for pod in fleet.pods)]
    outboxes = [(pod.outbox, False) for pod in fleet.pods]
    outboxes += [(path, True) for pod in fleet.pods for path in sorted(pod.home.glob("lost-*/outbox.db"))]
    server = fleet.storage.server
    keys = server.credentials
    client = Minio(
        server.endpoint, access_key=keys.s3_access_key, secret_key=keys.s3_secret_key, secure=False
    )
    audited = open_blobs(read_storage(server.environment()))
    evidence = gather(fleet.cluster.url(), journals, outboxes, Bucket(client, BUCKET), audited)
    violations = check(evidence)
    return report.result(settings, trouble, figures(evidence), violations), violations


def _show(results: list[report.Result]) -> int:
    for line in report.lines(report.summed(results)):
        print(line)
    is_red = any(one.is_red for one in results)
    print("RED" if is_red else "GREEN")
    return EXIT_RED if is_red else 0


def _controls(names: list[str], ids: Ids) -> int:
    """Run the race of each known bug, with it and without it."""
    wrong = 0
    wanted = NAMES if names == [ALL] else tuple(names)
    with (
        tempfile.TemporaryDirectory(prefix="podfleet-chaos-") as home,
        running_cluster(Path(home), os.environ.get("PATH"), SystemClock(), ids) as cluster,
    ):
        for name in wanted:
            verdict = run_control(name, cluster, Path(home, "races"))
            wrong += not verdict.is_right
            for line in verdict.lines():
                _say(line)
    print(
        f"{len(wanted) - wrong} of {len(wanted)} known bugs were caught; without its bug each race is green"
    )
    return EXIT_RED if wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m testing.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long faults strike")
    parser.add_argument("--slots", type=int, default=1, help="all pods are so many slots of one")
    parser.add_argument("--short", action="store_true", help="the short form, as in the test suite")
    parser.add_argument("--seed", type=int, help="which faults strike; a fresh one is printed")
    parser.add_argument("--home", type=Path, help="where everything lies while it runs")
    parser.add_argument("--keep", action="store_true", help="keep what a green campaign leaves behind")
    parser.add_argument(
        "--lane",
        action="append",
        dest="lanes",
        choices=[lane.name for lane in LANES],
        help="only these faults; may be given again",
    )
    parser.add_argument(
        "--bug", choices=sorted(COMPOSABLE), default=NO_BUG, help="compose a known bug into the fleet"
    )
    parser.add_argument(
        "--control",
        action="append",
        dest="controls",
        metavar="NAME",
        choices=[ALL, *NAMES],
        help=f"run the race of a known bug instead: {ALL}, or one of {', '.join(NAMES)}",
    )
    parser.add_argument("--append", type=Path, metavar="FILE", help="add the result to a file of results")
    parser.add_argument("--sum", type=Path, metavar="FILE", help="only add up a file of results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
