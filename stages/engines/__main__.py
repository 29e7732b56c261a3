"""`python -m stages.engines NAME ...`: fetches weights to where runs of this machine find them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from events.runtime.errors import PipelineError
from stages.engines.weights import WEIGHTS, fetch


def main(argv: Sequence[str]) -> int:
    """Fetch each that is not there, and print where it lies."""
    parser = argparse.ArgumentParser(prog="python -m stages.engines", description=__doc__)
    parser.add_argument("names", nargs="+", choices=sorted(WEIGHTS), metavar="NAME")
    try:
        for name in parser.parse_args(argv).names:
            print(fetch(WEIGHTS[name]))
    except PipelineError as error:
        print(f"engines: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
