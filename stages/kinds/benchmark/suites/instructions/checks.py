"""The 25 checks of verifiable instructions, pure.

Their meaning follows "Instruction-Following Evaluation for Large Language Models" (Zhou et al., 2023,
arXiv:2311.07911, table 1) and its published prompts; the code is this project's own. An answer is judged as
it is ("strict" in the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stages.kinds.benchmark.suites.instructions import form, wording

Given = Mapping[str, Any]

COUNT_MAX: Final = 100_000
ARGUMENT_CHARS_MAX: Final = 100_000
LIST_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Check:
    """Whether an answer follows an instruction, and the names and types of what it needs to know."""

    follows: Callable[[str, Given], bool]
    needs: Mapping[str, type] = field(default_factory=dict)


CHECKS: Final[Mapping[str, Check]] = {
    "keywords:existence": Check(wording.has_keywords, {"keywords": list}),
    "keywords:frequency": Check(wording.repeats_keyword, {"keyword": str, "frequency": int, "relation": str}),
    "keywords:forbidden_words": Check(wording.avoids_words, {"forbidden_words": list}),
    "keywords:letter_frequency": Check(
        wording.repeats_letter, {"letter": str, "let_frequency": int, "let_relation": str}
    ),
    "language:response_language": Check(wording.is_in_language, {"language": str}),
    "length_constraints:number_sentences": Check(
        wording.has_sentences, {"num_sentences": int, "relation": str}
    ),
    "length_constraints:number_paragraphs": Check(form.has_paragraphs, {"num_paragraphs": int}),
    "length_constraints:number_words": Check(wording.has_words, {"num_words": int, "relation": str}),
    "length_constraints:nth_paragraph_first_word": Check(
        form.begins_paragraph, {"num_paragraphs": int, "nth_paragraph": int, "first_word": str}
    ),
    "detectable_content:number_placeholders": Check(form.has_placeholders, {"num_placeholders": int}),
    "detectable_content:postscript": Check(form.has_postscript, {"postscript_marker": str}),
    "detectable_format:number_bullet_lists": Check(form.has_bullets, {"num_bullets": int}),
    "detectable_format:constrained_response": Check(form.is_one_of_answers),
    "detectable_format:number_highlighted_sections": Check(form.has_highlights, {"num_highlights": int}),
    "detectable_format:multiple_sections": Check(
        form.has_sections, {"section_spliter": str, "num_sections": int}
    ),
    "detectable_format:json_format": Check(form.is_json),
    "detectable_format:title": Check(form.has_title),
    "combination:two_responses": Check(form.has_two_responses),
    "combination:repeat_prompt": Check(form.repeats_prompt, {"prompt_to_repeat": str}),
    "startend:end_checker": Check(form.ends_with, {"end_phrase": str}),
    "startend:quotation": Check(form.is_quoted),
    "change_case:capital_word_frequency": Check(
        wording.has_capital_words, {"capital_frequency": int, "capital_relation": str}
    ),
    "change_case:english_capital": Check(wording.is_upper_english),
    "change_case:english_lowercase": Check(wording.is_lower_english),
    "punctuation:no_comma": Check(wording.has_no_comma),
}


def is_fit(name: str, given: Given) -> bool:
    """Return whether an instruction is given what its check needs, within bounds."""
    return all(_is_sound(given.get(each), kind) for each, kind in CHECKS[name].needs.items()) and all(
        given[each] in wording.RELATIONS for each in given if each.endswith("relation")
    )


def follows(name: str, answer: str, given: Given) -> bool:
    """Return whether an answer follows an instruction; one without a word follows none."""
    return bool(answer.strip()) and CHECKS[name].follows(answer, given)


def _is_sound(value: object, kind: type) -> bool:
    if kind is int:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and value in range(COUNT_MAX + 1)
    if kind is list:
        return (
            isinstance(value, list)
            and 0 < len(value) <= LIST_MAX
            and all(_is_sound(each, str) for each in value)
        )
    return isinstance(value, str) and 0 < len(value) <= ARGUMENT_CHARS_MAX
