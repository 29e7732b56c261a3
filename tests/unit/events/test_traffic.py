"""The words of traffic: what is read, what is refused with words, and what is drawn."""

from __future__ import annotations

import random
import statistics
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.text.traffic import (
    SCENARIOS_MAX,
    TEXT_CHARS_MAX,
    TOKENS_MAX,
    Audio,
    Embedding,
    Fixed,
    Normal,
    Picture,
    Rerank,
    Scenario,
    Uniform,
    read_scenarios,
)

TOKENS = st.integers(1, TOKENS_MAX)
SPREAD = st.integers(0, TOKENS_MAX)
PAIRS = st.tuples(TOKENS, TOKENS).map(sorted)
SCENARIOS: st.SearchStrategy[Scenario] = st.one_of(
    st.builds(Fixed, TOKENS, TOKENS),
    st.builds(Normal, TOKENS, SPREAD, TOKENS, SPREAD),
    st.builds(lambda one, two: Uniform(*one, *two), PAIRS, PAIRS),
    st.builds(Uniform, st.just(1), TOKENS, st.just(1), TOKENS),
    st.builds(Embedding, TOKENS),
    st.builds(Rerank, TOKENS, TOKENS),
    st.builds(Picture, st.integers(1, 16_384), st.integers(1, 16_384)),
    st.builds(Audio, st.integers(1, 86_400)),
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("D(100,100), D(200,200)", (Fixed(100, 100), Fixed(200, 200))),
        ("D(100,100)", (Fixed(100, 100),)),
        ("D(100,100),D(50,50)", (Fixed(100, 100), Fixed(50, 50))),
        (" D( 100 , 100 ) ,, D (50,50),\n", (Fixed(100, 100), Fixed(50, 50))),
        ("N(480,240)/(300,150)", (Normal(480, 240, 300, 150),)),
        ("U(50,100) / (200,250), U(100,200)", (Uniform(50, 100, 200, 250), Uniform(1, 100, 1, 200))),
        ("E(1024),R(1024,100)", (Embedding(1_024), Rerank(1_024, 100))),
        ("I(512,256), A(10)", (Picture(512, 256), Audio(10))),
        (["D(100,100)", "", "D(50,50), E(8)"], (Fixed(100, 100), Fixed(50, 50), Embedding(8))),
        (["D(100", "100)", "D(50", "50)"], (Fixed(100, 100), Fixed(50, 50))),  # once split at every comma
    ],
)
def test_a_list_is_split_at_commas_outside_of_brackets(
    text: str | list[str], read: tuple[Scenario, ...]
) -> None:
    assert read_scenarios(text) == read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no scenario"),
        (" , ,", "there is no scenario"),
        ("D(100,100), X(3)", r"'X\(3\)' is no scenario: write one as D\(100,100\), .* or A\(10\)"),
        ("d(100,100)", r"'d\(100,100\)' is no scenario"),
        ("D(100)", r"'D\(100\)' is no scenario: write D\(100,100\)$"),
        ("D(1 00,100)", "is no scenario"),
        ("D(-1,100)", "is no scenario"),
        ("D(\u0661\u0660,100)", "is no scenario"),  # digits, and no ASCII
        ("D(100,100", r"'D\(100' is no scenario"),
        ("D(100,100)/(1,1)", r"write D\(100,100\)$"),
        ("U(1,2,3)", r"write U\(50,100\)/\(200,250\) or U\(100,200\)$"),
        ("D(0,100)", "0 is not from 1 to 1,000,000"),
        ("D(100,1000001)", "1,000,001 is not from 1 to"),
        ("N(1,2)/(0,2)", "0 is not from 1 to"),
        ("U(9,3)/(1,1)", "9 is more than 3"),
        ("I(20000,1)", "20,000 is not from 1 to 16,384"),
        (",".join(["E(1)"] * (SCENARIOS_MAX + 1)), "64 scenarios at most, not 65"),
        (" " * (TEXT_CHARS_MAX + 1), "2,000 characters at most, not 2,001"),
        ([1, 2], "scenarios are texts"),
    ],
)
def test_what_is_no_scenario_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_scenarios(text)


@given(st.lists(SCENARIOS, min_size=1, max_size=20))
def test_what_is_written_is_read_as_the_same(scenarios: list[Scenario]) -> None:
    assert read_scenarios(", ".join(map(str, scenarios))) == tuple(scenarios)
    assert read_scenarios([str(each) for each in scenarios]) == tuple(scenarios)


@given(st.one_of(st.text(), st.text(alphabet="DNUERIA()/,0123456789 \n"), st.lists(st.text("D(),1"))))
def test_every_text_is_read_or_refused_with_words(text: str | list[str]) -> None:
    with suppress(ValueError):
        assert read_scenarios(text)


@given(SCENARIOS, st.integers())
def test_what_is_drawn_is_within_bounds_and_the_same_for_a_seed(scenario: Scenario, seed: int) -> None:
    if isinstance(scenario, Rerank | Picture | Audio):
        return
    drawn = scenario.drawn(random.Random(seed))
    assert drawn == scenario.drawn(random.Random(seed))
    assert 1 <= drawn[0] <= TOKENS_MAX
    assert (0 if isinstance(scenario, Embedding) else 1) <= drawn[1] <= TOKENS_MAX


def test_lengths_are_spread_as_the_words_say() -> None:
    chance = random.Random(7)
    normal = [Normal(480, 60, 300, 30).drawn(chance) for _ in range(2_000)]
    assert statistics.fmean(each for each, _ in normal) == pytest.approx(480, abs=8)
    assert statistics.stdev(each for _, each in normal) == pytest.approx(30, abs=3)
    uniform = [Uniform(5, 10, 1, 3).drawn(chance) for _ in range(500)]
    assert {each for each, _ in uniform} == {5, 6, 7, 8, 9, 10}
    assert {each for _, each in uniform} == {1, 2, 3}
    assert min(Normal(1, 500, 1, 500).drawn(chance)) == 1
