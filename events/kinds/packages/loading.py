"""Loads the kinds: those of this package, then those that installed packages bring.

Law: a kind that cannot be loaded, or uses a name that exists already, stops the program with a message. No
program works with an incomplete table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NoReturn

from events.kinds.declaring.fields import schema_of
from events.kinds.declaring.spec import Spec
from events.kinds.kind import Kind
from events.kinds.packages.bounded_call import bounded
from events.kinds.results import misdeclared
from events.runtime.errors import ConfigError
from events.text.escaping import for_terminal

GROUP: Final = "podfleet.kinds"
# What the events of every run are called; a kind has families of its own.
FAMILIES: Final = ("ai.run.", "ai.validation.", "ai.artifact.", "ai.result.")
# What every document of a kind has.
OF_DOCUMENTS: Final = frozenset({"_id", "runId", "attempt", "seq"})
EXIT_CONFIG: Final = 2
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


def loaded(rows: Iterable[str], package: str) -> dict[str, Kind]:
    """Return every kind by its name; end the program with a message if one cannot be loaded.

    The table is read while modules are imported, where no program catches anything yet.
    """
    try:
        return load(rows, package)
    except ConfigError as error:
        _end(error)


def load(rows: Iterable[str], package: str) -> dict[str, Kind]:
    """Return every kind by its name: the modules `rows` of the package `package`, then the installed ones.

    Raises `ConfigError`.
    """
    kinds: dict[str, Kind] = {}
    for row in rows:
        kinds[row] = import_module(f"{package}.{row}").KIND
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        kind = _installed(point)
        try:
            problems = [_broken(point, problem) for problem in conflicts(kind, kinds)]
        except Exception as error:  # a package may name anything
            raise ConfigError([_broken(point, f"{type(error).__name__}: {error}")]) from error
        if problems:
            raise ConfigError(problems)
        kinds[kind.name] = bounded(kind)
    return kinds


def conflicts(kind: Kind, known: Mapping[str, Kind]) -> Iterator[str]:
    """Yield the conflicts of `kind` with the known ones, as text."""
    if not _NAME.fullmatch(kind.name):
        yield f"the name {kind.name!r} is not made of a-z, 0-9 and _, or is over 40 characters"
    if kind.name in known:
        yield f"there is a kind {kind.name!r} already"
    facts = {name for each in known.values() for name in each.facts}
    for name in kind.facts:
        if not name.startswith("ai.") or name.startswith(FAMILIES):
            yield f"the event {name!r} is not of a family of its own below `ai.`"
        elif name in facts:
            yield f"there is an event {name!r} already"
    collections = {name for each in known.values() for name in collections_of(each)}
    for name in collections_of(kind):
        if name in collections:
            yield f"there is a collection {name!r} already"
    for fact in kind.projections:
        if fact not in kind.facts.values():
            yield f"it projects {fact.__name__}, which is no event of its own"
    yield from _misnamed(kind)


def _misnamed(kind: Kind) -> Iterator[str]:
    """Yield the names in a kind that it does not define, or that have another meaning."""
    if Spec not in kind.spec.__mro__:
        yield f"its specification {kind.spec.__name__} does not extend `Spec`"
        return
    schema_of(kind.spec)
    for form in (kind.spec, *kind.facts.values()):
        if hasattr(form, "__post_init__"):
            yield f"{form.__name__} has a `__post_init__`, which nothing bounds; say it in `check`"
    for label, field in kind.labels.items():
        if field not in kind.spec.__struct_fields__:
            yield f"its label {label!r} is taken from {field!r}, which its specification does not have"
    for each in kind.documents:
        for name in OF_DOCUMENTS.intersection(each.fields):
            yield f"its documents {each.name!r} name a field {name!r}, which every document has"
    yield from misdeclared(kind.results, kind.headline)
    for name in collections_of(kind):
        if not _NAME.fullmatch(name):
            yield f"the collection {name!r} is not made of a-z, 0-9 and _, or is over 40 characters"


def collections_of(kind: Kind) -> Iterator[str]:
    """Yield the collections that belong to `kind`."""
    yield from (each.name for each in kind.documents)
    yield from (each.collection for each in kind.nouns)


def _installed(point: EntryPoint) -> Kind:
    try:
        kind = point.load()
    except (Exception, SystemExit) as error:  # a package may be broken in any way
        raise ConfigError([_broken(point, f"{type(error).__name__}: {error}")]) from error
    if not isinstance(kind, Kind):
        raise ConfigError([_broken(point, f"{point.value} is no `Kind`")])
    return kind


def _broken(point: EntryPoint, problem: str) -> str:
    package = "an installed package" if point.dist is None else f"the package {point.dist.name}"
    return f"kind {point.name!r} of {package}: {problem}; uninstall the package or fix it"


def _end(error: ConfigError) -> NoReturn:
    sys.stderr.write(f"{for_terminal(error.message)}\n")
    raise SystemExit(EXIT_CONFIG) from None
