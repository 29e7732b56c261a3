"""Numbers as they are written in answers, exact, pure.

Law: a value is an exact fraction of bounded size. What is more than one number (a range, a list, a pair) is
none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from stages.kinds.benchmark.suites.parsing.number_words import SCALES

DIGITS_MAX: Final = 300
POWER_MAX: Final = 300

_PLAIN: Final = rf"\d{{1,{DIGITS_MAX}}}"
_EUROPEAN: Final = r"\d{1,3}(?:\.\d{3})+,\d{1,2}(?![\d.,]*\d)|\d{4,15},\d{1,2}(?![\d.,]*\d)"
_MANTISSA: Final = (
    rf"(?>{_EUROPEAN}|\d{{1,2}}(?:,\d{{2}})+,\d{{3}}(?:\.\d+)?(?!\d|,\d)|\d{{1,3}}(?:[,'_]\d{{3}})+(?:\.\d+)?(?!\d"
    rf"|[,'_]\d)|\d{{1,3}}(?:[ ]\d{{3}}){{2,}}(?!\d)"
    rf"|{_PLAIN}(?:\.{_PLAIN})?(?!\.?\d|,\d)|\.{_PLAIN}(?!\d))"
)
_SCALE: Final = "|".join(SCALES)
# Not a part of a word, a power, a time or a longer number.
NUMBER: Final = re.compile(
    rf"(?<![\w^.:])(?<!\d[,'_])"
    rf"(?P<sign>(?:(?<![\d)])-\s?|\+|(?:negative"
    rf"|minus)\s+)?)[€£¥₹]?\s?(?P<minus>-?)[(]{{0,2}}(?P<inner>-?)\s?"
    rf"(?P<mantissa>{_MANTISSA})[)]?"
    rf"(?:e(?P<exponent>[-+]?\d{{1,3}})|\s?\*\s?10\s?\^\s?[{{(]?(?P<power>[-+]?\d{{1,3}})[}})]?)?"
    rf"(?:\s?/\s?[(]?(?P<under>-?\d{{1,{DIGITS_MAX}}}(?:\.\d{{1,{DIGITS_MAX}}})?)[)]{{0,2}}"
    rf"|[\s(]+(?P<top>\d{{1,9}})[)]?\s?/\s?[(]?(?P<bottom>\d{{1,9}})[)]{{0,2}})?"
    rf"(?P<percent>\s?(?:%|percent\b|per\s?cent\b))?(?:\s?(?P<scale>{_SCALE}|k(?![a-z]))\b)?"
    rf"(?![:]\d)",
    re.IGNORECASE,
)
_POWER: Final = re.compile(r"\s?\^\s?[{(]?(-?\d{1,3})[})]?(?!\s?\^)")


@dataclass(frozen=True, slots=True)
class Value:
    """A number: its exact value, how it was written, and whether as a share of 100."""

    exact: Fraction
    text: str
    is_percent: bool = False

    @property
    def readings(self) -> frozenset[Fraction]:
        """Return what it may stand for: 50 % is 50, and one half."""
        return frozenset((self.exact, self.exact / 100)) if self.is_percent else frozenset((self.exact,))


def value_of(match: re.Match[str]) -> Value | None:
    """Return the number that `NUMBER` found; None for one that is divided by zero, or too large."""
    mantissa = match["mantissa"]
    if re.fullmatch(_EUROPEAN, mantissa):
        mantissa = mantissa.replace(".", "").replace(",", ".")
    exact = Fraction(re.sub("[,'_ ]", "", mantissa))
    if (power := int(match["exponent"] or match["power"] or 0)) and abs(power) > POWER_MAX:
        return None
    exact *= Fraction(10) ** power
    if match["under"] or match["bottom"]:
        under = Fraction(match["under"] or match["bottom"])
        if not under:
            return None
        exact = exact / under if match["under"] else exact + Fraction(int(match["top"])) / under
    if match["scale"]:
        exact *= SCALES.get(match["scale"].lower(), 1_000)
    if re.match(r"\s?\^", match.string[match.end() : match.end() + 2]):
        raised = _POWER.match(match.string, match.end())
        if raised is None or abs(int(raised[1])) * len(match["mantissa"]) > DIGITS_MAX or not exact:
            return None
        exact **= int(raised[1])
    signs = sum(bool(sign.strip("+ ")) for sign in (match["sign"], match["minus"], match["inner"]))
    return Value(-exact if signs % 2 else exact, match[0].strip(), bool(match["percent"]))


def agree(given: Value, wanted: Value, tolerance: float = 0.0) -> bool:
    """Return whether two numbers are the same, within a relative tolerance."""
    if not given.readings.isdisjoint(wanted.readings):
        return True
    margin = Fraction(tolerance)
    return any(
        abs(each - right) <= margin * abs(right) for each in given.readings for right in wanted.readings
    )
