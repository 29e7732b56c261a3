"""Which tests test a module: the files that import it, found in the source without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDERS: Final = (
    *("podfleet", "control_plane", "pod_worker", "events", "stages"),
    *("testing", "scripts", "tests"),
)
ORDER: Final = ("unit", "contract", "simulation", "integration")  # what is quick and near comes first


@dataclass(frozen=True, slots=True)
class RelatedTests:
    """The test files that import a module; where none does, those that import the modules in `through`."""

    files: tuple[str, ...]
    through: tuple[str, ...] = ()


def find_related(root: Path, module: str) -> RelatedTests:
    """Return the tests of `module`, a path below `root`.

    A test file imports what its support modules below tests/ import. Where no test imports the module, its
    nearest importers that a test does import stand for it.
    """
    files_of = imports(root)
    circle, known = {module}, {module}
    while circle:
        files = sorted(
            (path for path in files_of if _is_test(path) and _reached(files_of, path) & circle), key=rank
        )
        if files:
            return RelatedTests(tuple(files), () if module in circle else tuple(sorted(circle)))
        outer = {path for path, names in files_of.items() if names & circle and not path.startswith("tests/")}
        circle = outer - known
        known |= circle
    return RelatedTests(())


def imports(root: Path, folders: Sequence[str] = FOLDERS) -> dict[str, set[str]]:
    """Return what each file in some folders below `root` imports of the others, as paths of files."""
    paths = {
        path.relative_to(root).as_posix(): path
        for folder in folders
        for path in (root / folder).rglob("*.py")
    }
    return {
        name: {file for each in _names(path) for file in _files(each) if file in paths}
        for name, path in paths.items()
    }


def rank(path: str) -> tuple[int, str]:
    """Return what a test file is sorted by."""
    kind = path.split("/")[1]
    return (ORDER.index(kind) if kind in ORDER else len(ORDER), path)


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a node of a file may import: modules, and what could be modules in them."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        yield from imported(node)


def _files(name: str) -> tuple[str, str]:
    path = name.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")


def _reached(imported: Mapping[str, set[str]], path: str) -> set[str]:
    """Return what a test file imports, by itself or by files of tests/."""
    reached: set[str] = set()
    waiting = [path]
    while waiting:
        new = imported[waiting.pop()] - reached
        reached |= new
        waiting += [each for each in new if each.startswith("tests/")]
    return reached
