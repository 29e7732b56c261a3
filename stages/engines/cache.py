"""What models are on this pod: weights of its own, a folder of models, and the cache of the hub's libraries.

Law: it reads names and sizes, follows no link, and looks at a bounded number of files. What it removes can
be fetched again: what somebody put here stays.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from stages.engines.weights import ENDING, FOLDER, WEIGHTS

FILES_MAX: Final = 20_000
MODELS_MAX: Final = 1_000
OF_HUB: Final = "models--"
UNFINISHED: Final = ".incomplete"


@dataclass(frozen=True, slots=True)
class Cached:
    """A model on this pod: its name as an engine is given it, where it lies, its size, and if it is whole."""

    name: str
    path: Path
    size: int
    is_whole: bool = True


def cached(variables: Mapping[str, str], folder: Path = FOLDER) -> list[Cached]:
    """Return the models that engines find here without a network, the largest first."""
    found = [*_files(folder), *_folder(variables.get("MODEL_PATH", "")), *_hub(hub_cache(variables))]
    return sorted(found, key=lambda each: (-each.size, each.name))


def emptied(
    variables: Mapping[str, str], folder: Path = FOLDER, known: Collection[str] = frozenset(WEIGHTS)
) -> list[Cached]:
    """Remove the weights that were fetched into `folder`, and what downloads from the hub left unfinished.

    Returns what was removed. Raises `OSError` for what cannot be.
    """
    fetched = [each for each in _files(folder) if each.name in known]
    unfinished = [
        Cached(path.name, path, path.lstat().st_size, False)
        for path in islice(hub_cache(variables).glob(f"{OF_HUB}*/blobs/*{UNFINISHED}"), FILES_MAX)
    ]
    for each in (*fetched, *unfinished):
        each.path.unlink(missing_ok=True)
    return [*fetched, *unfinished]


def hub_cache(variables: Mapping[str, str]) -> Path:
    """Return where the hub's libraries keep what they fetch."""
    if own := variables.get("HF_HUB_CACHE", "").strip():
        return Path(own)
    home = variables.get("HF_HOME", "").strip()
    return Path(home, "hub") if home else Path(variables.get("HOME", "/"), ".cache", "huggingface", "hub")


def _files(folder: Path) -> Iterator[Cached]:
    for path in _entries(folder):
        if path.suffix == ENDING and path.is_file():
            yield Cached(path.stem, path, path.stat().st_size)


def _folder(place: str) -> Iterator[Cached]:
    for path in _entries(Path(place)) if place.strip() else ():
        size, is_whole = _size(path)
        yield Cached(path.name.removesuffix(ENDING), path, size, is_whole)


def _hub(place: Path) -> Iterator[Cached]:
    for path in _entries(place):
        if path.name.startswith(OF_HUB):
            size, is_whole = _size(path)
            name = path.name.removeprefix(OF_HUB).replace("--", "/")
            yield Cached(name, path, size, is_whole and (path / "snapshots").is_dir())


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(Path(each.path) for each in islice(os.scandir(folder), MODELS_MAX))
    return []


def _size(path: Path) -> tuple[int, bool]:
    """Return the bytes of a file, or of the files below a folder, and whether none is unfinished."""
    if not path.is_dir():
        return path.lstat().st_size, True
    files = (Path(at, name) for at, _, names in os.walk(path) for name in names)
    size, is_whole = 0, True
    for file in islice(files, FILES_MAX):
        is_whole = is_whole and file.suffix != UNFINISHED
        with suppress(OSError):
            size += 0 if file.is_symlink() else file.lstat().st_size
    return size, is_whole
