"""Which files of a program's output folder are kept; links and special files are not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from events.files.paths import BadPath, RunPath
from events.files.patterns import matches

LOOKED_AT_MAX: Final = 100_000  # entries of the folder


def kept_files(folder: Path, patterns: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the relative name and the place of each file that matches a pattern, in the order of names."""
    found = sorted(plain_files(folder))
    for name in found:
        if any(matches(name, each) for each in patterns):
            yield name, folder / name


def plain_files(folder: Path) -> Iterator[str]:
    """Yield the relative names of the files below a folder that no link leads to, and whose names are fit."""
    looked_at = 0
    for here, _, names in os.walk(folder, followlinks=False):
        for name in names:
            looked_at += 1
            if looked_at > LOOKED_AT_MAX:
                return
            path = Path(here, name)
            relative = str(PurePosixPath(path.relative_to(folder)))
            if _is_plain(path) and _is_name(relative):
                yield relative


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # it is gone, or lies in a folder that may not be entered
        return False


def _is_name(text: str) -> bool:
    try:
        RunPath(text)
    except BadPath:
        return False
    return True
