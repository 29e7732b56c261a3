"""A text as plain words: lower case, single spaces, sentences closed by a full stop; pure.

Law: no sign vanishes but those that only part words. Any other becomes a word of its own, which must be
understood like every word.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Final

TEXT_MAX: Final = 4_000  # characters of a text that are read for words
WORDS_MAX: Final = 80  # of a claim
_POINT: Final = "\N{MIDDLE DOT}"
_NUMBERS: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60",
    "hundred": "100",
    "&": "and", "doesn't": "does not", "don't": "do not", "isn't": "is not", "aren't": "are not",
    "won't": "will not", "can't": "cannot", "didn't": "did not", "wouldn't": "would not",
}  # fmt: skip
_THOUSANDS: Final = re.compile(
    r"(?<![\w.,])[1-9]\d{0,2}(?:,\d{3})+(?![\w,])"
)  # 0,005 is no number of thousands
_EXPONENT: Final = re.compile(r"(?<![\w.])(?:\d+(?:\.\d*)?|\.\d+)e-?\d{1,2}(?!\w)")
_DECIMAL: Final = re.compile(r"(?<=\d)\.(?=\d)|(?<![\w.])\.(?=\d)")
_ABBREVIATED: Final = re.compile(r"\bvs\.")
_END: Final = re.compile(r"[.!?;\n]+")
_BELOW_ZERO: Final = re.compile(
    r"(?<![\w)])[-\N{MINUS SIGN}\N{HYPHEN}-\N{HORIZONTAL BAR}](?=[\d\N{MIDDLE DOT}])"
)
_RAISED: Final = re.compile(
    r"[\N{SUPERSCRIPT TWO}\N{SUPERSCRIPT THREE}\N{SUPERSCRIPT ONE}\N{SUPERSCRIPT ZERO}-\N{SUBSCRIPT NINE}]"
)
_PARTING: Final = re.compile(
    r"[\s,:()\[\]\"`=_*\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}-]"
    r"|[\N{HYPHEN}-\N{HORIZONTAL BAR}]|(?<!\w)['\N{LEFT SINGLE QUOTATION MARK}]|'(?!\w)"
)
_SIGN: Final = re.compile(rf"([^\w\s.'%{_POINT}])")
_OWNING: Final = re.compile(r"'s(?!\w)")


def plain(text: str) -> str:
    """Return `text` in plain words."""
    # neither 26 nor 2.3 nor 0.5 is meant by 2⁶, 2·3 and != 0.5
    marked = (
        _RAISED.sub(" ^ ", text[:TEXT_MAX])
        .replace(_POINT, " \N{DOT OPERATOR} ")
        .replace("!=", " \N{NOT EQUAL TO} ")
    )
    folded = unicodedata.normalize("NFKC", marked).lower()
    folded = folded.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    folded = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), folded)
    folded = _EXPONENT.sub(_written_out, folded)
    folded = _DECIMAL.sub(_POINT, _ABBREVIATED.sub("vs", folded))  # 0.5 is no end of a sentence
    folded = _END.sub(" . ", folded)
    folded = _BELOW_ZERO.sub(" minus ", folded)
    folded = _SIGN.sub(r" \1 ", _PARTING.sub(" ", _OWNING.sub("", folded)))
    words = (_NUMBERS.get(word, word) for word in folded.replace(_POINT, ".").split())
    return " ".join(word.strip("'") or word for word in words)


def _written_out(number: re.Match[str]) -> str:
    return f"{Decimal(number[0]):f}"
