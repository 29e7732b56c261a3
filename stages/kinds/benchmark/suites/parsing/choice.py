"""Finds the option that an answer chooses, pure.

Law: the more clearly something is marked as the answer, the more it counts: a box, a sentence that says so, a
letter at the beginning, the letter of the last line, the text of an option. Where a mark names two options,
nothing less clear decides between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stages.kinds.benchmark.suites.parsing.declaration import GAVE_UP, UNFINISHED, declared
from stages.kinds.benchmark.suites.parsing.plain_text import boxes, plain
from stages.kinds.benchmark.suites.parsing.thought import without_thought

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LINE_CHARS_MAX: Final = 1_000
BEFORE_CHARS: Final = 60  # that may deny what follows
TEXT_CHARS_MAX: Final = 2_000  # of an option that is looked for in an answer

# Words of English that are letters as well: what follows tells whether an option is meant.
_GOES_ON: Final = (
    r"(?=\s*(?:\Z|[\n.,;:!?)\]}\"'<|=-])|\s+(?:because|since|as|for|and|or|is|was|with|which|given|due|so"
    r"|by|from|based|here"
    r"|according|in)\b)"
)
_BRACKETED: Final = r"[(\[{<]\s*(?P<bracketed>[A-Za-z])\s*[)\]}>]"
_CLOSED: Final = r"(?P<closed>[A-Za-z])\s*[):](?!\w)"
_BARE: Final = rf"(?P<bare>[B-HJ-Z])(?![\w&^]|['’]\w)|(?P<word>[AI]){_GOES_ON}"
_SMALL: Final = r"(?P<small>[a-z])(?=\s*(?:\Z|[\n.,;]))"
_LETTER: Final = rf"(?:{_BRACKETED}|{_CLOSED}|{_BARE}|{_SMALL})"
_BEFORE: Final = re.compile(
    r"(?:\s|[\"'*:,-]|\b(?:the|option|choice|letter|answer|statement|number|therefore|thus"
    r"|most likely|likely|probably"
    r"|clearly|indeed|definitely|simply|just|either|both|i think|i believe|would be|is)\b(?!\s*[).]))*",
    re.IGNORECASE,
)
_STARTS: Final = re.compile(_LETTER)
_SECOND: Final = re.compile(
    rf"\s*(?:\b(?:or|and)\b|[/&,])\s*(?:(?:or|and|maybe|perhaps|possibly|even|also|option"
    rf"|choice)\s+){{0,3}}{_LETTER}"
)
_LEADING: Final = re.compile(
    r"^[ \t>#-]*(?:(?:option|choice)\s+)?(?:[(\[](?P<bracketed>[A-Za-z])[)\]]"
    r"|(?P<closed>[A-Z])\s*[).:](?=\s|\Z)|(?P<bare>[A-Z])\s*$)",
    re.MULTILINE,
)
_ALONE: Final = re.compile(r"\s*[(\[]?(?P<bare>[A-Za-z])[)\]]?[.!:]?\s*")
_CHOSEN: Final = re.compile(
    r"\b(?:choose|select|pick|go(?:ing)? with|chose|selected)[\s:]+(?:is\s+)?(?:(?:option|answer|choice)\s+)?"
    rf"{_LETTER}",
    re.IGNORECASE,
)
_CORRECT: Final = re.compile(
    r"(?:[(\[](?P<bracketed>[A-Za-z])[)\]]|\b(?P<bare>[A-Z]))[).:]?\s+(?:is|would be|must be|seems"
    r"|appears(?: to be)?)\s+"
    r"(?:the\s+|most\s+)*(?:correct|right|best|true|answer|only correct|accurate|appropriate)\b"
)
_DENIED: Final = re.compile(
    r"(?:not|n't|rule out|eliminate|exclude|except|neither|nor|wrong|incorrect)\W+(?:\w+\W+){0,2}\Z",
    re.IGNORECASE,
)
_LACKS: Final = re.compile(r"\b(?:unable|cannot|can't|can not|enough|insufficient|impossible)\b[^.\n]*\Z")
_WRONG: Final = re.compile(
    r"\b(?:wrong|incorrect|false|eliminated?|ruled? out|not|excluded?)\b", re.IGNORECASE
)
_BOLD: Final = re.compile(r"\*\*\s*[(\[]?([A-Z])(?:[)\].:]+(?:\s[^*\n]{0,200})?)?\s*\*\*")
_TAGGED: Final = re.compile(r"<answer>\s*(.{0,400}?)\s*</answer>", re.IGNORECASE | re.DOTALL)
# What stands before a letter without brackets that is an option, and no unit, name or variable.
_LEADS: Final = re.compile(
    r"(?:\A|[:>,=-]|\b(?:is|be|to|so|thus|hence|therefore|option|choice|answer|choose|pick|with|say|it's"
    r"|that's|leaves|means|only|go for))\s*\Z",
    re.IGNORECASE,
)
_LAST: Final = re.compile(rf"(?<![\w.'’]){_LETTER}")


def parse_choice(answer: str, options: Sequence[str]) -> int | None:
    """Return the place of the option that an answer chooses; None where it chooses none, or several."""
    said = without_thought(answer)
    text = plain(said)
    for marked in (boxes(said), _TAGGED.findall(text)):
        if marked:
            return _named(marked[-1], options)
    for rest in reversed(declared(text)):
        place = _named(rest, options)
        if place is not None or _names_several(rest, len(options)):
            return place
    for found in (_alone(text, len(options)), _asserted(text, len(options)), _leading(text, len(options))):
        if found is not None:
            return found
    return _concluded(said, text, options)


def _named(text: str, options: Sequence[str]) -> int | None:
    """Return the option that a short text names, by its letter or by its text."""
    head = _BEFORE.match(text)
    start = head.end() if head else 0
    for at in dict.fromkeys((0, start)):
        match = _STARTS.match(text, at)
        if match is not None and (place := _place(match, len(options))) is not None:
            return None if _names_several(text, len(options)) else place
    return _by_text(text, options)


def _names_several(text: str, count: int) -> bool:
    head = _BEFORE.match(text)
    start = head.end() if head else 0
    first = _STARTS.match(text) or _STARTS.match(text, start)
    if first is None or (place := _place(first, count)) is None:
        return False
    second = _SECOND.match(text, first.end())
    other = None if second is None else _place(second, count)
    return other is not None and other != place


def _place(match: re.Match[str], count: int) -> int | None:
    letter = next(group for group in match.groupdict().values() if group is not None)
    place = LETTERS.find(letter.upper())
    return place if 0 <= place < count else None


def _alone(text: str, count: int) -> int | None:
    """Return the option whose letter is all that the first line says."""
    match = _ALONE.fullmatch(text.partition("\n")[0])
    return None if match is None else _place(match, count)


def _asserted(text: str, count: int) -> int | None:
    """Return the option that the last sentence of those calls right, or chooses."""
    found: list[tuple[int, int]] = []
    for pattern in (_CORRECT, _CHOSEN):
        for match in pattern.finditer(text):
            place = _place(match, count)
            before = text[max(0, match.start() - BEFORE_CHARS) : match.start()]
            if place is not None and not _DENIED.search(before) and not _LACKS.search(before):
                found.append((match.start(), place))
    return max(found)[1] if found else None


def _leading(text: str, count: int) -> int | None:
    """Return the option with whose letter the answer, or its only such line, begins."""
    matches = [match for match in _LEADING.finditer(text) if _place(match, count) is not None]
    found = {_place(match, count) for match in matches}
    return found.pop() if len(found) == 1 and not _SECOND.match(text, matches[0].end()) else None


def _concluded(said: str, text: str, options: Sequence[str]) -> int | None:
    """Return the option of the last line: in bold, as its only letter, or by its text."""
    lines = [line[-LINE_CHARS_MAX:] for line in text.splitlines() if line.strip()]
    if not lines or GAVE_UP.search(lines[-1]) or (UNFINISHED.search(lines[-1]) and len(lines[-1]) > 2):
        return None
    goes_through = len({match[0].strip()[:2] for match in _LEADING.finditer(text)}) > 1
    if goes_through and _LEADING.match(lines[-1]):
        return None
    bold = {LETTERS.index(each) for each in _BOLD.findall(said)} & set(range(len(options)))
    if len(bold) == 1:
        return bold.pop()
    line = " ".join(each for each in re.split(r"(?<=[.;!?])\s+", lines[-1]) if not _WRONG.search(each))
    if _joins_two(line, len(options)):
        return None
    last = {
        place
        for match in _LAST.finditer(line)
        if (place := _place(match, len(options))) is not None
        and match.lastgroup != "small"
        and (match.lastgroup == "bracketed" or _LEADS.search(line[: match.start()]))
    }
    if len(last) == 1:
        return last.pop()
    return None if last else _by_text(lines[-1], options)


def _joins_two(line: str, count: int) -> bool:
    """Return whether a line names two options as one answer."""
    return any(
        _place(match, count) is not None
        and (other := _SECOND.match(line, match.end()))
        and _place(other, count) is not None
        for match in _LAST.finditer(line)
    )


def _by_text(text: str, options: Sequence[str]) -> int | None:
    """Return the only option whose text is said; the longest of those that lie within each other."""
    said = _words(text[:TEXT_CHARS_MAX])
    first_line = _words(text.lstrip().partition("\n")[0][:TEXT_CHARS_MAX])
    told = [_words(plain(option)) for option in options]
    equal = [place for place, words in enumerate(told) if words and words in (said, first_line)]
    if equal:
        return equal[0] if len(equal) == 1 else None
    within = [
        place for place, words in enumerate(told) if len(words) > 2 and f" {words} " in f" {first_line} "
    ]
    longest = [
        place
        for place in within
        if not any(other != place and f" {told[place]} " in f" {told[other]} " for other in within)
    ]
    return longest[0] if len(longest) == 1 else None


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w.%/^+=-]*\w[\w%/^+=]*", text.casefold()))
