"""Checks of the form of an answer: its parts, marks, beginning and end, pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from stages.kinds.benchmark.suites.instructions.units import parts

Given = Mapping[str, Any]

ANSWERS: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_FENCE: Final = re.compile(r"\A```(?:json)?\s*\n?(.*?)\n?```\Z", re.IGNORECASE | re.DOTALL)
_POSTSCRIPTS: Final = {
    "P.P.S": re.compile(r"\bp\.\s?p\.\s?s", re.IGNORECASE),
    "P.S.": re.compile(r"\bp\.\s?s\.", re.IGNORECASE),
}


def has_paragraphs(answer: str, given: Given) -> bool:
    """Return whether `***` divides an answer into so many paragraphs, none of them empty."""
    found = parts(answer, r"(?<!\*)\*{3}(?!\*)")
    while found and not found[-1]:
        found.pop()
    if found and not found[0]:
        found.pop(0)
    return all(found) and len(found) == int(given["num_paragraphs"])


def begins_paragraph(answer: str, given: Given) -> bool:
    """Return whether an answer has so many paragraphs, divided by blank lines, and one begins with a word."""
    found = [part for part in parts(answer, r"\n\s*\n") if part]
    nth = int(given["nth_paragraph"])
    if len(found) != int(given["num_paragraphs"]) or not 0 < nth <= len(found):
        return False
    first = re.match(r"[\W_]*([\w'’-]*)", found[nth - 1])
    wanted = given["first_word"].strip().strip("\"'.,!?").casefold()
    return first is not None and first[1].strip("'’-").casefold() == wanted


def has_placeholders(answer: str, given: Given) -> bool:
    """Return whether an answer has at least so many placeholders in square brackets."""
    return len(re.findall(r"\[[^\[\]\n]*\]", answer)) >= int(given["num_placeholders"])


def has_postscript(answer: str, given: Given) -> bool:
    """Return whether an answer has a postscript behind its marker."""
    marker = given["postscript_marker"].strip()
    pattern = _POSTSCRIPTS.get(marker) or re.compile(re.escape(marker), re.IGNORECASE)
    return pattern.search(answer) is not None


def has_bullets(answer: str, given: Given) -> bool:
    """Return whether an answer has exactly so many bullet points (`* ` or `- `)."""
    found = re.findall(r"^[ \t]*(?:\*(?!\*)|-(?!-))[^\n]*\S", answer, re.MULTILINE)
    return len(found) == int(given["num_bullets"])


def is_one_of_answers(answer: str, _: Given) -> bool:
    """Return whether an answer says one of the three sentences that it may choose from."""
    return any(each in answer for each in ANSWERS)


def has_highlights(answer: str, given: Given) -> bool:
    """Return whether an answer highlights at least so many parts by asterisks."""
    found = re.findall(r"\*\*([^*\n]+)\*\*|(?<!\*)\*([^*\n]+)\*(?!\*)", answer)
    return len([1 for pair in found if "".join(pair).strip()]) >= int(given["num_highlights"])


def has_sections(answer: str, given: Given) -> bool:
    """Return whether an answer has at least so many sections, each begun by a word and its number."""
    found = re.findall(rf"(?<!\w){re.escape(given['section_spliter'].strip())}\s?\d+", answer, re.IGNORECASE)
    return len(found) >= int(given["num_sections"])


def is_json(answer: str, _: Given) -> bool:
    """Return whether an answer is JSON, in a code block or bare."""
    fenced = _FENCE.match(answer.strip())
    try:
        json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        return False
    return True


def has_title(answer: str, _: Given) -> bool:
    """Return whether an answer has a title in double angular brackets."""
    return any(title.strip() for title in re.findall(r"<<([^\n<>]+)>>", answer))


def has_two_responses(answer: str, _: Given) -> bool:
    """Return whether six asterisks divide an answer into two different ones."""
    found = parts(answer, r"\*{6}")
    inner = [part for place, part in enumerate(found) if part or 0 < place < len(found) - 1]
    return len(inner) == 2 and all(inner) and inner[0] != inner[1]


def repeats_prompt(answer: str, given: Given) -> bool:
    """Return whether an answer begins with the request."""
    return answer.strip().casefold().startswith(given["prompt_to_repeat"].strip().casefold())


def ends_with(answer: str, given: Given) -> bool:
    """Return whether an answer ends with a phrase; a quotation mark around the whole does not count."""
    return (
        answer.strip()
        .strip('"')
        .rstrip()
        .casefold()
        .endswith(given["end_phrase"].strip().strip('"').casefold())
    )


def is_quoted(answer: str, _: Given) -> bool:
    """Return whether an answer stands in double quotation marks."""
    said = answer.strip()
    return len(said) > 1 and said[0] in '"“' and said[-1] in '"”'
