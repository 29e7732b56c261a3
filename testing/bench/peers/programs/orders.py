"""What the programs of peers share: how they are told what to do, and how a job says that it began."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def obey(carry_out: Callable[[Any], Any]) -> None:
    """Carry out each line of the input, and answer each with a line; both are JSON."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(carry_out(json.loads(line))) + "\n")
        sys.stdout.flush()


def note() -> None:
    """Write down when a job began: its first line, in a process of the peer's worker."""
    now_s = time.time()
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{now_s}\n")
