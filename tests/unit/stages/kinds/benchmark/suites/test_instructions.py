"""The 25 checks of instructions: an answer that follows, and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stages.kinds.benchmark.suites.instructions.checks import CHECKS, follows, is_fit
from stages.kinds.benchmark.suites.instructions.language import language_of
from stages.kinds.benchmark.suites.instructions.units import sentences

ROWS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("keywords:existence", {"keywords": ["river", "Boat"]}, "A boat on the River.", "A boat on the lake."),
    (
        "keywords:frequency",
        {"keyword": "sea", "frequency": 2, "relation": "at least"},
        "Sea, sea.",
        "The sea is calm.",
    ),
    (
        "keywords:frequency",
        {"keyword": "sea", "frequency": 2, "relation": "less than"},
        "The sea.",
        "Sea, sea.",
    ),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["cat", "dog"]},
        "A catalogue of dogma.",
        "A Dog barks.",
    ),
    (
        "keywords:letter_frequency",
        {"letter": "e", "let_frequency": 3, "let_relation": "at least"},
        "Eleven",
        "Seven? No.",
    ),
    (
        "keywords:letter_frequency",
        {"letter": "!", "let_frequency": 1, "let_relation": "less than"},
        "Oh.",
        "Oh!",
    ),
    (
        "language:response_language",
        {"language": "de"},
        "Das ist ein Haus, und es steht nicht auf dem Berg.",
        "This is a house, and it is not on the hill.",
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "at least"},
        "Dr. Smith came at 5.30 p.m. on Monday. He left.",
        "Dr. Smith came at 5.30 on Monday.",
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        "One.\n***\nTwo.",
        "One.\n\nTwo.",
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        "***\nOne.\n***\nTwo.\n***",
        "One.\n***\n***\nTwo.",
    ),
    (
        "length_constraints:number_words",
        {"num_words": 3, "relation": "less than"},
        "Two words.",
        "Here are three.",
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        'First this.\n\n"Then" that.',
        "First this.\n\nAnd then that.",
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "well-known"},
        "**Well-known** is it.",
        "Well it is known.",
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        "Dear [name], come to [place].",
        "Dear [name], come.",
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        "Bye.\n\nP.S. Call me.",
        "Bye. PS call me.",
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        "Bye.\np. p. s: call",
        "Bye.\nP.S. Call.",
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        "List:\n* one\n- two",
        "List:\n* one\n* two\n* three",
    ),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "- one\n---\n**bold** text", "one\ntwo"),
    ("detectable_format:constrained_response", {}, "My answer is yes.", "Yes."),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        "This is *one* and **two**.",
        "This is **one**, and ** **.",
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\nOne.\nSECTION 2\nTwo.",
        "Section 1\nOne.\nSubsection 2",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": [1, 2]}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<The Sea>>\nIt is wide.", "<< >>\nIt is wide."),
    ("combination:two_responses", {}, "One.\n******\nTwo.", "One.\n******\nOne."),
    ("combination:two_responses", {}, "One.******Two.", "One.\n******\nTwo.\n******\nThree."),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "What is a sea?"},
        "What is a sea?\nWide.",
        "Wide.\nWhat is a sea?",
    ),
    ("startend:end_checker", {"end_phrase": "That is all."}, 'Well. that is all."', "That is all. Bye."),
    ("startend:quotation", {}, '"Well said."', 'He said "well".'),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        "This is VERY, VERY good.",
        "This is VERY good.",
    ),
    ("change_case:english_capital", {}, "THE SEA IS WIDE.", "THE SEA is wide."),
    ("change_case:english_lowercase", {}, "the sea is wide.", "The sea is wide."),
    ("change_case:english_lowercase", {}, "the sea is wide.", "das meer ist nicht tief und es ist kalt."),
    ("punctuation:no_comma", {}, "Wide and deep.", "Wide, deep."),
)


@pytest.mark.parametrize(("name", "given", "good", "bad"), ROWS)
def test_an_answer_follows_or_does_not(name: str, given: dict[str, Any], good: str, bad: str) -> None:
    assert is_fit(name, given)
    assert follows(name, good, given)
    assert not follows(name, bad, given)
    assert not follows(name, " \n", given)


def test_every_instruction_of_the_paper_has_a_check_and_a_row() -> None:
    assert len(CHECKS) == 25
    assert {row[0] for row in ROWS} == CHECKS.keys()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("keywords:existence", {}),
        ("keywords:existence", {"keywords": []}),
        ("keywords:existence", {"keywords": [5]}),
        ("keywords:existence", {"keywords": "river"}),
        ("length_constraints:number_words", {"num_words": -1, "relation": "at least"}),
        ("length_constraints:number_words", {"num_words": 1.5, "relation": "at least"}),
        ("length_constraints:number_words", {"num_words": float("nan"), "relation": "at least"}),
        ("length_constraints:number_words", {"num_words": 10**9, "relation": "at least"}),
        ("length_constraints:number_words", {"num_words": 5, "relation": "about"}),
        ("startend:end_checker", {"end_phrase": ""}),
    ],
)
def test_what_a_check_cannot_use_does_not_fit(name: str, given: dict[str, Any]) -> None:
    assert not is_fit(name, given)


def test_languages_are_told_apart(samples: Path) -> None:
    lines = (samples / "languages.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line.partition(" ") for line in lines]
    assert [language_of(text) for _, _, text in wanted] == [code for code, _, _ in wanted]
    assert len(wanted) == 28


def test_what_has_no_small_word_has_no_language() -> None:
    assert language_of("12345 !?") is None
    assert language_of("Xyzzy plugh") is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two! Three?", 3),
        ("It costs 3.50 dollars. Really?", 2),
        ("J. Smith met Mrs. Jones, e.g. at noon. They spoke.", 2),
        ("Wait... what? Yes.", 3),
        ('He said "no." Then he left.', 2),
        ("No end mark", 1),
        ("It was in 1990. Then it ended.", 2),
        ("1. One item\n2. Another item", 1),
        ("", 0),
        ("...", 0),
    ],
)
def test_sentences_are_counted(text: str, count: int) -> None:
    assert len(sentences(text)) == count
