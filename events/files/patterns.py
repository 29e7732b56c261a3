"""Patterns of the files of a run: `*` stays in its folder, `**/` stands for any folders, or none; pure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

ANY_FOLDERS: Final = "**"


def matches(name: str, pattern: str) -> bool:
    """Say whether a relative path matches a pattern; one that ends with `/**` means all below its folder."""
    parts, (*folders, last) = name.split("/"), pattern.split("/")
    reached = {0}  # up to where in the path the pattern may have come
    for each in folders:
        if not reached:
            return False
        if each == ANY_FOLDERS:
            reached = set(range(min(reached), len(parts)))
        else:
            reached = {at + 1 for at in reached if at + 1 < len(parts) and fnmatchcase(parts[at], each)}
    if last == ANY_FOLDERS:
        return bool(reached)
    return len(parts) - 1 in reached and fnmatchcase(parts[-1], last)
