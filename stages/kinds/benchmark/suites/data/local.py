"""Finds the data of a suite on this pod: in the operator's folders, or in an installed package.

Law: a name that a run gives leads to a file inside of the operator's folders, or to nothing; whether anything
lies outside is not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from stages.kinds.benchmark.suites.data.records import ENDINGS, ending_of
from stages.kinds.benchmark.suites.data.sources import DataRefused, DataSources, NeedsSetup
from stages.kinds.benchmark.suites.item import Suite

DEPTH_MAX: Final = 3
FILES_MAX: Final = 200
ENTRIES_MAX: Final = 10_000  # of a folder that is looked through


def local_files(suite: Suite, folders: tuple[Path, ...]) -> list[Path]:
    """Return the files of a built-in suite, by its names; empty where there are none."""
    names = [_plain(name) for name in suite.local]
    for folder in folders:
        for entry in _entries(folder):
            if entry.is_dir() and _plain(entry.name) in names:
                if found := _of_split(list(_files_in(entry, DEPTH_MAX)), suite.split):
                    return found[:FILES_MAX]
            elif (end := ending_of(entry)) and _plain(entry.name[: -len(end)]) in names and entry.is_file():
                return [entry]
    return []


def packaged_file(package: str, path: str) -> Path | None:
    """Return a file of an installed package, without importing it; None where there is none."""
    found = find_spec(package)
    folders = (found.submodule_search_locations or ()) if found is not None else ()
    return next((file for folder in folders if (file := Path(folder) / path).is_file()), None)


def named_file(name: str, sources: DataSources) -> list[Path]:
    """Return the file, or those of the folder, that a run names. Raises `NeedsSetup` and `DataRefused`."""
    places = [folder.resolve() for folder in sources.folders]
    if not places:
        raise NeedsSetup("this pod names no folder whose files runs may read: set PODFLEET_DATASETS")
    for place in places:
        try:
            path = (place / name).resolve()
            if not path.is_relative_to(place):
                continue
            if path.is_dir():
                inside = [file for file in _files_in(path, DEPTH_MAX) if file.resolve().is_relative_to(place)]
                return _of_split(inside, "")[:FILES_MAX]
            if path.is_file():
                if ending_of(path) is None:
                    raise DataRefused(f"{name!r} does not end in {', '.join(ENDINGS)}")
                return [path]
        except (OSError, RuntimeError, ValueError) as error:
            raise DataRefused(f"{name!r} cannot be looked up") from error
    raise NeedsSetup(f"{name!r} is in no folder of PODFLEET_DATASETS on this pod: put it there")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:ENTRIES_MAX]
    except OSError:
        return []


def _files_in(folder: Path, depth: int) -> Iterator[Path]:
    for entry in _entries(folder):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and depth:
            yield from _files_in(entry, depth - 1)
        elif ending_of(entry) and entry.is_file():
            yield entry


def _of_split(files: list[Path], split: str) -> list[Path]:
    """Return the files whose names fit, in their natural order; all where no name does."""
    fitting = [file for file in files if split and re.search(split, file.as_posix(), re.I)]
    return sorted(
        fitting or files, key=lambda file: [int(each) if each.isdigit() else each for each in _parts(file)]
    )


def _parts(file: Path) -> list[str]:
    return [each for each in re.split(r"(\d+)", "/" + file.as_posix()) if each]
