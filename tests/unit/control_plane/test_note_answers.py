"""A note is shown with what became of it: of each thing that it names the last answer that can be read."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.model.views.notes import ANSWERS_SHOWN, TEXT_CHARS_MAX, answered
from events.answers.runs import Note

NOTES: list[Any] = [{"number": number, "at": None, "by": "ada", "text": "width 48"} for number in (1, 2)]


def event(sequence: int, attempt: int = 1, **data: Any) -> dict[str, Any]:
    fields = {"number": 1, "outcome": "waiting", "about": "width 48", "says": "is tried next", **data}
    return {"attempt": attempt, "sequence": sequence, "data": fields}


def shown(*events: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    note = answered(NOTES, events)[0]
    assert isinstance(note, Note)
    return [(each.outcome, each.about, each.node) for each in note.answers]


def test_a_later_answer_about_the_same_takes_the_place_of_an_earlier_one() -> None:
    taken = event(7, outcome="taken", node="Stage_2/1", says="Stage_2/1 tries it")
    other = event(3, about="dropout 7", outcome="refused", says="out of range")
    assert shown(taken, other, event(2)) == [
        ("taken", "width 48", "Stage_2/1"),
        ("refused", "dropout 7", None),
    ]
    again = event(1, attempt=2, outcome="refused", says="no try was left for it")
    assert shown(again, taken) == [("refused", "width 48", None)]


def test_each_note_has_its_own_answers_and_may_have_none() -> None:
    first, second = answered(NOTES, [event(1)])
    assert isinstance(first, Note)
    assert isinstance(second, Note)
    assert (len(first.answers), second.answers) == (1, [])
    assert answered(["… 5 more"], [event(1)]) == ["… 5 more"]


@pytest.mark.parametrize("data", [{"outcome": "adored"}, {"number": 0}, {"says": None}, {"number": 99}])
def test_what_no_note_can_have_is_not_shown(data: dict[str, Any]) -> None:
    assert shown(event(1, **data)) == []


def test_answers_are_bounded() -> None:
    many = [event(each, about=f"{each}", says="x" * 9_000) for each in range(1, 200)]
    note = answered(NOTES, many)[0]
    assert isinstance(note, Note)
    assert len(note.answers) == ANSWERS_SHOWN
    assert max(len(each.says) for each in note.answers) < 2 * TEXT_CHARS_MAX
