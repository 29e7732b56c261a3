"""Rows of results against their events: what differs is found, and made anew, whatever was done to it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.projection import AttemptView, fold, result_id
from control_plane.store.log.events import Arrival, storable
from control_plane.verify.invariants import Case
from control_plane.verify.repair import Change, Insert, Remove, Repair
from control_plane.verify.result_rows import difference, row_repairs
from events import catalog as c
from events.envelope import Event
from events.testing import EPOCH
from tests.unit.control_plane.histories import log_of
from tests.unit.control_plane.rows import Rows

RUN = {"_id": "r", "kind": "probe", "attempt": 2, "lastEventSeq": 0}


def recorded(key: str, value: float) -> c.ResultRecorded:
    return c.ResultRecorded(set="rows", key=key, values={"value": value}, status="done")


def stored_event(event: Event) -> dict[str, Any]:
    return dict(bson.decode(storable(event, Arrival("p", EPOCH)).raw))


def case_of(logs: dict[int, Sequence[Event]], applied: dict[int, int]) -> Case:
    attempts = [{"attempt": each, "lastEventSeq": cursor} for each, cursor in applied.items()]
    run = {**RUN, "lastEventSeq": applied[2]}
    folds = {each: fold(AttemptView("r", each), list(log), 0) for each, log in logs.items()}
    evidence = SimpleNamespace(run_id="r", run=run, attempts=attempts)
    return cast(
        "Case", SimpleNamespace(evidence=evidence, replayed=SimpleNamespace(fields={}, attempts=folds))
    )


def made(logs: dict[int, Sequence[Event]], applied: dict[int, int]) -> Rows:
    """Return the rows as application has stored them."""
    rows = Rows(events=[stored_event(each) for log in logs.values() for each in log])
    for attempt, log in logs.items():
        view = AttemptView("r", attempt, kind="probe")
        for write in fold(view, list(log[: applied[attempt]]), 0).writes.values():
            rows.stored[write.id] = {"_id": write.id, **write.fields, "seq": write.seq}
    return rows


async def repaired(rows: Rows, case: Case) -> list[Repair]:
    """Make the rows equal to the log; return what the first look found."""
    first: list[Repair] | None = None
    for _ in range(5):
        found = [each async for each in row_repairs(rows, case)]
        first = found if first is None else first
        for each in found:
            match each:
                case Insert(document=document):
                    rows.stored[document["_id"]] = dict(document)
                case Change(was=was, sets=sets, drops=drops):
                    kept = {name: value for name, value in was.items() if name not in drops}
                    rows.stored[was["_id"]] = {**kept, **sets}
                case Remove(was=was):
                    del rows.stored[was["_id"]]
        if not found:
            return first
    raise AssertionError("it never ends")


FACTS = st.lists(
    st.one_of(
        st.builds(recorded, st.sampled_from("abc"), st.integers(0, 3)),
        st.just(c.RunLog(message="x")),
    ),
    max_size=8,
)


@given(
    facts=st.tuples(FACTS, FACTS), cursors=st.tuples(st.integers(0, 8), st.integers(0, 8)), seed=st.integers()
)
async def test_rows_are_made_anew_whatever_was_done_to_them(
    facts: tuple[list[Any], list[Any]], cursors: tuple[int, int], seed: int
) -> None:
    logs = {attempt: log_of(said, attempt=attempt) for attempt, said in enumerate(facts, 1)}
    applied = {attempt: min(cursor, len(logs[attempt])) for attempt, cursor in enumerate(cursors, 1)}
    case, rows = case_of(logs, applied), made(logs, applied)
    sound = {identity: dict(each) for identity, each in rows.stored.items()}
    assert await repaired(rows, case) == []
    chance = random.Random(seed)
    for identity in list(rows.stored):
        match chance.randrange(5):
            case 0:
                del rows.stored[identity]
            case 1:
                rows.stored[identity]["values"] = {"value": 99}
            case 2:
                rows.stored[identity] |= {"seq": chance.choice([0, 1, 5, "x"]), "color": "blue"}
            case 3:
                rows.stored[identity]["c1"] = "text"
    rows.stored["r/a2/rows/nobody"] = {"_id": "r/a2/rows/nobody", "runId": "r", "attempt": 2, "seq": 1}
    await repaired(rows, case)
    assert rows.stored == sound


async def test_each_difference_is_told_in_words() -> None:
    logs = {1: [], 2: log_of([recorded("a", 1), recorded("b", 1), recorded("a", 2)], attempt=2)}
    rows, case = made(logs, {1: 0, 2: 3}), case_of(logs, {1: 0, 2: 3})
    one, other = result_id("r", 2, "rows", "a"), result_id("r", 2, "rows", "b")
    rows.stored[one]["values"] = {"value": 9}
    del rows.stored[other]
    rows.stored["x"] = {"_id": "x", "attempt": 2, "seq": 2}
    words = sorted([difference(each) async for each in row_repairs(rows, case)])
    assert words == sorted(
        [
            f"results {one}: values from {{'value': 9}} to {{'value': 2}}: the log says the latter",
            f"results {other} is not stored",
            "results x is stored, and no event tells of it",
        ]
    )


async def test_a_row_ahead_of_the_cursor_is_right_and_one_behind_the_end_is_not() -> None:
    facts = [recorded("a", 1), c.RunCompleted(), recorded("b", 1)]
    logs = {1: [], 2: log_of(facts, attempt=2)}
    rows, case = made(logs, {1: 0, 2: 2}), case_of(logs, {1: 0, 2: 0})
    assert [each async for each in row_repairs(rows, case)] == []
    late = fold(AttemptView("r", 2, kind="probe"), list(logs[2][2:]), 2).writes.values()
    for write in late:
        rows.stored[write.id] = {"_id": write.id, **write.fields, "seq": write.seq}
    assert [type(each) async for each in row_repairs(rows, case)] == [Remove]


@pytest.mark.parametrize("events", [[], [{"attempt": "x", "sequence": None, "type": "ai.result.recorded"}]])
async def test_a_log_of_odd_lines_makes_no_rows(events: list[dict[str, Any]]) -> None:
    case = case_of({1: [], 2: []}, {1: 0, 2: 0})
    assert [each async for each in row_repairs(Rows(events=events), case)] == []
