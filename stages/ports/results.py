"""What an attempt says of its results: rows and headline numbers, as its kind declares them.

Law: a row that its kind does not declare ends the run with `RESULT_REFUSED`, since it is an error of the
pipeline. Rows beyond the bounds are not recorded: a warning in the run's log says so, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from events.catalog import ResultRecorded, RunSummarized
from events.kinds.kind import Kind
from events.kinds.results import (
    RESULT_BYTES_MAX,
    ROW_BYTES_MIN,
    ROWS_MAX,
    STATUS_CHARS_MAX,
    Value,
    problem_with_values,
    set_named,
    unlike,
)
from events.runtime.errors import PipelineError

REFUSED: Final = "RESULT_REFUSED"
SUMMARIES_MAX: Final = 1_000  # of an attempt
AROUND_BYTES: Final = 500  # of a stored row, beside its values
NO_ROWS_LEFT: Final = (
    f"no more results are recorded: an attempt has {ROWS_MAX:,} rows at most, those that it says again "
    f"included, and {RESULT_BYTES_MAX:,} bytes of them"
)
NO_SUMMARIES_LEFT: Final = f"the headline numbers stay: an attempt says them {SUMMARIES_MAX:,} times at most"


@dataclass(slots=True)
class Recorded:
    """How much an attempt has said so far; `refused` counts the rows beyond the bounds."""

    bytes: int = 0
    refused: int = 0
    summaries: int = 0
    headline: dict[str, Value] = field(default_factory=dict)


def check_row(kind: Kind | None, fact: ResultRecorded) -> None:
    """Raise `PipelineError` for a row that the kind does not declare so; some kinds take any."""
    sets = () if kind is None else kind.results
    wanted = set_named(sets, fact.set)
    if wanted is None and not (kind is not None and kind.records_freely):
        known = ", ".join(each.name for each in sets) or "none"
        raise PipelineError(REFUSED, f"there is no result set {fact.set!r}; there are {known}")
    problem = None if wanted is None else unlike(wanted.columns, fact.values)
    if fact.status is not None and len(fact.status) > STATUS_CHARS_MAX:
        problem = f"a status has {STATUS_CHARS_MAX} characters at most"
    if problem is not None:
        raise PipelineError(REFUSED, f"row {fact.key[:80]!r} of {fact.set}: {problem}")


def has_room(recorded: Recorded, fact: ResultRecorded) -> bool:
    """Take a row into account; False if it is beyond the bounds."""
    size = max(ROW_BYTES_MIN, AROUND_BYTES + len(msgspec.json.encode(fact)))
    if recorded.bytes + size > RESULT_BYTES_MAX:
        recorded.refused += 1
        return False
    recorded.bytes += size
    return True


def headline(kind: Kind | None, recorded: Recorded, values: Mapping[str, Value]) -> RunSummarized | None:
    """Return the headline numbers that are new or have changed; None without any.

    Raises `PipelineError` where the kind does not declare them so.
    """
    columns = () if kind is None else kind.headline
    is_free = kind is not None and kind.records_freely
    problem = problem_with_values(values) or (None if is_free else unlike(columns, values))
    if problem is not None:
        raise PipelineError(REFUSED, f"headline numbers: {problem}")
    none = object()
    changed = {name: value for name, value in values.items() if recorded.headline.get(name, none) != value}
    recorded.headline |= changed
    return RunSummarized(values=changed) if changed else None
