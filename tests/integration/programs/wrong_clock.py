"""Runs a program of ours on a machine whose clock is wrong: `wrong_clock.py SHIFT PROGRAM [ARGUMENT ...]`.

The wall clock shows as many seconds more as the file SHIFT says, whenever it is read; the monotonic clock is
right. PROGRAM is a module (`-m NAME`) or a path.
"""

from __future__ import annotations

import runpy
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from events.runtime.clock import SystemClock


def main(shift: Path, program: str, *arguments: str) -> None:
    def now(_: SystemClock) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=float(shift.read_text()))

    SystemClock.now = now  # type: ignore[method-assign]
    if program == "-m":
        name, *rest = arguments
        sys.argv = [name, *rest]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
