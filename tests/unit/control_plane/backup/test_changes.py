"""An entry of the oplog is applied as the server does, and one that nobody here knows is refused."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.upkeep.backup.changes import Drop, Patch, Put, Remove, changes, patched
from events.runtime.errors import Rejected

OURS = {"ns": "fleet.runs"}


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({**OURS, "op": "i", "o": {"_id": 1, "n": 2}}, [Put("runs", 1, {"_id": 1, "n": 2})]),
        (
            {**OURS, "op": "u", "o2": {"_id": 1}, "o": {"_id": 1, "n": 3}},
            [Put("runs", 1, {"_id": 1, "n": 3})],
        ),
        (
            {**OURS, "op": "u", "o2": {"_id": 1}, "o": {"$v": 2, "diff": {"u": {"n": 3}}}},
            [Patch("runs", 1, {"u": {"n": 3}})],
        ),
        ({**OURS, "op": "d", "o": {"_id": 1}}, [Remove("runs", 1)]),
        ({**OURS, "op": "n", "o": {"msg": "nothing"}}, []),
        ({"ns": "fleet.$cmd", "op": "c", "o": {"drop": "runs"}}, [Drop("runs")]),
        ({"ns": "fleet.$cmd", "op": "c", "o": {"create": "runs"}}, []),
        ({"ns": "another.runs", "op": "d", "o": {"_id": 1}}, []),
        (
            {
                "ns": "admin.$cmd",
                "op": "c",
                "o": {"applyOps": [{**OURS, "op": "d", "o": {"_id": n}} for n in (1, 2)]},
            },
            [Remove("runs", 1), Remove("runs", 2)],
        ),
    ],
)
def test_what_an_entry_changes(entry: dict[str, Any], found: list[object]) -> None:
    assert [*changes(entry, "fleet")] == found


@pytest.mark.parametrize(
    "entry",
    [
        {"ns": "fleet.$cmd", "op": "c", "o": {"renameCollection": "fleet.runs", "to": "fleet.others"}},
        {"ns": "fleet.$cmd", "op": "c", "o": {"dropDatabase": 1}},
        {"ns": "admin.$cmd", "op": "c", "o": {"applyOps": [], "partialTxn": True}},
        {"ns": "admin.$cmd", "op": "c", "o": {"applyOps": [], "prepare": True}},
        {**OURS, "op": "u", "o2": {"_id": 1}, "o": {"$v": 1, "$set": {"n": 1}}},
        {**OURS, "op": "u", "o2": {"_id": 1}, "o": {"$v": 2, "diff": 7}},
        {**OURS, "op": "x", "o": {}},
        {**OURS, "op": "i", "o": {}},
        {**OURS, "op": "i", "o": 7},
        {"ns": 7, "op": "i", "o": {}},
        {},
    ],
)
def test_an_entry_that_nobody_here_can_apply_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(Rejected, match="oplog"):
        list(changes(entry, "fleet"))


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        ({"a": 1, "b": 2}, {"d": {"a": False}, "u": {"b": 3}, "i": {"c": 4}}, {"b": 3, "c": 4}),
        ({"a": 1, "b": 2}, {"i": {"a": 3}}, {"b": 2, "a": 3}),
        ({"a": {"b": {"c": 1}}}, {"sa": {"sb": {"u": {"c": 2}}}}, {"a": {"b": {"c": 2}}}),
        ({"a": [1, 2, 3]}, {"sa": {"a": True, "l": 1}}, {"a": [1]}),
        ({"a": [1]}, {"sa": {"a": True, "u3": 9}}, {"a": [1, None, None, 9]}),
        ({"a": [{"x": 1}]}, {"sa": {"a": True, "s0": {"u": {"x": 2}}}}, {"a": [{"x": 2}]}),
        ({"a": [[1, 2]]}, {"sa": {"a": True, "s0": {"a": True, "u1": 3}}}, {"a": [[1, 3]]}),
        ({"a": "newer"}, {"sa": {"u": {"x": 1}}}, {"a": "newer"}),
        ({}, {"sa": {"a": True, "u0": 1}}, {}),
        ({"a": {"b": 1}}, {"sa": {"a": True, "u0": 1}}, {"a": {"b": 1}}),
    ],
)
def test_a_document_is_patched(before: dict[str, Any], diff: dict[str, Any], after: dict[str, Any]) -> None:
    found = patched(before, diff)
    assert found == after
    assert [*found] == [*after], "in the same order"


@pytest.mark.parametrize(
    "diff",
    [
        {"x": {}},
        {"u": 7},
        {"sa": {"a": True, "u-1": 1}},
        {"sa": {"a": True, "u99999999999": 1}},
        {"sa": {"a": True, "b0": 1}},
        {"sa": {"a": True, "l": "1"}},
        {"sa": {"a": True, "s0": 7}},
    ],
)
def test_a_patch_of_no_known_form_is_refused(diff: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        patched({"a": [[1], 2]}, diff)


def test_a_patch_has_a_bounded_depth() -> None:
    document: dict[str, Any] = {}
    diff: dict[str, Any] = {"u": {"x": 1}}
    for _ in range(300):
        document, diff = {"a": document}, {"sa": diff}
    with pytest.raises(Rejected, match="deep"):
        patched(document, diff)
