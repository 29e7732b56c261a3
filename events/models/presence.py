"""Whether this machine has what an engine needs to run as a process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from events.models.engine import Engine


def search_path(variables: Mapping[str, str]) -> str:
    """Return where an engine's program is looked for: beside this Python, then along the PATH."""
    return os.pathsep.join((str(Path(sys.executable).parent), variables.get("PATH") or os.defpath))


def is_here(engine: Engine, variables: Mapping[str, str]) -> bool:
    """Return whether an engine can be started here; one that needs nothing can."""
    if engine.needs_is == "module":
        return importlib.util.find_spec(engine.needs) is not None
    return not engine.needs or shutil.which(engine.needs, path=search_path(variables)) is not None
