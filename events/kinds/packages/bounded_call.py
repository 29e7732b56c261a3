"""Bounds the functions of a kind that another package brings: their time, and what they raise.

Law: a call takes a thread of its own, `CALL_S` at most, and raises an `Exception` or nothing. A kind whose
code holds a thread beyond that is not called again until it has let go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from events.kinds.kind import Kind, Projected

CALL_S: Final = 1.0

T = TypeVar("T")


class Unbounded(Exception):
    """A function of a kind took too long, or raised what would end a program."""


class BoundedCalls:
    """Calls functions of one kind."""

    def __init__(self) -> None:
        self._held: threading.Thread | None = None

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what the function returns, and raise its `Exception`. Raises `Unbounded`."""
        if self._held is not None and self._held.is_alive():
            raise Unbounded("an earlier call has not come to its end")
        returned: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                returned.append(function(*arguments))
            except BaseException as error:  # noqa: BLE001 - a package may do anything
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(CALL_S)
        if returned:
            return returned[0]
        if not raised:
            self._held = thread
            raise Unbounded(f"it took over {CALL_S:g} s")
        if isinstance(raised[0], Exception):
            raise raised[0]
        raise Unbounded(type(raised[0]).__name__) from raised[0]

    def bounded(self, function: Callable[..., T]) -> Callable[..., T]:
        """Return the function with its bounds."""
        return lambda *arguments: self.call(function, *arguments)


def bounded(kind: Kind) -> Kind:
    """Return the same kind with bounds on each of its functions."""
    calls = BoundedCalls()

    def each_of(functions: Mapping[Any, Callable[..., T]]) -> dict[Any, Callable[..., T]]:
        return {name: calls.bounded(function) for name, function in functions.items()}

    return replace(
        kind,
        title=calls.bounded(kind.title),
        check=calls.bounded(kind.check),
        asks=calls.bounded(kind.asks),
        measures=calls.bounded(kind.measures),
        weights=None if kind.weights is None else calls.bounded(kind.weights),
        scheduled_as=None if kind.scheduled_as is None else calls.bounded(kind.scheduled_as),
        normal=None if kind.normal is None else calls.bounded(kind.normal),
        lines=each_of(kind.lines),
        drawn=each_of(kind.drawn),
        projections=each_of({fact: _whole(each) for fact, each in kind.projections.items()}),
    )


def _whole(projection: Callable[..., Iterable[Projected]]) -> Callable[..., Iterable[Projected]]:
    """Return a projection that is at its end when it returns: a generator runs where it is read."""
    return lambda *arguments: [*projection(*arguments)]
