"""The sandbox of a job: what its program sees there, which is its own folders and what it reads.

Law: the choice is the run's; a pod may demand the sandbox for all, and then a program that chose none keeps
the network. Nothing that the program was given to read can be written there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from events.kinds.job import SANDBOX, JobSpec
from stages.context import Context
from stages.isolation.sandbox import Job, Start

SETTING: Final = "PODFLEET_JOB_ISOLATION"
SOURCE: Final = Path(__file__).parents[3]
SHOWN: Final = ("podfleet", "events")  # what a program imports of the project: `podfleet.run`, and clients
GPUS: Final = "CUDA_VISIBLE_DEVICES"
OF_NETWORK: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")

# How a program is started in a folder, with an environment; None is as any process.
Starter = Callable[[Path, Mapping[str, str]], Start | None]


def starter(context: Context, readable: Iterable[Path], *, needs_network: bool = False) -> Starter:
    """Return how the programs of a job are started; `readable` is what they may see besides their own.

    The sandbox is tried out first. Raises `PipelineError` where it holds nothing.
    """
    assert isinstance(context.spec, JobSpec)
    spec, variables = context.spec, context.tools.variables
    is_asked = spec.isolation == SANDBOX
    is_container = bool(spec.image) and not needs_network
    if is_container or (not is_asked and variables.get(SETTING) != SANDBOX):
        return lambda _folder, _environment: None
    network = needs_network or spec.network or not is_asked
    certificates = (variables.get(name) for name in (OF_NETWORK if network else ()))
    shown = (*readable, *(SOURCE / each for each in SHOWN), *(Path(each) for each in certificates if each))
    job = Job(
        folder=context.workspace,
        script="",
        readable=tuple(each for each in shown if os.path.exists(each)),
        gpu=0 if variables.get(GPUS, "all") else None,
        network=network,
        is_session=True,
    )

    found = context.tools.sandbox.start(job, context.workspace, {})
    if not needs_network:
        why = "" if is_asked else ", since this pod demands it"
        reach = "with" if network else "without"
        context.log(f"the program is held by {found.isolation.name}, {reach} the network{why}")
    return lambda folder, environment: context.tools.sandbox.start(job, folder, environment)
