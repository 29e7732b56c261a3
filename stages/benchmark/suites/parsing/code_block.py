"""Finds the program in an answer, pure.

Law: nothing is compiled here: whether it is Python is found out where it runs.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

from stages.benchmark.suites.parsing.thought import without_thought

CODE_CHARS_MAX: Final = 200_000
BLOCKS_MAX: Final = 200

_FENCE: Final = re.compile(
    r"^[ \t]*(?:```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*(?:```+|~~~+)[ \t]*$|\Z)", re.M | re.S
)
_PYTHON: Final = frozenset({"", "python", "python3", "py", "py3", "python2"})
# How a line at the margin begins that is Python, and no sentence.
_CODE_LINE: Final = re.compile(
    r"(?:import \w|from [\w.]+ import\b|def \w+\s*\(|async def |class \w+|@\w|if\b.*:\s*(?:#.*)?$"
    r"|for\b.*:\s*(?:#.*)?$|while\b.*:"
    r"|with\b.*:\s*$|try:|except\b.*:|else:|elif\b.*:|finally:|print\(|return\b"
    r"|[\w.\[\], ]+[-+*/|&]?=(?!=)|[\w.]+\(.*\)\s*$"
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
    """Return whether code defines a function or class of that name."""
    return re.search(rf"^[ \t]*(?:async\s+def|def|class)\s+{re.escape(name)}\b", code, re.M) is not None


def _unfenced(said: str, name: str) -> str | None:
    lines = said.splitlines()
    start = next((place for place, line in enumerate(lines) if _CODE_LINE.match(line)), None)
    if start is None or (name and not defines(said, name) and start):
        return None
    end = start
    while end < len(lines) and (not lines[end].strip() or _CODE_LINE.match(lines[end])):
        end += 1
    code = "\n".join(lines[start:end]).rstrip()
    return code or None


def body_in(answer: str) -> str | None:
    """Return an answer that goes on with a function's body; None where it does not look like one."""
    said = without_thought(answer)
    first, _, rest = said.partition("\n")
    if not _CODE_LINE.match(first) or first.startswith(("def ", "class ")):
        return None
    inner = rest.splitlines()
    end = next((place for place, line in enumerate(inner) if line[:1].strip()), len(inner))
    return "    " + first + "\n" + "\n".join(inner[:end])
