"""`python -m testing.fuzz api`: tries a control plane against its OpenAPI document (`docs/security.md`)."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from testing.fuzz.api import Campaign

DEFAULT_URL: Final = "http://127.0.0.1:8700"


def main() -> int:
    """Run the command line; return 1 where something is wrong with the API."""
    parser = argparse.ArgumentParser(prog="python -m testing.fuzz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    api = commands.add_parser(
        "api", help="try a control plane of your own; PODFLEET_API_KEY has its admin key"
    )
    api.add_argument("--url", default=DEFAULT_URL)
    api.add_argument("--examples", type=int, default=100)
    api.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    failed = 0
    for is_known in (True, False):
        done = Campaign(
            url=arguments.url,
            key=os.environ["PODFLEET_API_KEY"],
            examples=arguments.examples,
            is_known=is_known,
            seed=arguments.seed,
        ).run()
        sys.stdout.write(done.stdout)
        failed |= done.returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
