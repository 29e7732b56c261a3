"""Which engines this pod has: the modules and programs by which they run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping

from events.models.containers import PROGRAM
from events.models.engine import Engine
from events.models.engines import ENGINES, PROXY, brought
from events.models.presence import is_here, search_path
from events.models.rows.command import COMMAND


def engines_here(
    environ: Mapping[str, str], engines: Iterable[Engine] = tuple(ENGINES.values())
) -> list[str]:
    """Return the names of the engines that runs can start here, by the pod's PATH and settings.

    `command`, `proxy` and `docker` are among them where runs may bring a command line, a proxy, or an image.
    """
    may_bring = brought(environ)
    return [
        *(each.name for each in engines if each.needs and is_here(each, environ)),
        *(each for each in (COMMAND.name, PROXY) if each in may_bring),
        *([PROGRAM] if "image" in may_bring and shutil.which(PROGRAM, path=search_path(environ)) else []),
    ]
