"""Runs the unit tests of what changed: `python -m scripts.changed [--since COMMIT]`.

A unit test belongs to a changed file if it is that file, or imports it: `testing/mutation/related_tests.py`
finds that in the source. A changed file differs from a commit (HEAD where none is named), or is new to git.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from testing.mutation.related_tests import FOLDERS, find_related

ROOT: Final = Path(__file__).parents[1]
UNITS: Final = "tests/unit/"


def units(root: Path, changed: Iterable[str]) -> list[str]:
    """Return the unit test files of these changed files, paths below `root`."""
    found: set[str] = set()
    for path in changed:
        if not path.endswith(".py") or path.partition("/")[0] not in FOLDERS or not (root / path).exists():
            continue
        found.update(
            {path} if path.rpartition("/")[2].startswith("test_") else find_related(root, path).files
        )
    return sorted(each for each in found if each.startswith(UNITS))


def changes(since: str) -> list[str]:
    """Return the files that differ from a commit, and those that git does not know."""
    commands = (["git", "diff", "--name-only", since], ["git", "ls-files", "--others", "--exclude-standard"])
    return [
        name
        for command in commands
        for name in subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]


def main() -> int:
    """Run them; return pytest's status, 0 where there is none to run."""
    parser = argparse.ArgumentParser(prog="python -m scripts.changed", description=__doc__)
    parser.add_argument("--since", default="HEAD", metavar="COMMIT", help="what changed since then")
    files = units(ROOT, changes(parser.parse_args().since))
    if not files:
        print("no unit test imports what changed")
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *files], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
