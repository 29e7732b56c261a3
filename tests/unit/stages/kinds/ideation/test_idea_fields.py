"""An idea leaves the pipeline clean and bounded, whoever wrote it."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from events.catalog import type_of
from events.delivery.pipe import LINE_MAX_BYTES
from events.kinds.idea import Idea
from events.kinds.ideation import IdeationFailed, IdeationGenerated
from pod_worker.child.main import frame_of
from stages.kinds.ideation.found_ideas import WHY_BYTES_MAX, Unfinished
from stages.kinds.ideation.idea_fields import bounded, cut, json_bytes, missing, printable, public

FIELDS = {
    "Name", "Title", "Short Hypothesis", "Related Work", "Abstract", "Experiments",
    "Risk Factors and Limitations",
}  # fmt: skip
texts = st.text(alphabet=st.characters(codec=None), max_size=60)
ideas = st.builds(
    Idea, name=texts, title=texts, short_hypothesis=texts, related_work=texts, abstract=texts,
    experiments=st.lists(texts, max_size=4), risks=texts | st.lists(texts, max_size=4),
)  # fmt: skip


def said(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


@given(ideas)
def test_a_written_idea_has_the_seven_fields_a_snake_case_name_and_nothing_that_controls(idea: Idea) -> None:
    kept = public(bounded(idea))
    assert set(kept) == FIELDS
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", kept["Name"])
    letters = "".join(each for value in kept.values() for each in said(value))
    assert not {unicodedata.category(letter) for letter in letters if letter != "\n"} & {
        "Cc",
        "Cf",
        "Cs",
        "Co",
    }
    assert msgspec.convert(kept, Idea) == bounded(idea)


@given(ideas)
def test_writing_twice_changes_nothing_more(idea: Idea) -> None:
    assert bounded(bounded(idea)) == bounded(idea)


@given(st.text(max_size=80), st.integers(8, 60))
def test_a_cut_text_fits_and_begins_as_it_did(text: str, size: int) -> None:
    short = cut(text, size)
    assert json_bytes(short) <= size
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


def test_twenty_of_the_longest_ideas_with_their_reasons_travel_in_one_event_untouched() -> None:
    for letter in ("a", '"', "\\", "字", "\N{SNOWMAN}", "😀", "/ "):
        wall = letter * 30_000
        idea = Idea(
            name=wall, title=wall, short_hypothesis=wall, related_work=wall, abstract=wall,
            experiments=[wall] * 100, risks=[letter] * 30_000,
        )  # fmt: skip
        kept = bounded(idea)
        unfinished = [Unfinished(n, cut(wall, WHY_BYTES_MAX), kept).public() for n in range(20)]
        for fact in (
            IdeationGenerated(ideas=[public(kept)] * 20),
            IdeationGenerated(ideas=[public(kept)], unfinished=unfinished[1:]),
            IdeationFailed(code="NO_IDEA", message="none", unfinished=unfinished),
        ):
            line = frame_of(fact)
            assert len(line) <= LINE_MAX_BYTES
            assert type_of(type(fact)).encode() in line, letter


def test_no_two_ideas_have_one_name() -> None:
    idea = Idea(name="Größer, WIDER & Deeper!", short_hypothesis="x")
    first = bounded(idea).name
    second = bounded(idea, {first}).name
    assert (first, second, bounded(idea, {first, second}).name) == (
        "groer_wider_deeper", "groer_wider_deeper_2", "groer_wider_deeper_3",
    )  # fmt: skip
    assert bounded(Idea(short_hypothesis="x", title="字字")).name == "idea"


def test_terminal_codes_directions_and_tags_of_lines_are_taken_out() -> None:
    assert (
        printable("\x1b[31mred\x07\r\n\r\n  two\t\N{RIGHT-TO-LEFT OVERRIDE}lines\x00\u2028 \ud800")
        == "[31mred\ntwo lines"
    )


def test_what_an_idea_lacks_is_named_as_people_know_it() -> None:
    assert missing(Idea(short_hypothesis=" ", title="t", abstract="a", experiments=["", " "], risks="r")) == [
        "Short Hypothesis", "Experiments",
    ]  # fmt: skip
