"""Finds the data sets in installed packages: a program that reads them knows the rows that judge it.

Law: code stays. A folder is masked whole where nothing in it is code, else the single files that are
tables; what only a package's own code needs to run (arrays beside code) is left. Packages are searched
everywhere that a program can read: other environments and caches hold the same data as ours.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath
from typing import Final

from events.runtime.errors import PipelineError

TABLES: Final = (
    *(".csv", ".tsv", ".arff", ".parquet", ".feather", ".dta", ".sav", ".rda", ".rdata", ".rdb", ".rds"),
    *(".xls", ".xlsx", ".svmlight", ".libsvm", ".jsonl", ".data", "-ubyte"),
    *(".ods", ".arrow", ".orc", ".avro", ".sas7bdat", ".xpt", ".por"),
)
ARRAYS: Final = (".npz", ".npy", ".mat", ".h5", ".hdf5", ".pkl", ".pickle")
PACKINGS: Final = ("", ".gz", ".bz2", ".xz", ".zst", ".zip", ".lz4", ".lzma")
CODE: Final = (".py", ".pyc", ".so", ".pyi", ".pyx", ".pxd", ".r")
# Which, and whose folders, hold data in whatever form where they hold no code.
COLLECTIONS: Final = frozenset({"datasets", "sample_data", "sampledata", "tests", "test"})
PACKED: Final = (".whl", ".conda", ".tar.bz2")  # packages as they were downloaded, data and all
FOLDERS_MAX: Final = 500_000  # below what a program sees: some ten times those of a large installation

_TABLE_ENDS: Final = tuple(f"{end}{packing}" for end in TABLES for packing in PACKINGS) + PACKED
_DATA_ENDS: Final = (*_TABLE_ENDS, *(f"{end}{packing}" for end in ARRAYS for packing in PACKINGS))


@functools.cache
def known_data(visible: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders and files to be masked below these paths; looked for once a process."""
    waiting, masked = _homes_and_packed(visible)
    seen: set[str] = set()
    while waiting:
        folder = os.path.realpath(waiting.pop())
        if folder not in seen and _is_below_any(folder, visible):
            seen.add(folder)
            masked |= _masked_in(folder, waiting)
    whole = {path for path in masked if not any(str(above) in masked for above in PurePath(path).parents)}
    for root in visible:  # which may be a link, and is shown under both names
        real = os.path.realpath(root)
        whole |= {root + path.removeprefix(real) for path in whole if real != root and _is_below(path, real)}
    return tuple(sorted(whole))


def around(root: str, masked: Collection[str]) -> tuple[list[str], list[str]]:
    """Return what is below `root` and nothing masked, and the folders on the way, which may only be listed.

    For means that can allow and not forbid. Links are left out: what they lead to has its own path.
    """
    below = [path for path in masked if _is_below(path, root)]
    if not below:
        return [root], []
    if root in below:
        return [], []
    allowed: list[str] = []
    listed = [root]
    for entry in os.scandir(root):
        if entry.is_symlink():
            continue
        more_allowed, more_listed = around(entry.path, below)
        allowed += more_allowed
        listed += more_listed
    return allowed, listed


def _homes_and_packed(roots: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return every folder of packages at or below the roots, and every package that is packed.

    Raises `PipelineError` where there are too many folders to look at: none may be left out.
    """
    homes = [root for root in roots if _is_home(root)]
    packed: set[str] = set()
    for count, (folder, inner, names) in enumerate(walked for root in roots for walked in os.walk(root)):
        if count == FOLDERS_MAX:
            reason = f"programs would see more than {FOLDERS_MAX} folders, too many to look for data sets in"
            raise PipelineError("NO_ISOLATION", reason)
        packed |= {os.path.realpath(os.path.join(folder, name)) for name in names if name.endswith(PACKED)}
        found = {name for name in inner if _is_home(os.path.join(folder, name))}
        homes += [os.path.join(folder, name) for name in found]
        inner[:] = [name for name in inner if name not in found]  # which are looked at whole
    return homes, packed


def _is_home(folder: str) -> bool:
    """Return whether packages lie in a folder by its name: those of Python, or those of R."""
    *_, above, name = ("", *PurePath(folder).parts)
    return (
        name.endswith("-packages")
        or (above == "R" and name.endswith("library"))
        or (above == "share" and name == "R")
    )


def _masked_in(folder: str, waiting: list[str]) -> set[str]:
    """Return what is to be masked right in a folder; the folders in it join those that wait."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return set()  # which nobody else can read either
    inner = [entry.path for entry in entries if entry.is_dir()]
    data = [entry.path for entry in entries if entry.name.lower().endswith(_DATA_ENDS) and entry.is_file()]
    is_of_collection = not COLLECTIONS.isdisjoint(PurePath(folder).parts[-2:])
    if entries and (data or is_of_collection) and not _holds_code(folder):
        return {folder}
    waiting += [path for path in inner if not path.endswith("/__pycache__")]
    return {os.path.realpath(path) for path in data if path.lower().endswith(_TABLE_ENDS)}


def _holds_code(folder: str) -> bool:
    """Return whether anything below a folder is code."""
    return any(
        name.lower().endswith(CODE) and name.partition(".")[0] != "__init__"
        for _, _, names in os.walk(folder)
        for name in names
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(_is_below(path, folder) for folder in folders)
