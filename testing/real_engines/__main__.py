"""`python -m testing.real_engines [ENGINE ...]`: holds the real engines of this machine to their contract.

Without a name all that are installed are tried, each with a small model that has to be here or that it
fetches (`--model`); `--docker` tries them in their images. One line is printed for each case, and the exit
status is 1 where one failed, 2 where no engine is here. Settings such as HF_TOKEN, HF_HOME, MODEL_PATH and
proxies are those of the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from events.runtime.errors import PipelineError
from testing.real_engines.cases import CLOCK, LIVE, STARTS, UNDER_LOAD, Setup, Unfit
from testing.real_engines.found import KNOWN, engines_here, setup_of

SAID_CHARS: Final = 2_000
NAMES: Final = tuple(each.__name__ for each in (*LIVE, *UNDER_LOAD, *STARTS))
Found = TypeVar("Found")


@dataclass(slots=True)
class Tally:
    """Tells what became of the cases of an engine, and counts those that failed."""

    engine: str
    failed: int = 0

    def of(self, name: str, case: Callable[[], Found]) -> Found | None:
        """Return what a case returns, None where it failed; either is told in a line."""
        begun_s, found, says = CLOCK.monotonic_s(), None, "ok"
        try:
            found = case()
        except Unfit as error:
            says = f"left out: {error}"
        except Exception as error:  # noqa: BLE001 - a case failed, and others may not
            self.failed += 1
            says = f"FAILED: {type(error).__name__}: {error}"[:SAID_CHARS]
        words = f": {found}" if isinstance(found, str) else ""
        print(f"{self.engine} {name}: {says}{words} ({CLOCK.monotonic_s() - begun_s:.1f} s)", flush=True)
        return found


def main(argv: Sequence[str], variables: Mapping[str, str]) -> int:
    """Try engines, and return the exit status."""
    parser = _parser()
    told = parser.parse_args(argv)
    if unknown := {*told.engines} - {*KNOWN}:
        parser.error(f"there is no engine {', '.join(sorted(unknown))}; there are {', '.join(KNOWN)}")
    if told.image and len(told.engines) != 1:
        parser.error("--image is that of one engine: name it")
    names = told.engines or engines_here(variables, in_image=told.docker)
    if not names:
        print("no engine is here: see `python -m stages.engines list`", file=sys.stderr)
        return 2
    failed = 0
    for name in names:
        image = told.image or (KNOWN[name].image if told.docker else "")
        try:
            setup = setup_of(name, variables, model=told.model, image=image, ready_s=told.ready_s)
        except PipelineError as error:
            print(f"{name}: FAILED: {error.message}")
            failed += 1
        else:
            failed += _tried(setup, told.case or NAMES)
    print(f"{failed} failed")
    return int(failed > 0)


def _tried(setup: Setup, wanted: Sequence[str]) -> int:
    """Try the cases of an engine, and return how many failed. Those that are live share one engine."""
    tally = Tally(setup.engine.name)
    live = [each for each in (*LIVE, *UNDER_LOAD) if each.__name__ in wanted]
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        serving = partial(setup.serving, Path(place), parameters=setup.two_slots())
        found = tally.of("starts", lambda: stack.enter_context(serving())) if live else None
        if found is not None:
            for each in live:
                tally.of(each.__name__, partial(each, setup, found))
            tally.of("ends", stack.close)
    for start in STARTS:
        if start.__name__ in wanted:
            with tempfile.TemporaryDirectory() as place:
                tally.of(start.__name__, partial(start, setup, Path(place)))
    return tally.failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testing.real_engines", description=__doc__)
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=", ".join(KNOWN))
    parser.add_argument("--model", default="", metavar="ID", help="weights, an id of the hub, or a folder")
    parser.add_argument("--docker", action="store_true", help="in the image of the engine")
    parser.add_argument("--image", default="", help="in this image, by Docker: of the engine named")
    parser.add_argument("--ready-s", type=float, default=600.0, metavar="SECONDS", help="until it is ready")
    parser.add_argument("--case", action="append", choices=NAMES, metavar="CASE", help=", ".join(NAMES))
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
