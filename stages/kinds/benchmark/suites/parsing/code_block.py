"""Finds the program in an answer, pure.

Law: nothing is compiled here: whether it is Python is found out where it runs.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

from stages.kinds.benchmark.suites.parsing.thought import without_thought

CODE_CHARS_MAX: Final = 200_000
BLOCKS_MAX: Final = 200
INDENT: Final = 4

_FENCE: Final = re.compile(
    r"^[ \t]*(?:```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*(?:```+|~~~+)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON: Final = frozenset({"", "python", "python3", "py", "py3", "python2"})
# How a line at the margin begins that is Python, and no sentence.
_CODE_LINE: Final = re.compile(
    r"(?:(?:if|for|while|elif)\b.*:\s+(?:return|continue|break|pass|yield|raise|\w+\s*[-+*/]?=)|import \w"
    r"|from [\w.]+ import\b|def \w+\s*\(|async def |class \w+|@\w|if\b.*:\s*(?:#.*)?\Z"
    r"|for\b.*:\s*(?:#.*)?\Z|while\b.*:"
    r"|with\b.*:\s*\Z|try:|except\b.*:|else:|elif\b.*:|finally:|print\(|return\b"
    r"|[\w.\[\], ]+[-+*/|&]?=(?!=)|[\w.]+\(.*\)\s*\Z"
    r"|[#)\]}\"']|[ \t]+\S)"
)


def program_in(answer: str, name: str = "") -> str | None:
    """Return the program of an answer, which defines `name` where one is given; None where there is none.

    The last block that defines the name counts, else the last block of all; without a block, the lines
    that are code by their looks.
    """
    said = without_thought(answer)[-CODE_CHARS_MAX:]
    blocks = [match for match in list(_FENCE.finditer(said))[-BLOCKS_MAX:] if match[2].strip()]
    found = [match[2] for match in blocks if match[1].lower() in _PYTHON]
    defining = [each for each in found if name and defines(each, name)]
    if defining or found:
        return textwrap.dedent((defining or found)[-1])
    if blocks:
        return None
    return _unfenced(said, name)


def defines(code: str, name: str) -> bool:
    """Return whether code defines a function or class of that name, or sets it."""
    name = re.escape(name)
    pattern = rf"^[ \t]*(?:(?:async\s+def|def|class)\s+{name}\b|{name}\s*=(?!=))"
    return re.search(pattern, code, re.MULTILINE) is not None


def _unfenced(said: str, name: str) -> str | None:
    lines = said.splitlines()
    start = next((place for place, line in enumerate(lines) if _CODE_LINE.match(line)), len(lines))
    code = "\n".join(_code_lines(lines[start:])).rstrip()
    return code if code and (not name or defines(code, name)) else None


def _code_lines(lines: list[str]) -> list[str]:
    """Return the first lines, as far as they are code by their looks, or in a text of several lines."""
    is_text = False
    for place, line in enumerate(lines):
        if not is_text and line.strip() and not _CODE_LINE.match(line):
            return lines[:place]
        is_text ^= (line.count('"' * 3) + line.count("'" * 3)) % 2 == 1
    return lines


def body_in(answer: str) -> str | None:
    """Return an answer that goes on with a function's body; None where it does not look like one.

    The indentation of its first line may be lost: whoever passes texts on often trims them.
    """
    first, *rest = without_thought(answer)[-CODE_CHARS_MAX:].splitlines() or [""]
    if not _CODE_LINE.match(first):
        return None
    end = next((place for place, line in enumerate(rest) if line[:1].strip()), len(rest))
    if _indentation(first):
        return "\n".join([first, *rest[:end]]) + "\n"
    inner = [_indentation(line) for line in rest[:end] if line.strip()]
    if inner and (not first.rstrip().endswith(":") or min(inner) < inner[0] or inner[0] > INDENT):
        return "\n".join([" " * INDENT + first, *rest[:end]]) + "\n"
    return textwrap.indent("\n".join([first, *_code_lines(rest)]), " " * INDENT) + "\n"


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
