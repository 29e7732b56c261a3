"""Turns markup of answers into plain text: LaTeX, Markdown, and characters with a plain equal, pure.

Law: every replacement is linear in the text, and none adds a character that could be read as a digit or a
letter of an answer.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

NESTED_MAX: Final = 12  # fractions in fractions; deeper ones are left as they are
BOXES_MAX: Final = 50  # the last ones
BOX_CHARS_MAX: Final = 2_000

_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED_RUN: Final = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_VULGAR: Final = re.compile("[¼½¾⅐-⅞]")
_ALIKE: Final = str.maketrans(
    dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-")
    | dict.fromkeys("\u2044\u2215\u00f7", "/")
    | dict.fromkeys("\u00d7\u00b7\u2217", "*")
    | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
    | dict.fromkeys("\u2018\u2019\u201a", "'")
)
_WRAPPED: Final = re.compile(
    r"\\(?:text|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathsf|mathit|mathtt|bf|rm|mbox"
    r"|operatorname|emph"
    r"|boldsymbol|bm|underline|overline|displaystyle)\s*\{([^{}]*)\}"
)
_FRACTION: Final = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_SHORT_FRACTION: Final = re.compile(r"\\[dtc]?frac\s*(\d)\s*(\d)")
_BOX: Final = re.compile(r"(?:\\(?:boxed|fbox|framebox)|(?<![\w\\])boxed)\s*(?=\{)")
_BARE_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s+([-+]?\w+)")
_DEGREES: Final = re.compile(r"\^?\s*\{?\s*\\(?:circ|degree)\b\s*\}?|°")
_GROUPING: Final = re.compile(r"(?<=\d)(?:[\u2009\u202f\u00a0]|\\[,; ])(?=\d{3}(?!\d))|\\!|\u200b")
_SPACES: Final = re.compile(r"\\[,;: ]|\\(?:quad|qquad|left|right|displaystyle|bf|rm)\b|~")
_COMMANDS: Final = {
    r"\times": "*", r"\cdot": "*", r"\div": "/", r"\%": "%", r"\$": "", r"\approx": "≈", r"\(": " ",
    r"\)": " ", r"\[": "\n", r"\]": "\n", r"\{": "{", r"\}": "}", r"\_": "_", r"\#": "#", r"\&": "&",
}  # fmt: skip
_COMMAND: Final = re.compile(
    "|".join(re.escape(each) + (r"\b" if each[-1].isalpha() else "") for each in _COMMANDS)
)
_BOLD: Final = re.compile(r"\*\*|__|`+")
_ITALIC: Final = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+)(?<=\S)\*(?![\w*])")


def plain(text: str) -> str:
    """Return the text without markup; `\\boxed{x}` is x."""
    return _without_marks(_BOX.sub("", _characters(text)))


def boxes(text: str) -> list[str]:
    """Return what stands in each box, in plain text; a box that is not closed is none."""
    found = []
    for match in list(_BOX.finditer(text))[-BOXES_MAX:]:
        inner = _braced(text, match.end())
        if inner is not None:
            found.append((match.start(), plain(inner)))
    found += [(match.start(), plain(match[1])) for match in list(_BARE_BOX.finditer(text))[-BOXES_MAX:]]
    return [inner for _, inner in sorted(found)]


def _characters(text: str) -> str:
    told = _VULGAR.sub(lambda match: " " + unicodedata.normalize("NFKC", match[0]) + " ", text)
    told = _RAISED_RUN.sub(lambda match: "^" + match[0].translate(_RAISED), told)
    told = _SPACES.sub(" ", _GROUPING.sub("", told))
    return unicodedata.normalize("NFKC", told).translate(_ALIKE)


def _without_marks(text: str) -> str:
    told = _DEGREES.sub(" degrees ", text.replace("{,}", ","))
    for _ in range(NESTED_MAX):
        before = told
        told = _FRACTION.sub(r"((\1)/(\2))", _WRAPPED.sub(r"\1", told))
        if told == before:
            break
    told = _SHORT_FRACTION.sub(r"(\1/\2)", told)
    told = _COMMAND.sub(lambda match: _COMMANDS[match[0]], told)
    return _ITALIC.sub(r"\1", _BOLD.sub("", told.replace("$", "")))


def _braced(text: str, start: int) -> str | None:
    """Return what stands between a brace and the one that closes it."""
    depth = 0
    for place in range(start, min(len(text), start + BOX_CHARS_MAX)):
        if text[place] == "{" and text[place - 1] != "\\":
            depth += 1
        elif text[place] == "}" and text[place - 1] != "\\":
            depth -= 1
            if not depth:
                return text[start + 1 : place]
    return None
