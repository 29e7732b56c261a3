"""The columns of the list of runs, as its address selects them, pure.

Law: every row has every cell, and the table hides the columns that are not selected. So a row of the stream
is the same for all readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from events.runtime.errors import Rejected

COLUMNS: Final[Mapping[str, str]] = {
    "kind": "Kind",
    "labels": "Labels",
    "doing": "Doing",
    "pod": "Pod",
    "class": "Class",
    "attempt": "Attempt",
    "priority": "Priority",
    "queued": "Queued",
    "finished": "Finished",
}
USUAL: Final = ("kind", "doing", "pod", "queued")


def chosen(names: Iterable[str]) -> Sequence[str]:
    """Return the selected columns, by default the usual ones; `a.b` is another one. Raises `Rejected`."""
    parts = {part.strip() for each in names for part in each.split(",")} - {""}
    wanted = {part for part in parts if "." not in part}
    if not wanted:
        return USUAL
    if unknown := sorted(wanted - set(COLUMNS)):
        raise Rejected("bad_column", f"unknown column {unknown[0][:50]!r}; known: {', '.join(COLUMNS)}")
    return [name for name in COLUMNS if name in wanted]
