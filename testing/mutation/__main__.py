"""`python -m testing.mutation [MODULE ...]`: plants small faults, and counts those that tests see.

Each module is judged by the test files that import it, in a copy of the checkout. Every survivor is listed,
for a person to judge: a test is missing, or the fault is none (`testing/mutation/equivalent.toml`).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from testing.bench.machine import CLOCK, ROOT
from testing.mutation.related_tests import find_related
from testing.mutation.score import Score, table
from testing.mutation.trial import Copy, Verdict, copied, drawn

MODULES: Final = (
    "events/lifecycle.py", "events/queue/settlement.py", "pod_worker/attempt/settlement.py",
    "control_plane/model/projection.py", "events/queue/claims.py", "events/delivery/outbox.py",
    "events/queue/matching.py", "control_plane/verify/replay.py",
)  # fmt: skip
MUTANTS: Final = 100


def main() -> int:
    """Run the command line."""
    arguments = _parser().parse_args()
    root = arguments.root.resolve()
    scores: list[Score] = []
    with copied(root) as copy:
        for module in arguments.modules or MODULES:
            score = tried(copy, root, module, arguments)
            scores.append(score)
            print(*score.about_judges(), *score.survivors(), sep="\n", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps([each.kept() for each in scores], indent=1))
    print(table(scores))
    if any(each.baseline.left_out for each in scores):
        print("* without the files that are named above as left out")
    return 0


def tried(copy: Copy, root: Path, module: str, arguments: argparse.Namespace) -> Score:
    """Return how many of a module's mutants its tests see."""
    begun_s = CLOCK.monotonic_s()
    theirs = find_related(root, module)
    if not theirs.files:
        sys.exit(f"mutation: no test imports {module}, or what imports it")
    mutants = drawn(root, module, arguments.mutants, arguments.seed)
    baseline = copy.assess(theirs, arguments.below, arguments.limit_s)
    verdicts: list[Verdict] = []
    for verdict in copy.verdicts(module, mutants, baseline):
        verdicts.append(verdict)
        place = f"{len(verdicts)}/{len(mutants)} {module}:{verdict.mutant.line}"
        print(f"{place} {verdict.outcome} {verdict.seconds:.1f} s {verdict.by or ''}", file=sys.stderr)
    seconds = CLOCK.monotonic_s() - begun_s
    return Score(module=module, related=theirs, baseline=baseline, verdicts=verdicts, seconds=seconds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testing.mutation", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="a file below the root; none for all eight"
    )
    parser.add_argument("--mutants", type=int, default=MUTANTS, help="at most so many of each module")
    parser.add_argument("--seed", type=int, default=17, help="what the sample is drawn by")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the verdicts, too")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout to measure")
    parser.add_argument("--limit-s", type=float, help="leave out test files that alone take longer")
    parser.add_argument("--below", nargs="+", default=["tests"], help="leave out test files elsewhere")
    return parser


if __name__ == "__main__":
    sys.exit(main())
