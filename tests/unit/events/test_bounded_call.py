"""Functions of a kind of another package take a second at most, and end no program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from events.kinds.kind import Kind
from events.kinds.packages import bounded_call
from events.kinds.packages.bounded_call import BoundedCalls, Unbounded, bounded
from events.kinds.probe import KIND

OPEN_S = 100.0  # nothing waits that long

# Each function of a kind, put where `call` finds it.
PLACES: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Kind], Callable[..., Any]]]] = {
    "title": (lambda call: {"title": call}, lambda kind: kind.title),
    "check": (lambda call: {"check": call}, lambda kind: kind.check),
    "asks": (lambda call: {"asks": call}, lambda kind: kind.asks),
    "measures": (lambda call: {"measures": call}, lambda kind: kind.measures),
    "weights": (lambda call: {"weights": call}, lambda kind: kind.weights or kind.title),
    "scheduled_as": (lambda call: {"scheduled_as": call}, lambda kind: kind.scheduled_as or kind.title),
    "normal": (lambda call: {"normal": call}, lambda kind: kind.normal or kind.title),
    "lines": (lambda call: {"lines": {"x": call}}, lambda kind: kind.lines["x"]),
    "drawn": (lambda call: {"drawn": {"x": call}}, lambda kind: kind.drawn["x"]),
    "projections": (lambda call: {"projections": {int: call}}, lambda kind: kind.projections[int]),  # type: ignore[index] # int stands in for a fact
}


def test_no_function_of_a_kind_is_without_bounds() -> None:
    callables = {name for name, of in Kind.__annotations__.items() if "Callable" in of or "Projection" in of}
    assert callables == set(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_a_function_that_blocks_is_given_up_and_not_called_again_until_it_has_let_go(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_call, "CALL_S", 0.1)
    begun, until, calls = threading.Event(), threading.Event(), list[threading.Thread]()

    def block(*_: object) -> list[str]:
        calls.append(threading.current_thread())
        begun.set()
        assert until.wait(OPEN_S)
        return ["done"]

    put, take = PLACES[place]
    function = take(bounded(replace(KIND, **put(block))))
    for _ in range(3):
        with pytest.raises(Unbounded):
            function("a", "b")
    assert begun.wait(OPEN_S)
    assert len(calls) == 1
    until.set()
    calls[0].join(OPEN_S)
    monkeypatch.setattr(bounded_call, "CALL_S", OPEN_S)
    assert function("a", "b") == ["done"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("x")])
def test_what_would_end_a_program_is_an_error_like_others(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(Unbounded, match=type(error).__name__) as told:
        BoundedCalls().call(fail)
    assert told.value.__cause__ is error


def test_an_error_and_a_value_are_what_they_were() -> None:
    with pytest.raises(ZeroDivisionError):
        BoundedCalls().call(lambda: 1 / 0)
    assert BoundedCalls().call(lambda a, b: (a, b), 1, 2) == (1, 2)
    assert BoundedCalls().call(lambda: None) is None


def test_a_projection_that_is_a_generator_runs_within_its_bounds() -> None:
    threads = []

    def project(*_: object) -> Iterator[int]:
        threads.append(threading.current_thread())
        yield 1

    made = bounded(replace(KIND, projections={int: project}))  # type: ignore[dict-item]
    (projected,) = made.projections.values()
    assert [*map(repr, projected("fact", "position"))] == ["1"]  # type: ignore[arg-type]
    assert threads[0] is not threading.current_thread()
