"""Lists the models in the folders of the pod, in a process like that of a pipeline; or empties their cache.

A worker runs it as `python -m pod_worker.child.inventory`. It prints one JSON list; with `--empty-cache` it
prints what it has removed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from events.delivery.pipe import FoundModel
from pod_worker.child.confine import enter
from pod_worker.isolation.confinement import Confinement
from stages.engines.cache import cached, emptied

MODELS_MAX: Final = 100


def main(argv: Sequence[str]) -> int:
    """Print the models that are whole, the largest first."""
    parser = argparse.ArgumentParser(prog="python -m pod_worker.child.inventory", description=__doc__)
    parser.add_argument("--confinement", type=Confinement.read)
    parser.add_argument("--space", type=int, help="the number of what it is confined to")
    parser.add_argument("--empty-cache", action="store_true", help="remove what was fetched")
    arguments = parser.parse_args(argv)
    if arguments.confinement is not None:
        enter(arguments.confinement, arguments.confinement.space_of(arguments.space))
    if arguments.empty_cache:
        removed = emptied(os.environ)
        sys.stdout.write(f"{len(removed)} files removed, {sum(each.size for each in removed)} bytes\n")
        return 0
    whole = [each for each in cached(os.environ) if each.is_whole][:MODELS_MAX]
    found = [FoundModel(name=each.name, bytes=each.size) for each in whole if each.name.isprintable()]
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
