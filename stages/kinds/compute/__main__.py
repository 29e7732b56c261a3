"""A process that does pieces of a prime count: `python -m stages.kinds.compute N [BYTES FD]`.

Each line of its standard input is a piece; it answers with a line that has the count. It ends with its input.
"""

from __future__ import annotations

import json
import mmap
import sys
from typing import BinaryIO

import numpy as np

from stages.kinds.compute.primes import Counter


def serve(counter: Counter, pieces: BinaryIO, answers: BinaryIO) -> None:
    """Do each piece as it comes."""
    for line in iter(pieces.readline, b""):
        answers.write(b"%d\n" % counter.do(*json.loads(line)))
        answers.flush()


def main(arguments: list[str]) -> None:
    """Serve until the input ends."""
    n, *shared = map(int, arguments)
    array = np.frombuffer(mmap.mmap(shared[1], shared[0]), dtype=np.bool_) if shared else None
    counter = Counter(n, array)
    sys.stdout.buffer.write(b"0\n")  # it is prepared
    sys.stdout.buffer.flush()
    serve(counter, sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(sys.argv[1:])
