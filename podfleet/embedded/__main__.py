"""`python -m podfleet.embedded`: reports whether this machine can start the servers of the stack."""

from __future__ import annotations

import sys
from pathlib import Path

from events.runtime.errors import ConfigError
from podfleet.embedded.config import environment
from podfleet.embedded.mongod import find_mongod
from podfleet.embedded.s3 import find_s3


def main() -> int:
    """Print what would be started, or what is missing."""
    variables = environment(Path.cwd())
    problems: list[str] = []
    for given, find in (("MONGODB_URL", find_mongod), ("MINIO_ENDPOINT", find_s3)):
        if variables.get(given):
            continue
        try:
            print(find(variables.get("PATH")))
        except ConfigError as error:
            problems += error.problems
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
