"""`python -m stages.engines NAME ...`: fetches weights to where runs of this machine find them.

`list` shows the engines with their parameters and whether this pod has them, `cache` the models on this pod.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from events.models.engines import ENGINES
from events.models.parameter import Parameter
from events.models.presence import is_here
from events.runtime.errors import PipelineError
from stages.engines.cache import cached
from stages.engines.weights import WEIGHTS, fetch

MIB = 1 << 20


def main(argv: Sequence[str]) -> int:
    """Fetch each that is not there, and print where it lies; or print what there is."""
    parser = argparse.ArgumentParser(prog="python -m stages.engines", description=__doc__)
    names = [*sorted(WEIGHTS), "list", "cache"]
    parser.add_argument("names", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    try:
        for name in parser.parse_args(argv).names:
            if name in WEIGHTS:
                print(fetch(WEIGHTS[name]))
            else:
                print("\n".join(_engines() if name == "list" else _models()))
    except PipelineError as error:
        print(f"engines: {error.message}", file=sys.stderr)
        return 1
    return 0


def _engines() -> Iterator[str]:
    for each in ENGINES.values():
        where = "here" if is_here(each, os.environ) else f"not here: {each.install}"
        yield f"{each.name}: {each.title} ({where})"
        yield from (f"  {parameter.name}: {_described(parameter)}" for parameter in each.parameters)


def _described(each: Parameter) -> str:
    """Return what a parameter may be, what it is if nothing is said, and what it costs."""
    bounds = {
        "switch": "true or false",
        "choice": " | ".join(each.choices),
        "any": "anything",
    }.get(each.type, f"{each.low:g} to {each.high:g}")
    usual = each.default if each.default is not None else each.usual
    default = "" if usual is None else f"; {usual} if nothing is said"
    costs = f"; costs {each.costs}" if each.costs else ""
    return f"{each.says} ({bounds}{default}{costs})"


def _models() -> Iterator[str]:
    for each in cached(os.environ):
        whole = "" if each.is_whole else "  not whole"
        yield f"{each.size / MIB:10,.1f} MiB  {each.name}  {each.path}{whole}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
