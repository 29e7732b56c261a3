"""`python -m stages.kinds.benchmark NAME ... --into FOLDER`: fetches data for all runs of this machine.

FOLDER is one of PODFLEET_DATASETS. Only who runs this writes there: no run can spoil it for others.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from events.runtime.errors import PipelineError
from stages.kinds.benchmark.suite_loader import sources_of
from stages.kinds.benchmark.suites.catalogue import SUITES
from stages.kinds.benchmark.suites.data.hub import fetched
from stages.kinds.benchmark.suites.data.sources import DataRefused, DataSources, NeedsSetup
from stages.kinds.benchmark.suites.item import Suite


def fetch(suite: Suite, folder: Path, sources: DataSources) -> list[Path]:
    """Return the files of a suite in `folder`, where runs look for them; what is whole there is kept.

    Raises `NeedsSetup` and `DataRefused`.
    """
    files: list[Path] = []
    for number, source in enumerate(suite.sources):
        part = folder / suite.name if len(suite.sources) == 1 else folder / suite.name / str(number)
        files += fetched(source, replace(sources, cache=part))
    return files


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Fetch each that is not there, and print where it lies."""
    parser = argparse.ArgumentParser(prog="python -m stages.kinds.benchmark", description=__doc__)
    names = sorted(name for name, suite in SUITES.items() if suite.sources)
    parser.add_argument("names", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="one of PODFLEET_DATASETS")
    arguments = parser.parse_args(argv)
    try:
        for name in arguments.names:
            for path in fetch(SUITES[name], arguments.into, sources_of(environ, (), arguments.into)):
                print(path)
    except (NeedsSetup, DataRefused, PipelineError) as error:
        print(f"suites: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
