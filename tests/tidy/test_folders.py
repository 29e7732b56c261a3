"""How the packages are divided: few names in a folder, no circles, and pure where it says so."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from testing.mutation.related_tests import imports

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("podfleet", "control_plane", "pod_worker", "events", "stages", "testing", "scripts")
NAMES_MAX: Final = 15
IMPURE: Final = {
    *(
        "asyncio",
        "bson",
        "fastapi",
        "httpx",
        "pymongo",
        "socket",
        "sqlite3",
        "starlette",
        "subprocess",
        "threading",
    ),
}


def _folders(files: Mapping[str, set[str]]) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Yield every folder with what each name in it imports of the others."""
    folders: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for file, imported in files.items():
        for folder, name in _names(file):
            beside = folders[folder].setdefault(name, set())
            beside.update(other for each in imported for on, other in _names(each) if on == folder)
            beside.discard(name)
    yield from folders.items()


def _names(file: str) -> Iterator[tuple[str, str]]:
    """Yield each folder above a file, and the name there that holds it; `__init__` is no name."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    for depth in range(1, len(parts)):
        yield "/".join(parts[:depth]), parts[depth]


@functools.cache
def _modules() -> dict[str, set[str]]:
    return imports(ROOT, PACKAGES)


def test_no_folder_has_more_names_than_a_reader_keeps_in_mind() -> None:
    crowded = {folder: len(names) for folder, names in _folders(_modules()) if len(names) > NAMES_MAX}
    assert crowded == {}, "divide it into folders"


def test_no_folder_has_a_circle() -> None:
    for folder, names in _folders(_modules()):
        try:
            TopologicalSorter(names).prepare()
        except CycleError as error:
            pytest.fail(f"{folder}: {' -> '.join(error.args[1])}")


def test_a_script_is_one_file() -> None:
    folders = [folder for folder, _ in _folders(_modules()) if folder.startswith("scripts/")]
    assert folders == [], "a command of several modules goes to testing/"


def test_a_circle_between_folders_is_seen() -> None:
    files = {"a/b/one.py": {"a/c/two.py"}, "a/c/two.py": set(), "a/c/three.py": {"a/b/one.py"}}
    with pytest.raises(CycleError):
        TopologicalSorter(dict(_folders(files))["a"]).prepare()


def test_a_module_that_says_pure_does_no_input_or_output() -> None:
    found = []
    for file in _modules():
        tree = ast.parse((ROOT / file).read_text())
        if "pure" in (ast.get_docstring(tree) or "").casefold().replace(",", " ").replace(".", " ").split():
            found += [f"{file}: {name}" for name in sorted(_outside(tree) & IMPURE)]
    assert found == []


def _outside(tree: ast.Module) -> set[str]:
    """Return the packages that a module imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found
