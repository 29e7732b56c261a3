"""The seven fields of an idea as it leaves the pipeline: bounded, printable, with a name of its own.

Pure. Law: whatever wrote an idea, twenty of them fit into one event.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from events.kinds.declaring.spec import TITLE_MAX
from events.kinds.idea import Idea

# Bytes of each field as JSON: twenty ideas with their reasons stay below a frame's `LINE_MAX_BYTES`.
FIELD_BYTES_MAX: Final[Mapping[str, int]] = {
    "title": 400,
    "short_hypothesis": 1_200,
    "related_work": 2_000,
    "abstract": 1_800,
    "experiments": 1_800,
    "risks": 1_200,
}
ITEMS_MAX: Final = 12  # steps of an experiment, or risks
RAW_CHARS_MAX: Final = 10_000  # of a text that is looked at: an answer may be megabytes long
NAME_MAX: Final = 60
NEEDED: Final[Mapping[str, str]] = {
    "title": "Title",
    "short_hypothesis": "Short Hypothesis",
    "abstract": "Abstract",
    "experiments": "Experiments",
    "risks": "Risk Factors and Limitations",
}
ORDER: Final = (
    "Name",
    "Title",
    "Short Hypothesis",
    "Related Work",
    "Abstract",
    "Experiments",
    "Risk Factors and Limitations",
)
CUT: Final = "…"


def bounded(idea: Idea, taken: Collection[str] = ()) -> Idea:
    """Return `idea` as it can travel: clean, short enough, named in snake_case unlike any name in `taken`."""
    title = _text(idea.title, "title")
    if len(title) > TITLE_MAX:
        title = title[: TITLE_MAX - 1].rstrip() + CUT
    return Idea(
        name=unique(snake_case(idea.name[:RAW_CHARS_MAX]) or snake_case(title) or "idea", taken),
        title=title,
        short_hypothesis=_text(idea.short_hypothesis, "short_hypothesis"),
        related_work=_text(idea.related_work, "related_work"),
        abstract=_text(idea.abstract, "abstract"),
        experiments=fitted(idea.experiments, FIELD_BYTES_MAX["experiments"]),
        risks=fitted(idea.risks, FIELD_BYTES_MAX["risks"]),
    )


def _text(text: str, field: str) -> str:
    return _clean(text, FIELD_BYTES_MAX[field])


def _clean(text: str, size: int) -> str:
    return cut(printable(text[:RAW_CHARS_MAX]), size)


def fitted(value: str | Sequence[str], size: int) -> str | list[str]:
    """Return a text, or its parts, in at most `size` bytes of JSON."""
    if isinstance(value, str):
        return _clean(value, size)
    texts = (printable(part[:RAW_CHARS_MAX]) for part in value)
    parts = list(islice((part for part in texts if part), ITEMS_MAX))
    room = size - 3 * len(parts)  # quotes and commas
    kept = []
    for number, part in enumerate(parts):
        kept.append(cut(part, room // (len(parts) - number)))
        room -= json_bytes(kept[-1])
    return kept


def printable(text: str) -> str:
    """Return `text` without characters that control something: terminals, directions, encodings."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    visible = "".join(
        letter for letter in lines if letter == "\n" or unicodedata.category(letter) not in _UNSEEN
    )
    visible = re.sub(r"[^\S\n]+", " ", visible)
    return re.sub(r" ?\n ?(?:\n ?)*", "\n", visible).strip()


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def cut(text: str, size: int) -> str:
    """Return `text`, or as many of its first words as fit into `size` bytes of JSON."""
    if json_bytes(text) <= size:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if json_bytes(text[:middle]) + len(CUT.encode()) <= size else (low, middle - 1)
        )
    head = text[:low]
    words, _, rest = head.rpartition(" ")
    return (words if words and len(rest) < 40 else head).rstrip() + CUT


def json_bytes(text: str) -> int:
    """Return the bytes of `text` as JSON, without its quotes."""
    return len(msgspec.json.encode(text)) - 2


def snake_case(text: str) -> str:
    """Return `text` as a name: lower-case letters, digits and underscores; empty where it has none."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    return name[:NAME_MAX].rstrip("_")


def unique(name: str, taken: Collection[str]) -> str:
    """Return `name`, with a number where it is taken."""
    number, free = 2, name
    while free in taken:
        free = f"{name}_{number}"
        number += 1
    return free


def missing(idea: Idea) -> list[str]:
    """Return the public names of the fields that an idea must have and this one has not."""
    return [title for field, title in NEEDED.items() if not _is_said(getattr(idea, field))]


def _is_said(value: str | list[str]) -> bool:
    return any(each.strip() for each in ([value] if isinstance(value, str) else value))


def public(idea: Idea) -> dict[str, Any]:
    """Return `idea` under its seven public names, in their order."""
    fields: dict[str, Any] = msgspec.to_builtins(idea)
    return {name: fields[name] for name in ORDER}
