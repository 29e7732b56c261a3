"""Which engines this pod has: the modules and programs by which they run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from events.models.containers import PROGRAM
from events.models.engine import Engine
from events.models.engines import ENGINES


def engines_here(path: str | None, engines: Iterable[Engine] = tuple(ENGINES.values())) -> list[str]:
    """Return the names of the engines that can start here, `docker` among them; `path` is the pod's PATH."""
    searched = os.pathsep.join((str(Path(sys.executable).parent), path or os.defpath))
    return [
        *(each.name for each in engines if _is_here(each, searched)),
        *([PROGRAM] if shutil.which(PROGRAM, path=searched) else []),
    ]


def _is_here(engine: Engine, path: str) -> bool:
    if not engine.needs:  # it is named by each run itself
        return False
    if engine.needs_is == "module":
        return importlib.util.find_spec(engine.needs) is not None
    return shutil.which(engine.needs, path=path) is not None
