"""The engines that there are, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from events.models.engine import Engine
from events.models.rows.command import COMMAND, commanded
from events.models.rows.llama_cpp import LLAMA_SERVER, XLLAMACPP
from events.models.rows.ollama import OLLAMA
from events.models.rows.sglang import SGLANG
from events.models.rows.transformers import TRANSFORMERS
from events.models.rows.vllm import VLLM
from events.runtime.errors import PipelineError

__all__ = (
    "BRINGABLE",
    "ENGINES",
    "PROXY",
    "SETTING",
    "XLLAMACPP",
    "brought",
    "chosen",
    "engine_named",
    "require_consent",
)

SHOWN_CHARS: Final = 100

ENGINES: Final[Mapping[str, Engine]] = {
    each.name: each for each in (XLLAMACPP, LLAMA_SERVER, VLLM, SGLANG, OLLAMA, TRANSFORMERS, COMMAND)
}

# What runs may bring beside the rows: a command line of their own, an image for Docker, a proxy and whom to
# trust behind it. A pod says so.
SETTING: Final = "PODFLEET_ENGINES"
PROXY: Final = "proxy"
BRINGABLE: Final[Mapping[str, str]] = {
    "command": "command", "image": "image", PROXY: "proxy or the certificates"
}  # fmt: skip


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


def chosen(name: str, variables: Mapping[str, str], *, command: str = "", image: str = "") -> Engine:
    """Return the engine `name`, whose template is `command` where it has none, in `image` or as a process.

    `variables` are those of the run. Raises `PipelineError` CONFIG for what there is not, and for what this
    pod does not let runs bring.
    """
    engine = engine_named(name, command)
    wanted = (("command", name == COMMAND.name), ("image", bool(image)))
    require_consent([word for word, is_asked in wanted if is_asked], variables)
    return engine


def require_consent(wanted: Sequence[str], variables: Mapping[str, str]) -> None:
    """Check that this pod lets runs bring what is wanted.

    Raises `PipelineError` CONFIG, retryable: another pod may allow it, and this one is not at fault.
    """
    allowed = brought(variables)
    if missing := [word for word in wanted if word not in allowed]:
        raise PipelineError(
            "CONFIG",
            f"this pod lets no run bring the {' and the '.join(BRINGABLE[word] for word in missing)} of an "
            f"engine: {SETTING}={','.join(missing)} would allow that",
            retryable=True,
        )
