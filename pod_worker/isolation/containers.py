"""Removes containers that an earlier worker left: those with the label of its pod, or of its slot.

A process ends with its run by a guard. A container's guard can be killed, and Docker keeps the container.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from events.models.containers import PROGRAM, listing_words, removing_words
from events.models.job_containers import slot_listing

CALL_S: Final = 60.0
REMOVED_MAX: Final = 100
WORDS_CHARS: Final = 300
PASSED: Final = (
    *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "HOME"),
    *("XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)

log = logging.getLogger(__name__)


def remove_containers(
    pod: str, environ: Mapping[str, str], client: str = PROGRAM, slot: str | None = None
) -> int:
    """Remove what is left of a pod's containers, or of those of one slot; return how many.

    None where there is no such client.
    """
    known = client_environment(environ)
    if shutil.which(client, path=known["PATH"]) is None:
        return 0
    listing = listing_words(pod=pod, client=client) if slot is None else slot_listing(client, slot)
    try:
        left = _call(listing, known).split()[:REMOVED_MAX]
        if left:
            _call(removing_words(*left, client=client), known)
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", None) or str(error)).strip()[:WORDS_CHARS]
        log.warning("start.containers_left", extra={"why": words})
        return 0
    if left:
        log.info("start.containers_removed", extra={"count": len(left)})
    return len(left)


def client_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the client of a container runtime has of the worker's environment."""
    known = {name: environ[name] for name in PASSED if name in environ}
    return known | {"PATH": environ.get("PATH", os.defpath)}


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
