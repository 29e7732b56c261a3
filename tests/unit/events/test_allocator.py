"""Threads share one arena of the C library where that is asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

# Prints how many arenas there are when eight threads at once have held a text of their own.
PROGRAM: Final = """
import ctypes, sys, tempfile, threading
from events.runtime.allocator import use_one_arena

if sys.argv[1] == "one":
    use_one_arena()
together = threading.Barrier(8)

def hold():
    kept = bytes(20_000)
    together.wait(60)
    return kept

threads = [threading.Thread(target=hold) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as told:
    file = ctypes.c_void_p(libc.fopen(told.name.encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(told.read().count(b"<heap nr="))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is told of arenas is glibc's")
def test_threads_to_come_share_one_arena() -> None:
    def arenas(how: str) -> int:
        command = [sys.executable, "-c", PROGRAM, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert (arenas("one"), arenas("own") > 1) == (1, True)
