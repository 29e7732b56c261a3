"""The engine that a run names, if its pod lets it be used: a command or an image of a run needs consent."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping

from events.models.engine import Engine
from events.models.engines import SETTING, brought, engine_named
from events.models.rows.command import COMMAND
from events.runtime.errors import PipelineError


def chosen(name: str, variables: Mapping[str, str], *, command: str = "", image: str = "") -> Engine:
    """Return the engine `name`, whose template is `command` where it has none, in `image` or as a process.

    `variables` are those of the run. Raises `PipelineError`: CONFIG for what there is not, NOT_AVAILABLE for
    what this pod does not let runs bring.
    """
    engine = engine_named(name, command)
    wanted = [word for word, asked in (("command", name == COMMAND.name), ("image", bool(image))) if asked]
    missing = [word for word in wanted if word not in brought(variables)]
    if missing:
        raise PipelineError(
            "NOT_AVAILABLE",
            f"this pod lets no run bring the {' and the '.join(missing)} of an engine: "
            f"{SETTING}={','.join(missing)} would allow that",
            retryable=True,
        )
    return engine


def is_here(engine: Engine, variables: Mapping[str, str]) -> bool:
    """Return whether this machine has what an engine needs to run as a process."""
    if engine.needs_is == "module":
        return importlib.util.find_spec(engine.needs) is not None
    return not engine.needs or shutil.which(engine.needs, path=variables.get("PATH")) is not None
