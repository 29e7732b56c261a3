"""What a reader is told where the code of a kind fails; the log has the error once.

Law: a package may raise anything. An outage of the store is no fault of it, nor what ends our own task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from events.runtime.errors import Transient

log = logging.getLogger(__name__)

PART_S: Final = 10.0  # for the code of a kind, the store's time included
# Pages that stay current are made again and again: each error of a section is logged once in a process.
_LOGGED: Final[set[tuple[str, str, str]]] = set()

T = TypeVar("T")


@dataclass(slots=True)
class Failure:
    """What went wrong, in words for the reader."""

    words: str = ""


async def made(kind: str, title: str, make: Callable[[], Awaitable[T]], failed: Callable[[str], T]) -> T:
    """Return what the code of a kind makes within `PART_S`, else what `failed` makes of the words.

    Raises `Transient`.
    """
    with guarded(kind, title) as failure:
        async with asyncio.timeout(PART_S):
            return await make()
    return failed(failure.words)


@contextmanager
def guarded(kind: str, title: str) -> Iterator[Failure]:
    """Turn whatever the code of a kind raises into words. Raises `Transient`."""
    failure = Failure()
    try:
        yield failure
    except (Transient, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_canceled():
            raise
        failure.words = _reported(kind, title, error)


def _is_canceled() -> bool:
    """Say whether somebody cancels the running task; beside the event loop nobody can."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _reported(kind: str, title: str, error: BaseException) -> str:
    """Log the error with its traceback, if it is new, and return the words for the reader."""
    known = (kind, title, type(error).__name__)
    if known not in _LOGGED:
        _LOGGED.add(known)
        log.error("kind.section_failed", exc_info=error, extra={"kind": kind, "section": title})
    return (
        f"the section {title!r} of the kind {kind!r} could not be made; the log of the control plane says why"
    )
