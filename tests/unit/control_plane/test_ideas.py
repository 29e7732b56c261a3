"""Which idea a hypothesis stands for."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.kinds.ideation.ideas import ideas_of
from events.runtime.errors import Conflict, Rejected

FOUND = [{"Short Hypothesis": "a"}, {"Short Hypothesis": "b"}]


def make_hypothesis(**fields: Any) -> dict[str, Any]:
    return {
        "idea": "mine", "ideaJson": None, "ideation": {"isOver": True}, "ideas": FOUND, **fields,
    }  # fmt: skip


def test_the_first_idea_is_the_choice_until_a_person_takes_another() -> None:
    assert ideas_of(make_hypothesis()).index == 0
    assert ideas_of(make_hypothesis(ideaIndex=1)).chosen == FOUND[1]
    assert ideas_of(make_hypothesis(ideaIndex=1)).take(0) == FOUND[0]
    assert ideas_of(make_hypothesis(ideaIndex=1)).take(None) == FOUND[1]


def test_a_choice_that_is_gone_is_none() -> None:
    assert ideas_of(make_hypothesis(ideaIndex=5)).index == 0


@pytest.mark.parametrize("ideation", [None, {"isOver": True}])
def test_without_ideas_a_hypothesis_stands_for_its_own(ideation: dict[str, Any] | None) -> None:
    ideas = ideas_of(make_hypothesis(ideation=ideation, ideas=[]))
    assert (ideas.index, ideas.take(None), ideas.take(0)) == (None, "mine", "mine")
    with pytest.raises(Rejected, match="own idea only"):
        ideas.take(1)
    own = {"Short Hypothesis": "in its fields"}
    assert ideas_of(make_hypothesis(ideation=ideation, ideas=[], ideaJson=own)).take(None) == own


def test_a_number_beyond_the_last_is_refused_with_how_many_there_are() -> None:
    with pytest.raises(Rejected, match="has 2, numbered from 0 to 1"):
        ideas_of(make_hypothesis()).take(2)
    with pytest.raises(Rejected, match="has 1, number 0"):
        ideas_of(make_hypothesis(ideas=FOUND[:1])).take(1)


def test_nothing_is_run_while_ideas_are_looked_for() -> None:
    with pytest.raises(Conflict, match="still being looked for"):
        ideas_of(make_hypothesis(ideation={"isOver": False})).take(0)
