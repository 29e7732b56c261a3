"""Removes containers of engines that an earlier worker of this pod left: only those with the pod's own label.

An engine's process ends with its run by a guard. A container's guard can be killed, and Docker keeps the
container.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from events.models.containers import PROGRAM, listing_words, removing_words

CALL_S: Final = 60.0
REMOVED_MAX: Final = 100
WORDS_CHARS: Final = 300

log = logging.getLogger(__name__)


def remove_containers(pod: str, environ: Mapping[str, str]) -> int:
    """Remove what is left of this pod's containers, and return how many; none where there is no Docker."""
    path = environ.get("PATH", os.defpath)
    if shutil.which(PROGRAM, path=path) is None:
        return 0
    client = {name: environ[name] for name in ("DOCKER_HOST", "HOME") if name in environ} | {"PATH": path}
    try:
        left = _call(listing_words(pod=pod), client).split()[:REMOVED_MAX]
        if left:
            _call(removing_words(*left), client)
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", None) or str(error)).strip()[:WORDS_CHARS]
        log.warning("start.containers_left", extra={"why": words})
        return 0
    if left:
        log.info("start.containers_removed", extra={"count": len(left)})
    return len(left)


def _call(words: list[str], environ: Mapping[str, str]) -> str:
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=CALL_S,
        env=dict(environ),
        check=True,
    ).stdout
