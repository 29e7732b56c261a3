"""What the control plane adds for a kind: modules of the package that the kind names.

The package may have `parts`, `sections`, `routes`, `told`, `estimate`, `upkeep` (its background loops), and
a folder `templates`; each may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from events.kinds import KINDS
from events.runtime.errors import ConfigError


def modules(name: str) -> Mapping[str, ModuleType]:
    """Return the module `name` of each kind's package that has one, by the name of the kind.

    Raises `ConfigError` that names the kind whose package cannot be imported.
    """
    packages = {kind.name: kind.package for kind in KINDS.values() if kind.package}
    found = {kind: _imported(kind, f"{package}.{name}") for kind, package in packages.items()}
    return {kind: module for kind, module in found.items() if module is not None}


def rows(name: str, table: str) -> Mapping[str, Sequence[Any]]:
    """Return `table` of the module `name` of each kind that has one, by the name of the kind.

    Raises `ConfigError`, for a table that is no list too.
    """
    found = {kind: getattr(module, table, None) for kind, module in modules(name).items()}
    problems = [
        f"kind {kind!r}: its `{name}.{table}` is no list; uninstall its package or fix it"
        for kind, each in found.items()
        if not isinstance(each, list | tuple)
    ]
    if problems:
        raise ConfigError(problems)
    return {kind: each for kind, each in found.items() if each is not None}


def _imported(kind: str, module: str) -> ModuleType | None:
    """Return the module, None where there is none. Raises `ConfigError`."""
    try:
        return None if find_spec(module) is None else import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        problem = f"{module} cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError([f"kind {kind!r}: {problem}; uninstall its package or fix it"]) from error


def templates() -> Mapping[str, Path]:
    """Return the folder of each kind's templates, by the name of the kind."""
    packages = {kind.name: _imported(kind.name, kind.package) for kind in KINDS.values() if kind.package}
    places = {kind: package.__file__ for kind, package in packages.items() if package is not None}
    folders = {kind: Path(place).parent / "templates" for kind, place in places.items() if place}
    return {kind: folder for kind, folder in folders.items() if folder.is_dir()}
