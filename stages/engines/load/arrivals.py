"""When the requests of an open loop are due, whatever the server does with those before; pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from stages.engines.load.plan import Arrivals


def due_after_s(rate_per_s: float, arrivals: Arrivals, chance: random.Random) -> Iterator[float]:
    """Yield without end the seconds after the begin at which a request is due."""
    if arrivals == "constant":
        yield from (number / rate_per_s for number in count())
    after_s = 0.0
    while True:
        after_s += chance.expovariate(rate_per_s)
        yield after_s
