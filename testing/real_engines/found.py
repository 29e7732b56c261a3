"""The engines of this machine, and the model that each of them is tried with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from events.models.containers import PROGRAM
from events.models.engine import Engine
from events.models.engines import ENGINES
from events.models.presence import is_here
from pod_worker.machine.gpu import open_driver
from stages.engines.environment import engine_environment
from stages.engines.weights import SMOLLM2, model_of
from testing.engine_double.row import DOUBLE
from testing.real_engines.cases import Setup

KNOWN: Final[Mapping[str, Engine]] = {**ENGINES, DOUBLE.name: DOUBLE}
MODELS: Final = {
    "file": SMOLLM2.name,
    "hub": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "library": "smollm2:135m",
}
# Greedy answers of others may differ by how requests fell into batches.
EXACT: Final = frozenset({"xllamacpp", "llama-server", DOUBLE.name})


def engines_here(variables: Mapping[str, str], *, in_image: bool) -> Sequence[str]:
    """Return the names of the engines that this machine can start by themselves."""
    if in_image:
        has_docker = shutil.which(PROGRAM, path=variables.get("PATH")) is not None
        return [name for name, each in ENGINES.items() if has_docker and each.image]
    return [name for name, each in ENGINES.items() if each.command and is_here(each, variables)]


def gpus_here() -> int:
    """Return how many NVIDIA GPUs this machine has; 0 where its driver is not there."""
    return len(open_driver().gpus())


def setup_of(name: str, variables: Mapping[str, str], *, model: str, image: str, ready_s: float) -> Setup:
    """Return how an engine is tried. Raises `PipelineError` where it has no such model here."""
    engine = KNOWN[name]
    wanted = model or MODELS[engine.weights]
    return Setup(
        engine=engine,
        model=model_of(engine, wanted, variables),
        name=wanted,
        image=image,
        environment=engine_environment(variables),
        gpus=gpus_here(),
        ready_s=ready_s,
        is_exact=name in EXACT,
    )
