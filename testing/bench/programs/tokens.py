"""`python -m testing.bench.programs.tokens FILE ...`: a worker whose probes show a hundred tokens a second.

FILE gets, for each run, when its pipeline showed each of them, by the monotonic clock that all share.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Final

from events.kinds.probe import ProbeSpec
from events.runtime.clock import SystemClock
from pod_worker.__main__ import stop_on_signals
from pod_worker.child import fork_server_main
from pod_worker.child import main as child_main
from pod_worker.child.fork_server import ForkServer
from pod_worker.child.process import ChildOptions
from pod_worker.config import Wishes, read_settings
from pod_worker.program import World, serve
from stages.context import Context
from testing.bench.load.lanes import TOKEN, TOKENS_A_SECOND

CHILD: Final = "child"


def work(file: str, data: Path) -> None:
    """Work until told to stop."""
    settings = read_settings(os.environ, Wishes(data=data), dotenv=Path(".env"))
    command = (sys.executable, "-m", "testing.bench.programs.tokens", CHILD, file)
    options = ChildOptions(environ=settings.environ, command=command)
    with ForkServer(options, SystemClock(), command) as fork_server:
        serve(settings, World(stop=stop_on_signals()), fork_server)


def child(file: str, argv: list[str]) -> int:
    """Be the process of a run, or the server that forks it."""

    def run(context: Context) -> str:
        assert isinstance(context.spec, ProbeSpec)
        clock, never = context.clock, threading.Event()
        begun_s = clock.monotonic_s()
        shown: list[float] = []
        while len(shown) < context.spec.seconds * TOKENS_A_SECOND:
            clock.wait(never, begun_s + len(shown) / TOKENS_A_SECOND - clock.monotonic_s())
            shown.append(clock.monotonic_s())
            context.show(TOKEN, tokens=len(shown))
        with Path(file).open("a") as noted:
            noted.write(json.dumps({context.run_id: shown}) + "\n")
        return f"{len(shown)} tokens"

    program = fork_server_main if any("--socket" in each for each in argv) else child_main
    return int(program.main(argv, lambda kinds: {"probe": run}))


if __name__ == "__main__":
    if sys.argv[1] == CHILD:
        child_main.leave(child(sys.argv[2], sys.argv[3:]))
    work(sys.argv[1], Path(sys.argv[sys.argv.index("--data") + 1]))
