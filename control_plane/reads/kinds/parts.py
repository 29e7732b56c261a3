"""The parts of a run that its kind alone has, for the answer of a run, its page and the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from control_plane.model.kind_packages import rows
from control_plane.model.presentation import plain
from control_plane.reads.kinds.errors import made
from control_plane.reads.kinds.loops import KindLoop
from control_plane.store.database import Database
from control_plane.store.reads import Part, RunReads
from events.answers.runs import Run
from events.runtime.errors import ConfigError
from events.text.truncation import brief_list

Json = dict[str, Any]

# The names in the answer of a run of any kind.
RUN_FIELDS: Final = frozenset(Run.__struct_encode_fields__)

DETAILS: Final = "details"
PART_MAX: Final = 400  # rows of what belongs to one kind
ROWS_BYTES_MAX: Final = 1024 * 1024  # of each list of what belongs to a run


def as_stored(documents: Sequence[Json]) -> Sequence[Json]:
    """Return the documents without the fields that every document of a run has."""
    hidden = {"_id", "runId", "seq"}
    return [{name: each[name] for name in each if name not in hidden} for each in documents]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPart:
    """A list of rows that belongs to a run.

    `name` is its field in the run's answer. `tab` is the tab of the run's page that shows it, by its name in
    the address, and `rank` its place there, the least first. `columns` are shown where it has no template;
    `rows` makes rows of the documents that `read` finds.
    """

    name: str
    title: str
    rank: int
    columns: tuple[str, ...]
    read: Callable[[RunReads, str], Awaitable[Part]]
    rows: Callable[[Sequence[Json]], Sequence[Json]] = as_stored
    tab: str = DETAILS


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of a part as JSON; `problem` says in words why they could not be made."""

    rows: Sequence[Json] = ()
    is_whole: bool = True
    problem: str | None = None


async def rows_of(
    kind: str, part: KindPart, reads: RunReads, run_id: str, loop: KindLoop | None = None
) -> PartRows:
    """Return the rows of a part of a run, brief; a failure of the kind's code is told. Raises `Transient`.

    `loop` is that of the kind, where it has one.
    """

    async def read_there(db: Database) -> PartRows:
        return _made_rows(part, await part.read(RunReads(db), run_id))

    async def read() -> PartRows:
        if loop is not None:
            return await loop.run(read_there)
        found = await part.read(reads, run_id)
        # beside the event loop: what a pod said decides how long it takes
        return await asyncio.to_thread(_made_rows, part, found)

    return await made(kind, part.title, read, lambda words: PartRows(is_whole=False, problem=words))


def _made_rows(part: KindPart, found: Part) -> PartRows:
    """Return the rows, cut to the size of an answer before they are converted. Raises what is no row."""
    made = part.rows(found.documents)
    shown = msgspec.convert(plain(brief_list(made[:PART_MAX], ROWS_BYTES_MAX)), list[Json])
    msgspec.json.encode(shown)
    return PartRows(shown, not found.is_cut and len(shown) == len(made))


Parts = Mapping[str, Sequence[KindPart]]


def parts_of_kinds() -> Parts:
    """Return the parts of each kind that has any.

    Raises `ConfigError` for what is no part, and where two have one name, or one has that of a field of every
    run's answer.
    """
    found: Parts = rows("parts", "PARTS")
    problems, owners = [], dict.fromkeys(RUN_FIELDS, "every run")
    for kind, part in ((kind, part) for kind, parts in found.items() for part in parts):
        if not _is_part(part):
            problems.append(f"kind {kind!r}: {part!r} is no part of a run; uninstall its package or fix it")
            continue
        if part.name in owners:
            taken = f"its part {part.name!r} has the name of a field of {owners[part.name]}"
            problems.append(f"kind {kind!r}: {taken}; name it otherwise, or uninstall its package")
        owners[part.name] = f"the kind {kind}"
    if problems:
        raise ConfigError(problems)
    return found


def _is_part(part: object) -> bool:
    if not isinstance(part, KindPart):
        return False
    texts = isinstance(part.columns, list | tuple) and all(isinstance(each, str) for each in part.columns)
    return texts and [type(each) for each in (part.name, part.title, part.tab, part.rank)] == [
        str,
        str,
        str,
        int,
    ]


def names_of(parts: Parts) -> list[str]:
    """Return the names of the parts of all kinds, which are fields of every run's answer."""
    return [each.name for every in parts.values() for each in every]


def documents_of(collection: str) -> Callable[[RunReads, str], Awaitable[Part]]:
    """Return how the documents of a kind's collection are read, the latest attempt's first."""

    async def read(reads: RunReads, run_id: str) -> Part:
        return await reads.beside(collection, [run_id], (("attempt", -1), ("_id", 1)))

    return read
