"""What of a node's code a page shows: all of it, or what its parent does not have."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.kinds.experiment.code_change import AROUND, code_change, with_changes

LINES = [f"line {number}" for number in range(100)]
PARENTS = "\n".join(LINES)


def changed(*numbers: int) -> str:
    return "\n".join("new" if number in numbers else line for number, line in enumerate(LINES))


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (changed(50), (51 - AROUND, 51 + AROUND)),
        (changed(40, 60), (41 - AROUND, 61 + AROUND)),
        (changed(0), (1, 1 + AROUND)),
        (changed(99), (100 - AROUND, 100)),
        (f"{PARENTS}\nnew", (101 - AROUND, 101)),
        ("\n".join(LINES[1:]), (1, AROUND)),
        (PARENTS, (101 - AROUND, 100)),
    ],
)
def test_of_a_code_those_lines_are_shown_that_are_not_its_parents(code: str, shown: tuple[int, int]) -> None:
    found = code_change(code, PARENTS, "A/1")
    assert found is not None
    assert (found.parent, found.first, found.last) == ("A/1", *shown)
    assert found.lines == "\n".join(code.splitlines()[found.first - 1 : found.last])


@pytest.mark.parametrize("code", [changed(1, 98), "", "another program", "\n" * 5_000])
def test_a_code_that_is_another_one_is_shown_whole(code: str) -> None:
    assert code_change(code, PARENTS, "A/1") is None


def node(name: str, code: str | None, parent: str | None = None, *, best: bool = False) -> dict[str, Any]:
    return {"id": name, "code": code, "parent": parent, "best": best}


def test_first_programs_and_those_that_go_on_are_shown_whole() -> None:
    told = with_changes(
        [
            node("A/1", PARENTS),
            node("A/2", changed(50), "A/1"),
            node("A/3", changed(51), "A/1", best=True),
            node("B/1", changed(52), "A/9"),
            node("B/2", None, "A/1"),
            node("B/3", PARENTS, "B/3"),
        ]
    )
    assert [each["id"] for each in told if each["change"]] == ["A/2"]
