"""What the part of a kind in the control plane tells an attempt: nothing where it fails or says too much."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from control_plane.reads.kinds import told as kind_told
from control_plane.reads.kinds.told import TOLD_BYTES_MAX, tellers_of_kinds, told_to
from control_plane.store.reads import RunReads
from events.kinds import KINDS
from events.runtime.errors import ConfigError, Transient

READS: Any = RunReads(SimpleNamespace())  # type: ignore[arg-type] # nothing is asked of it


def told(answer: Any) -> dict[str, Any]:
    async def tell(reads: RunReads, run_id: str) -> Mapping[str, Any]:
        assert (reads, run_id) == (READS, "R")
        if isinstance(answer, BaseException):
            raise answer
        found: Mapping[str, Any] = answer
        return found

    return asyncio.run(told_to("experiment", tell, READS, "R"))


def test_an_attempt_is_told_what_its_kind_tells() -> None:
    assert told({"verdicts": {"iris test": 2}}) == {"verdicts": {"iris test": 2}}
    assert asyncio.run(told_to("probe", None, READS, "R")) == {}


@pytest.mark.parametrize(
    "answer",
    [ZeroDivisionError(), SystemExit(), {"x": "x" * TOLD_BYTES_MAX}, {"x": object()}, ["no mapping"]],
    ids=["raises", "ends", "too much", "no JSON", "a list"],
)
def test_a_kind_that_fails_tells_nothing(answer: Any) -> None:
    assert told(answer) == {}


def test_an_outage_of_the_store_is_no_fault_of_a_kind() -> None:
    with pytest.raises(Transient):
        told(Transient("away", "no answer"))


def test_a_kind_says_that_it_tells_something_if_it_does() -> None:
    assert set(tellers_of_kinds()) == {kind.name for kind in KINDS.values() if kind.tells}


def test_what_is_no_function_stops_the_program_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_told, "modules", lambda _: {"hello": SimpleNamespace(told=7)})
    with pytest.raises(ConfigError, match=r"'hello'.*is no function"):
        tellers_of_kinds()
