"""Finds the sentences of an answer that declare what it is, pure."""

from __future__ import annotations

import re
from typing import Final

REST_CHARS_MAX: Final = 400
DECLARATIONS_MAX: Final = 50  # the last ones

_KEY: Final = (
    r"(?:answers?(?:'s)?|ans\b\.?|(?:final|correct|right|best|selected|chosen|my)\s+(?:choice|option"
    r"|selection|letter)"
    r"|antwort|r[ée]ponse|respuesta|risposta|resposta|ответ|答案|答え)"
)
_FILLED: Final = (
    r"(?:\s*\([^()\n]{0,40}\)|\s+(?:to|for|of|in)\s[^\n.:=?!]{0,60}?"
    r"|\s*,?\s+(?:choice|option|letter|value|here|therefore|thus|then|hence|now|key|must|should|would"
    r"|will|can only),?){0,2}"
)
_SAYS: Final = (
    r"(?:\s*[\"'*_]*\s*(?:[:=>]|-+>|→)+|(?<='s|s\.)\s|\s+-\s|\s+(?:is|was|are|be|ist|est|es|è|é|equals"
    r"|(?:comes|came|works|turns) (?:out )?to(?: be)?)\b(?!\s+not\b)"
    r"(?:\s+(?:thus|therefore|then|hence|clearly|simply))?\s*:?|\s*[是为は]\s*:?)"
)
_DECLARED: Final = re.compile(
    rf"(?<!to )(?<!</)\b{_KEY}{_FILLED}{_SAYS}|(?:答案|答え){_FILLED}{_SAYS}"
    rf"|^[^\w\n]*(?:the\s+|my\s+|final\s+|correct\s+){{0,3}}{_KEY}[^\w\n]*\n",
    re.IGNORECASE | re.MULTILINE,
)
GAVE_UP: Final = re.compile(
    r"\b(?:can(?:no|')t|can not|unable to|could not|couldn't|do(?:es)? not know|don't know"
    r"|(?:not|don't|doesn't) have (?:enough|sufficient)|not sure"
    r"|no idea|not enough"
    r"|insufficient|impossible to (?:say|determine|know|tell)|not (?:possible|provided|given|specified)"
    r"|i(?:'m| am) sorry|cannot be (?:determined|answered|solved))\b",
    re.IGNORECASE,
)

# How a text ends that was cut off in the middle of a sentence.
UNFINISHED: Final = re.compile(
    r"(?:[,=+*/(:\-]|\b(?:so|and|or|the|is|are|was|we|to|of|by|that|then|which|have|has|can|if|with|for|from|in))\s*\Z",
    re.IGNORECASE,
)


def declared(text: str) -> list[str]:
    """Return what follows each declaration of an answer in plain text, the last one last."""
    found = list(_DECLARED.finditer(text))[-DECLARATIONS_MAX:]
    return [text[match.end() : match.end() + REST_CHARS_MAX].lstrip(" \t\r\n\"'>*:") for match in found]
