"""Tells the language of a text by its script and its most frequent small words, pure but for their file.

Law: where a script is written by several languages, the one with most of its small words in the text is
chosen; no small word at all is no language.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from functools import cache
from importlib.resources import files
from typing import Final

LETTERS_MAX: Final = 20_000

# A script is the first word of the names of its letters in Unicode.
_ONLY: Final = {
    "GUJARATI": "gu", "GURMUKHI": "pa", "TAMIL": "ta", "TELUGU": "te", "KANNADA": "kn", "MALAYALAM": "ml",
    "BENGALI": "bn", "THAI": "th", "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh",
    "GREEK": "el", "HEBREW": "he",
}  # fmt: skip


def language_of(text: str) -> str | None:
    """Return the code of the language in which most of a text is written; None where nothing tells."""
    scripts = Counter(map(_script, filter(str.isalpha, text[:LETTERS_MAX])))
    if not scripts:
        return None
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > scripts["CJK"] / 10 and scripts["CJK"]:
        return "ja"
    script = scripts.most_common(1)[0][0]
    if script in _ONLY:
        return _ONLY[script]
    said = Counter(re.findall(r"[^\W\d_][\w\u0900-\u097f]*", text[:LETTERS_MAX].lower()))
    languages = _small_words().get(script, {})
    scores = {language: sum(said[word] for word in small) for language, small in languages.items()}
    best = max(scores, key=lambda language: scores[language], default=None)
    return best if best is not None and scores[best] else None


@cache
def _small_words() -> dict[str, dict[str, frozenset[str]]]:
    """Return the small words of each language, by its script; a line of the file is one language."""
    told: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    text = (
        files("stages.kinds.benchmark.suites.instructions")
        .joinpath("small_words.txt")
        .read_text(encoding="utf-8")
    )
    for script, language, *words in map(str.split, text.splitlines()):
        told[script][language] = frozenset(words)
    return told


def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split()[0]
