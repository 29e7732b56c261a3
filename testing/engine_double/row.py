"""The row of the double of an engine: as long as it is served, it is like any other."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from events.models.engine import Engine
from events.models.parameter import Impossible, Parameter, Tried

WORDS: Final = ("{python}", "-P", "-m", "testing.engine_double")
SERVED: Final = ("--model={model}", "--port={port}", "--alias={alias}", "--name={name}")

DOUBLE: Final = Engine(
    name="double",
    title="a server with a known best configuration",
    needs="testing",
    install="it is part of the tests",
    command=(*WORDS, *SERVED),
    option=("--{name}={value}",),
    called="name",
    requests_in="slots",
    parameters=(
        Parameter(
            name="slots",
            says="requests at once",
            type="whole",
            default=4,
            low=1,
            high=64,
            tried=Tried(1, 64, is_log=True),
        ),
        Parameter(
            name="batch",
            says="tokens of a batch",
            type="whole",
            default=256,
            low=16,
            high=4_096,
            tried=Tried(values=(64, 128, 256, 512, 1_024, 2_048)),
        ),
        Parameter(name="threads", says="threads", type="whole", default=2, low=1, high=16, tried=Tried(1, 8)),
        Parameter(
            name="cache",
            says="type of its cache",
            type="choice",
            default="f16",
            choices=("f16", "q8", "q4"),
            tried=Tried(values=("f16", "q8", "q4")),
        ),
        Parameter(
            name="flash",
            says="flash attention",
            type="switch",
            default=False,
            on=("--flash",),
            tried=Tried(values=(True, False)),
        ),
    ),
    impossible=(
        Impossible(
            says="cache is quantised, which needs flash",
            of=("cache", "flash"),
            is_so=lambda given: given["cache"] != "f16" and not given["flash"],
        ),
    ),
)


def misbehaving(*words: str) -> Engine:
    """Return the row of a double with more words of its command line, such as `--never-ready`."""
    return replace(DOUBLE, command=(*DOUBLE.command, *words))
