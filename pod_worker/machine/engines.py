"""Which engines this pod has: the modules and programs by which they run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from events.models.containers import PROGRAM
from events.models.engine import Engine
from events.models.engines import ENGINES, brought
from events.models.rows.command import COMMAND


def engines_here(
    environ: Mapping[str, str], engines: Iterable[Engine] = tuple(ENGINES.values())
) -> list[str]:
    """Return the names of the engines that runs can start here, by the pod's PATH and settings.

    `command` and `docker` are among them where runs may bring a command line, or an image.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), environ.get("PATH") or os.defpath))
    may_bring = brought(environ)
    return [
        *(each.name for each in engines if _is_here(each, path)),
        *([COMMAND.name] if COMMAND.name in may_bring else []),
        *([PROGRAM] if "image" in may_bring and shutil.which(PROGRAM, path=path) else []),
    ]


def _is_here(engine: Engine, path: str) -> bool:
    if not engine.needs:  # it is named by each run itself
        return False
    if engine.needs_is == "module":
        return importlib.util.find_spec(engine.needs) is not None
    return shutil.which(engine.needs, path=path) is not None
