"""References come from look-ups that happened, and from nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from stages.kinds.ideation.literature_lookup import (
    FAILED_MAX,
    FAILURES_MAX,
    LOOK_UPS_MAX,
    NONE_FOUND,
    NONE_MADE,
    LookUps,
    without_references,
)
from stages.ports.literature import LookUpFailed, Work

SMOOTH = Work(title="When does smoothing help?", authors=("A. One", "B. Two"), year=2019, venue="Proceedings")
MIXING = Work(
    title="Mixing examples", authors=("C.", "D.", "E.", "F."), year=2018, url="https://example.org/m"
)


@dataclass
class Index:
    """Finds by a word of the query."""

    works: dict[str, list[Work]] = field(default_factory=dict)
    is_down: bool = False
    queries: list[str] = field(default_factory=list)

    def search(self, query: str, limit: int) -> list[Work]:
        self.queries.append(query)
        if self.is_down:
            raise LookUpFailed("503 from the index")
        return [work for word, works in self.works.items() if word in query for work in works][:limit]


def test_a_work_is_cited_by_its_number_and_an_invented_number_is_nothing() -> None:
    look_ups = LookUps(Index({"smooth": [SMOOTH], "mix": [MIXING, SMOOTH]}), pytest.fail)
    assert look_ups.search("smooth labels") == [1]
    assert look_ups.search("mix up") == [2, 1]
    said = look_ups.related_work(
        [(1, "It studies one network."), (7, "Never seen."), (0, "Nor this.")], "We add doses."
    )
    assert said == (
        "A. One, B. Two (2019). When does smoothing help?. Proceedings. It studies one network.\n"
        "We add doses."
    )
    assert "C., D., E. et al. (2018). Mixing examples." in look_ups.listed([2])


@pytest.mark.parametrize(
    "sentence",
    [
        "Smith et al. showed this.", "This is known (Müller, 2019).", "See [3] and [4, 5].",
        "It is on arXiv.",
        "See https://example.org/paper.", "Guo and Pleiss 2017 measured it.", "A NeurIPS paper says so.",
        "It was shown (2020).", "The doi is 10.1000/1.",
    ],
)  # fmt: skip
def test_a_sentence_that_names_a_work_by_itself_is_taken_out(sentence: str) -> None:
    text = f"Smoothing is common. {sentence} We vary its dose."
    assert without_references(text) == "Smoothing is common. We vary its dose."
    look_ups = LookUps(None, pytest.fail)
    assert look_ups.related_work([(1, "x")], text) == f"{NONE_MADE}\nSmoothing is common. We vary its dose."


def test_words_without_a_reference_stay_as_they_are() -> None:
    text = "A width of 2048 (twice the usual) at 0.1 [units]. It takes 30 epochs, i.e. longer.\nAnd so on."
    assert without_references(text) == text


def test_an_index_that_is_down_is_said_and_left_alone() -> None:
    index, said = Index(is_down=True), list[str]()
    look_ups = LookUps(index, said.append)
    assert [look_ups.search(f"query {number}") for number in range(10)] == [[]] * 10
    assert len(index.queries) == len(said) == FAILURES_MAX
    assert "503 from the index" in said[0]
    assert "no more look-ups" in said[-1]
    assert look_ups.related_work([], "") == NONE_MADE


def test_what_failed_is_not_asked_again_and_an_index_that_fails_now_and_then_is_left_alone_too() -> None:
    index, said = Index(), list[str]()
    look_ups = LookUps(index, said.append)
    for number in range(20):
        for index.is_down in (True, False):
            look_ups.search(f"{'down' if index.is_down else 'up'} {number}")
            look_ups.search("down 0")
    assert len(said) == FAILED_MAX
    assert index.queries.count("down 0") == 1
    assert len(index.queries) == 2 * FAILED_MAX - 1
    assert "no more look-ups" in said[-1]
    assert not any("no more look-ups" in each for each in said[:-1])


def test_the_same_query_is_asked_once_and_all_queries_are_bounded() -> None:
    index = Index({"": [SMOOTH]})
    look_ups = LookUps(index, pytest.fail)
    for number in range(LOOK_UPS_MAX + 10):
        look_ups.search("smooth")
        look_ups.search(f"another {number}")
    assert len(index.queries) == len(set(index.queries)) == LOOK_UPS_MAX
    assert len(look_ups.works) == 1
    assert look_ups.related_work([], "") == NONE_FOUND
