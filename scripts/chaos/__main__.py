"""`python -m scripts.chaos`: runs one campaign from a seed, and says what it came to."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from minio import Minio

from control_plane.embedded.s3 import BUCKET
from events.clock import SystemClock, SystemIds
from scripts.chaos import report
from scripts.chaos.campaign import Settings, Trouble, World, run
from scripts.chaos.checker import check
from scripts.chaos.evidence import Violation
from scripts.chaos.figures import figures
from scripts.chaos.fleet import Fleet
from scripts.chaos.gathering import Bucket, gather

SEED_MAX: Final = 1_000_000
EXIT_RED: Final = 1


def main() -> int:
    """Run what the command line asks for; return 1 when anything is wrong."""
    arguments = _arguments()
    if arguments.sum is not None:
        return _show(report.read(arguments.sum))
    ids = SystemIds()
    seed = int(ids.fraction() * SEED_MAX) if arguments.seed is None else arguments.seed
    home = arguments.home or Path(tempfile.mkdtemp(prefix="podfleet-chaos-"))
    settings = Settings(seed=seed, seconds=arguments.seconds, home=home, bug=arguments.bug)
    print(f"seed {seed}; again: python -m scripts.chaos --seconds {arguments.seconds:g} --seed {seed}")
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
    journals = [home / "user.journal", home / "campaign.journal", *(pod.journal for pod in fleet.pods)]
    outboxes = [(pod.outbox, False) for pod in fleet.pods]
    outboxes += [(path, True) for pod in fleet.pods for path in sorted(pod.home.glob("lost-*/outbox.db"))]
    server = fleet.storage.server
    keys = server.credentials
    client = Minio(
        server.endpoint, access_key=keys.s3_access_key, secret_key=keys.s3_secret_key, secure=False
    )
    evidence = gather(fleet.cluster.url, journals, outboxes, Bucket(client, BUCKET))
    violations = check(evidence)
    return report.result(settings, trouble, figures(evidence), violations), violations


def _show(results: list[report.Result]) -> int:
    for line in report.lines(report.summed(results)):
        print(line)
    is_red = any(one.is_red for one in results)
    print("RED" if is_red else "GREEN")
    return EXIT_RED if is_red else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long faults strike")
    parser.add_argument("--seed", type=int, help="which faults strike; a fresh one is printed")
    parser.add_argument("--home", type=Path, help="where everything lies while it runs")
    parser.add_argument("--keep", action="store_true", help="keep what a green campaign leaves behind")
    parser.add_argument("--bug", default="none", help="compose a known bug into the fleet")
    parser.add_argument("--append", type=Path, metavar="FILE", help="add the result to a file of results")
    parser.add_argument("--sum", type=Path, metavar="FILE", help="only add up a file of results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
