"""Memory that is free goes back to the machine, though what lives lies between it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final
from unittest.mock import MagicMock

from control_plane.server.app import _loops
from control_plane.upkeep.memory_return import MemoryReturn

# What a process holds in MiB: with 100 MiB of texts, of which one in a hundred stays, before and after.
PROGRAM: Final = """
import asyncio
from pathlib import Path
from control_plane.upkeep.memory_return import MemoryReturn

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

texts = [bytes(20_000) for _ in range(5_000)]
kept = texts[::100]
del texts
before = held()
asyncio.run(MemoryReturn().run_once())
print(before, held())
"""


def test_what_is_free_between_what_lives_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before - after > 60


def test_the_server_does_it_again_and_again() -> None:
    assert "memory_return" in {name for _, name, _ in _loops(MagicMock())}


def test_a_round_of_the_loop_does_it_once() -> None:
    done: list[str] = []
    asyncio.run(MemoryReturn(lambda: done.append("trimmed")).run_once())
    assert done == ["trimmed"]
