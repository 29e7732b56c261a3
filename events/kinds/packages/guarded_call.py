"""Calls the functions of a kind, which another package may have written in any way, pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def asked(call: Callable[[], T], failed: Callable[[str], T]) -> T:
    """Return what `call` returns, else what `failed` makes of the name of its error."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - no kind ends a program, or the page of another one
        return failed(type(error).__name__)
