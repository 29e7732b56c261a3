"""`python -m testing.real_engines.owner`: serves what a line of its input says, until it is killed."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from testing.real_engines.cases import Setup
from testing.real_engines.found import KNOWN

if __name__ == "__main__":
    told = json.loads(sys.stdin.readline())
    engine, folder = KNOWN[told.pop("engine")], Path(told.pop("folder"))
    with Setup(engine=engine, **told).serving(folder) as found:
        print(found.pid, found.port, flush=True)
        threading.Event().wait()
