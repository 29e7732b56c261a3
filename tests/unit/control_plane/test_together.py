"""Runs that are read together come out as each would alone; what is too much at once is read in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from control_plane.store.verify import collecting, queries, together
from control_plane.store.verify.collecting import Unjudged
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.together import TooMuchAtOnce
from events.testing import RUN_ID
from tests.unit.control_plane.test_verify_reads import SOUND, Reads

OTHER: Final = "01K0000000000000000000ZZZZ"


def of_two(**changed: Any) -> dict[str, Sequence[Mapping[str, Any]]]:
    """What is stored of a run, and the same of another, whose documents come first."""
    stored: dict[str, Sequence[Mapping[str, Any]]] = {}
    for collection, documents in SOUND.items():
        its_id = "_id" if collection == "runs" else "runId"
        copies = [
            {**each, "_id": f"{each['_id']}/other", its_id: OTHER, **changed.get(collection, {})}
            for each in documents
        ]
        stored[collection] = [*copies, *documents]
    return stored


class Counting(Reads):
    """Counts how often the store is asked."""

    asked: Final[list[str]] = []

    def _read(self, collection: str, query: Any, order: Any = ()) -> Any:
        self.asked.append(collection)
        return super()._read(collection, query, order)


async def test_two_runs_are_read_with_the_queries_of_one_and_nothing_is_mixed_up() -> None:
    Counting.asked.clear()
    alone = await Counting(SOUND).evidences("runs", [RUN_ID])
    for_one = len(Counting.asked)
    found = await Counting(of_two()).evidences("runs", [RUN_ID, OTHER])
    assert len(Counting.asked) == 2 * for_one
    first, second = found[RUN_ID], found[OTHER]
    assert first == alone[RUN_ID]
    assert isinstance(second, Evidence)
    assert {each["runId"] for each in (*second.log, *second.attempts, *second.stages)} == {OTHER}


async def test_a_run_that_cannot_be_read_takes_nothing_from_the_other() -> None:
    found = await Reads(of_two(runs={"journal": 5})).evidences("runs", [RUN_ID, OTHER])
    assert isinstance(found[RUN_ID], Evidence)
    assert isinstance(found[OTHER], Unjudged)
    assert await Reads(SOUND).evidences("runs", ["gone"]) == {}


async def test_what_is_too_much_at_once_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(map(len, SOUND.values())) * 3 // 2  # of one; each document of these has the size 1
    monkeypatch.setattr(collecting, "STRETCH_BYTES", 1)
    for module in (collecting, together):
        monkeypatch.setattr(module, "HELD_BYTES_MAX", size)
    with pytest.raises(TooMuchAtOnce):
        await Reads(of_two())._together("runs", [RUN_ID, OTHER])
    found = await Reads(of_two()).evidences("runs", [RUN_ID, OTHER])
    assert all(isinstance(each, Evidence) for each in found.values())
    assert len(found) == 2
    for module in (collecting, together):
        monkeypatch.setattr(module, "HELD_BYTES_MAX", 3)
    found = await Reads(of_two()).evidences("runs", [RUN_ID, OTHER])
    assert [getattr(each, "invariant", None) for each in found.values()] == ["too-large"] * 2


async def test_runs_come_in_pages_of_their_own_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(Reads):
        async def run_ids(self, only: str | None = None) -> Any:
            for each in (("runs", "a"), ("runs", "b"), ("runs", "c"), ("ideation_requests", "d")):
                yield each

    monkeypatch.setattr(queries, "TOGETHER_MAX", 2)
    pages = [each async for each in Named(SOUND).pages()]
    assert pages == [("runs", ["a", "b"]), ("runs", ["c"]), ("ideation_requests", ["d"])]
