"""A claim was replicated on another pod only by the record of the attempts."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.model.result_replication import ASKED, ELSEWHERE, SAME, asked_by, believed, pods_until


def attempts(*pods: str | None, asked: int | tuple[int, ...] = 1) -> list[dict[str, Any]]:
    """Return the record of attempts on these pods, of which some asked for a replication."""
    made = asked if isinstance(asked, tuple) else (asked,)
    return [
        {"attempt": number, "pod": pod, "validation": {"replication": ASKED} if number in made else None}
        for number, pod in enumerate(pods, start=1)
    ]


def place(made: list[dict[str, Any]], said: str | None = ELSEWHERE, attempt: int | None = None) -> Any:
    (found,) = believed([{"attempt": attempt or len(made), "verdict": "pass", "replication": said}], made)
    return found["replication"]


@pytest.mark.parametrize(
    "made",
    [
        attempts("alpha/1", "beta/2"),
        attempts("alpha/1", "alpha/2", "beta/1", asked=2),
        attempts("alpha/1", "beta/1", "beta/2"),  # it began the replication before, and died
        attempts("alpha/1", None, "beta/2"),
    ],
)
def test_another_pod_than_all_until_the_one_that_asked_is_another(made: list[dict[str, Any]]) -> None:
    assert place(made) == ELSEWHERE


@pytest.mark.parametrize(
    "made",
    [
        attempts("alpha/1", "alpha/2"),
        attempts("alpha/1", "beta/1", "alpha/9", asked=2),
        attempts("alpha/1", "beta/2", asked=()),
        attempts("alpha/1", "beta/1", "beta/2", asked=(1, 2)),
        attempts("beta/1"),
        attempts("alpha/1", "beta/2", asked=2),
        attempts(None, "beta/2"),
        attempts("alpha/1", None),
        attempts("alpha/1", "", asked=1),
        attempts("alpha/1", "beta/2")[1:],
        [],
    ],
)
def test_a_pod_that_says_so_without_a_record_of_it_is_the_same(made: list[dict[str, Any]]) -> None:
    assert place(made, attempt=len(made) or 2) == SAME


@pytest.mark.parametrize("said", [None, ASKED, SAME])
def test_what_says_less_is_left_as_it_was_said(said: str | None) -> None:
    assert place(attempts("alpha/1", "beta/2"), said) == said
    assert believed([{"attempt": 1, "by": "human", "verdict": "pass"}], []) == [
        {"attempt": 1, "by": "human", "verdict": "pass"}
    ]


def test_pods_are_told_by_their_names_and_those_that_nobody_knows_as_unknown() -> None:
    made = attempts("alpha/1", "alpha/2", None, "beta/1")
    assert pods_until(made, 2) == ["alpha"]
    assert pods_until(made, 4) == ["alpha", "", "beta"]
    assert pods_until([*made, {"attempt": 3, "pod": "gamma/1"}], 4) == ["alpha", "gamma", "beta"]
    assert pods_until([], 1) == [""]


def test_a_replication_was_asked_for_where_an_earlier_attempt_did() -> None:
    made = attempts("alpha/1", "beta/1", "beta/2", asked=2)
    assert [asked_by(made, before) for before in (1, 2, 3, 4)] == [[], [], [2], [2]]
