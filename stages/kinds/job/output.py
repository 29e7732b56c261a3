"""Which files of a program's output folder are kept; links and special files are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from events.files.paths import BadPath, RunPath
from events.files.patterns import matches

LOOKED_AT_MAX: Final = 100_000  # entries of the folder, folders as well

LeftOut = Callable[[str, str], None]  # is told the name of what is left out, and why


def _in_silence(name: str, why: str) -> None:
    pass


def kept_files(
    folder: Path, patterns: Sequence[str], left_out: LeftOut = _in_silence
) -> Iterator[tuple[str, Path]]:
    """Yield the relative name and the place of each file that matches a pattern, in the order of names."""
    for name in sorted(plain_files(folder, left_out)):
        if any(matches(name, each) for each in patterns):
            yield name, folder / name


def plain_files(folder: Path, left_out: LeftOut = _in_silence) -> Iterator[str]:
    """Yield the relative names of the files below a folder that no link leads to, and whose names are fit.

    It calls itself never, and looks into no folder that lies too deep for a fit name: a thousand nested
    folders, and folders without a file, are within its bounds.
    """
    looked_at, waiting = 0, [""]
    while waiting:
        here = waiting.pop()
        for entry in _entries(folder, here, left_out):
            looked_at += 1
            if looked_at > LOOKED_AT_MAX:
                left_out(here or ".", f"a folder has more than {LOOKED_AT_MAX:,} entries")
                return
            name = f"{here}/{entry.name}" if here else entry.name
            try:
                RunPath(name)
            except BadPath as error:
                left_out(name, str(error))
                continue
            if _is(entry.is_dir):
                waiting.append(name)
            elif _is(entry.is_file):
                yield name
            else:
                left_out(name, "it is a link, or no plain file")


def entries_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield all that lies below a folder, in no order, however deep: it calls itself never."""
    waiting = [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as found:  # some go, or are too deep for a path
            for entry in found:
                yield entry
                if _is(entry.is_dir):
                    waiting.append(entry.path)


def _entries(folder: Path, here: str, left_out: LeftOut) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder / here) as found:
            yield from found
    except OSError as error:  # it is gone, or may not be entered
        left_out(here or ".", f"its files cannot be listed: {error.strerror}")


def _is(what: Callable[..., bool]) -> bool:
    try:
        return what(follow_symlinks=False)
    except OSError:  # it is gone
        return False
