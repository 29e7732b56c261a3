"""The owner of a port that dies before or after one of its calls, as a process ends in mid-work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


class Died(Exception):
    """The process ended here."""


class DiesAt:
    """A port whose owner dies when a call of `name` has been answered, or before it is made."""

    def __init__(self, port: Any, name: str, *, answered: bool) -> None:
        self._port, self._name, self._answered = port, name, answered

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, name)

        async def call(*arguments: Any, **named: Any) -> Any:
            if name != self._name:
                return await method(*arguments, **named)
            if self._answered:
                await method(*arguments, **named)
            raise Died

        return call
