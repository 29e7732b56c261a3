"""`python -m scripts.chaos`: runs a campaign."""

import argparse
import tempfile
from pathlib import Path

from events.clock import SystemClock, SystemIds
from scripts.chaos.campaign import Settings, World, run

p = argparse.ArgumentParser()
p.add_argument("--seconds", type=float, default=600)
p.add_argument("--seed", type=int)
p.add_argument("--home", type=Path)
a = p.parse_args()
ids = SystemIds()
home = a.home or Path(tempfile.mkdtemp(prefix="chaos-"))


def ex(fleet, trouble):
    print(trouble)


run(
    Settings(seed=a.seed or 1, seconds=a.seconds, home=home),
    World(clock=SystemClock(), ids=ids, say=lambda s: print(s, flush=True)),
    ex,
)
print(home)
