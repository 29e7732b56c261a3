"""Runs the stack with stand-ins for our two programs: `run_stack.py DATA [up|with] [PORT]`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from events.runtime.clock import SystemClock, SystemIds
from podfleet.embedded import stack
from podfleet.embedded.stack import Options, Programs, Stack, World, up


def say(line: str) -> None:
    print(line, flush=True)


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the tests would ignore it, and so would we
if os.environ.get("FAKE_WORKER") == "broken":
    vars(stack)["WORKER_STEADY_S"] = 30.0  # it ends before it has lived for so long, on a loaded machine too
here = Path(__file__).parent
options = Options(
    data=Path(sys.argv[1]),
    port=int(sys.argv[3]) if len(sys.argv) > 3 else 0,
    workers=2,
    programs=Programs(
        control_plane=(sys.executable, str(here / "fake_control_plane.py")),
        worker=(sys.executable, str(here / "fake_worker.py")),
    ),
)
world = World(environment=os.environ, clock=SystemClock(), ids=SystemIds(), say=say)
if sys.argv[2] == "up":
    sys.exit(up(options, world))
with Stack(options, world) as running:
    say(f"ready {running.url}")
    signal.pause()
