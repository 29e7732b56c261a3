"""What a reader is told where the code of a kind fails; the log has the error once.

Law: a package may raise anything. An outage of the store is no fault of it, nor what ends our own task.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from events.runtime.errors import PodfleetError, Transient

log = logging.getLogger(__name__)

PART_S: Final = 10.0  # for the code of a kind, the store's time included
# Pages that stay current are made again and again: each error is logged once in a process.
_LOGGED: Final[set[tuple[str, str, str]]] = set()

T = TypeVar("T")


async def made(kind: str, title: str, make: Callable[[], Awaitable[T]], failed: Callable[[str], T]) -> T:
    """Return what the code of a kind makes within `PART_S`, else what `failed` makes of the words.

    Raises `Transient`.
    """
    try:
        async with asyncio.timeout(PART_S):
            return await make()
    except BaseException as error:  # noqa: BLE001 - a package may do anything
        return failed(words_for(kind, title, error))


class KindFailed(PodfleetError):
    """A route of a kind failed; the caller is told which."""

    def __init__(self, kind: str, route: str) -> None:
        words = f"the route {route!r} of the kind {kind!r} failed; the log of the control plane says why"
        super().__init__("kind_failed", words)


def words_for(kind: str, title: str, error: BaseException) -> str:
    """Return words for the reader of `title`; a new error is logged. Raises what is no fault of a kind."""
    _blame(kind, "section", title, error)
    return (
        f"the section {title!r} of the kind {kind!r} could not be made; the log of the control plane says why"
    )


def route_failed(kind: str, route: str, error: BaseException) -> KindFailed:
    """Return what answers a request; a new error is logged. Raises what is no fault of a kind."""
    _blame(kind, "route", route, error)
    return KindFailed(kind, route)


def _blame(kind: str, part: str, name: str, error: BaseException) -> None:
    """Log an error of a kind's code that is new. Raises what is no fault of a kind."""
    if isinstance(error, Transient | GeneratorExit) or _is_ours(error):
        raise error
    known = (kind, name, type(error.__cause__ or error).__name__)
    if known not in _LOGGED:
        _LOGGED.add(known)
        log.error(f"kind.{part}_failed", exc_info=error, extra={"kind": kind, part: name})


def _is_ours(error: BaseException) -> bool:
    """Say whether somebody ends the program or cancels the running task; in other threads nobody can."""
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
