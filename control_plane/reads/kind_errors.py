"""What a reader is told where the code of a kind fails; the log has the error once."""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger(__name__)

# Pages that stay current are made again and again: each error of a section is logged once in a process.
_LOGGED: Final[set[tuple[str, str, str]]] = set()


def reported(kind: str, title: str, error: BaseException) -> str:
    """Log the error with its traceback, if it is new, and return the words for the reader."""
    known = (kind, title, type(error).__name__)
    if known not in _LOGGED:
        _LOGGED.add(known)
        log.error("kind.section_failed", exc_info=error, extra={"kind": kind, "section": title})
    return (
        f"the section {title!r} of the kind {kind!r} could not be made; the log of the control plane says why"
    )
