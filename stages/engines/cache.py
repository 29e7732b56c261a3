"""What models are on this pod: weights of its own, a folder of models, and the cache of the hub's libraries.

Law: it reads names and sizes, follows no link but those of `MODEL_PATH` that stay in it, and looks at a
bounded number of entries. What it removes can be fetched again: what somebody put here stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final

from events.files.open_beneath import folder_beneath
from events.files.paths import BadPath, RunPath
from stages.engines.weights import ENDING, FOLDER, WEIGHTS

ENTRIES_MAX: Final = 100_000  # files and folders of one look: a second or two
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
    left = iter(range(ENTRIES_MAX))
    found = [
        *_files(folder),
        *_folder(variables.get("MODEL_PATH", ""), left),
        *_hub(hub_cache(variables), left),
    ]
    return sorted(found, key=lambda each: (-each.size, each.name))


def emptied(
    variables: Mapping[str, str], folder: Path = FOLDER, known: Collection[str] = frozenset(WEIGHTS)
) -> list[Cached]:
    """Remove the weights that were fetched into `folder`, and what downloads from the hub left unfinished.

    Returns what was removed. Raises `OSError` for what cannot be, when all else is removed.
    """
    removed: list[Cached] = []
    failure: OSError | None = None
    fetched = ((each, each.path.unlink) for each in _files(folder) if each.name in known)
    for each, remove in chain(fetched, _unfinished(hub_cache(variables))):
        try:
            remove()
        except FileNotFoundError:
            continue
        except OSError as error:
            failure = error
        else:
            removed.append(each)
    if failure is not None:
        raise failure
    return removed


def hub_cache(variables: Mapping[str, str]) -> Path:
    """Return where the hub's libraries keep what they fetch."""
    if own := variables.get("HF_HUB_CACHE", "").strip():
        return Path(own)
    home = variables.get("HF_HOME", "").strip()
    return Path(home, "hub") if home else Path(variables.get("HOME", "/"), ".cache", "huggingface", "hub")


def _files(folder: Path) -> Iterator[Cached]:
    for each in _entries(folder):
        path = Path(each.path)
        if path.suffix == ENDING and each.is_file(follow_symlinks=False):
            yield Cached(path.stem, path, _bytes(each))


def _folder(place: str, left: Iterator[int]) -> Iterator[Cached]:
    base = Path(os.path.realpath(place.strip()))
    for each in _entries(Path(place.strip())) if place.strip() else ():
        size = _size_of_link(each, base, left) if each.is_symlink() else _size(each, left)
        if size is not None:
            yield Cached(each.name.removesuffix(ENDING), Path(each.path), *size)


def _size_of_link(link: os.DirEntry[str], base: Path, left: Iterator[int]) -> tuple[int, bool] | None:
    """Return the size of what a link stands for, as `_size` does; None where that is not beneath `base`.

    Files in there may be links that stay there, too, as snapshots of the hub are; each counts once.
    """
    target = Path(os.path.realpath(link.path))
    if base not in target.parents or not target.exists():
        return None
    sizes, is_whole = dict[tuple[int, int], int](), not _has_unfinished_blobs(target, base, left)
    for at, _, names in os.walk(target) if target.is_dir() else [(str(target.parent), [], [target.name])]:
        if next(left, None) is None:
            break
        for _, name in zip(left, names, strict=False):
            file = Path(os.path.realpath(f"{at}/{name}"))
            is_there = base in file.parents and file.exists() and not name.endswith(UNFINISHED)
            is_whole = is_whole and is_there
            with suppress(OSError):
                if base in file.parents:
                    found = file.stat()
                    sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values()), is_whole


def _has_unfinished_blobs(snapshot: Path, base: Path, left: Iterator[int]) -> bool:
    """Return whether the model of a snapshot has a download that was not finished, beside its snapshots."""
    blobs = Path(os.path.realpath(snapshot.parent.parent / "blobs"))
    if snapshot.parent.name != "snapshots" or base not in blobs.parents:
        return False
    with suppress(OSError), os.scandir(blobs) as entries:
        return any(each.name.endswith(UNFINISHED) for _, each in zip(left, entries, strict=False))
    return False


def _hub(place: Path, left: Iterator[int]) -> Iterator[Cached]:
    for each in _models(place):
        size, is_whole = _size(each, left)
        name = each.name.removeprefix(OF_HUB).replace("--", "/")
        is_there = any(part.name == "snapshots" for part in _folders(Path(each.path)))
        yield Cached(name, Path(each.path), size, is_whole and is_there)


def _models(place: Path) -> Iterator[os.DirEntry[str]]:
    return (each for each in _folders(place) if each.name.startswith(OF_HUB))


def _folders(place: Path) -> Iterator[os.DirEntry[str]]:
    return (each for each in _entries(place) if each.is_dir(follow_symlinks=False))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(islice(entries, MODELS_MAX), key=lambda each: each.name)
    return []


def _unfinished(place: Path) -> Iterator[tuple[Cached, Callable[[], None]]]:
    """Yield what downloads left unfinished, and how each is removed where it was found."""
    left = iter(range(ENTRIES_MAX))
    for model in _models(place):
        with (
            suppress(OSError, BadPath),
            folder_beneath(place, RunPath(f"{model.name}/blobs")) as blobs,
            os.scandir(blobs) as entries,
        ):
            for _, each in zip(left, entries, strict=False):
                if each.name.endswith(UNFINISHED) and each.is_file(follow_symlinks=False):
                    path = Path(model.path, "blobs", each.name)
                    remove = partial(os.unlink, each.name, dir_fd=blobs)
                    yield Cached(each.name, path, _bytes(each), False), remove


def _size(entry: os.DirEntry[str], left: Iterator[int]) -> tuple[int, bool]:
    """Return the bytes of a file, or of the files below a folder, and whether none is unfinished."""
    size, is_whole = 0, True
    for _, each in zip(left, _below(entry), strict=False):
        if each.is_file(follow_symlinks=False):
            is_whole = is_whole and not each.name.endswith(UNFINISHED)
            size += _bytes(each)
    return size, is_whole


def _below(entry: os.DirEntry[str]) -> Iterator[os.DirEntry[str]]:
    """Yield an entry, and all that lies below it where it is a folder."""
    yield entry
    folders = [entry] if entry.is_dir(follow_symlinks=False) else []
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for each in entries:
                yield each
                if each.is_dir(follow_symlinks=False):
                    folders.append(each)


def _bytes(entry: os.DirEntry[str]) -> int:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_size
    return 0
