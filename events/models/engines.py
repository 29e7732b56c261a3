"""The engines that there are, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.models.engine import Engine
from events.models.rows.command import COMMAND, commanded
from events.models.rows.llama_cpp import LLAMA_SERVER, XLLAMACPP
from events.models.rows.ollama import OLLAMA
from events.models.rows.sglang import SGLANG
from events.models.rows.transformers import TRANSFORMERS
from events.models.rows.vllm import VLLM
from events.runtime.errors import PipelineError

__all__ = ("BRINGABLE", "ENGINES", "SETTING", "XLLAMACPP", "brought", "engine_named")

SHOWN_CHARS: Final = 100

ENGINES: Final[Mapping[str, Engine]] = {
    each.name: each for each in (XLLAMACPP, LLAMA_SERVER, VLLM, SGLANG, OLLAMA, TRANSFORMERS, COMMAND)
}

# What runs may bring beside the rows: a command line of their own, an image for Docker, a proxy and whom to
# trust behind it. A pod says so.
SETTING: Final = "PODFLEET_ENGINES"
BRINGABLE: Final = ("command", "image", "proxy")


def brought(variables: Mapping[str, str]) -> frozenset[str]:
    """Return what the runs of a pod may bring of engines, by its settings: nothing where it says nothing."""
    return frozenset(each.strip() for each in variables.get(SETTING, "").split(",")) & {*BRINGABLE}


def engine_named(name: str, command: str = "") -> Engine:
    """Return the engine of this name, whose template is `command` where it has none.

    Raises `PipelineError` with the code CONFIG for none, and for what is no template.
    """
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise PipelineError("CONFIG", f"there is no engine {name[:SHOWN_CHARS]!r}; there are {known}")
    return commanded(command) if name == COMMAND.name else ENGINES[name]
