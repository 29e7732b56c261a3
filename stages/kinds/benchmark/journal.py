"""The items that a run has done, where its next attempt finds them.

Law: each row goes to a file on this pod and into a checkpoint of a few rows; now and then one checkpoint has
them all. What the last one lacks, the control plane tells from the log. So the next attempt asks what is
missing, and nothing twice; of what was being asked when the last one died, only that is known.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from events.kinds.benchmark import ITEMS, Key
from events.kinds.results import (
    RESULT_BYTES_MAX,
    ROWS_MAX,
    STATUS_CHARS_MAX,
    Values,
    problem_with_values,
    unlike,
)
from stages.bounds import Amount, Count, Unreadable
from stages.context import Context
from stages.models.budget import NOTHING, Spent
from stages.ports.checkpoints import Restored

WHOLE: Final = "items"  # the checkpoint of all rows
SEGMENTS: Final = 16  # of those that follow it
SEGMENT_ROWS: Final = 32
SEGMENT_S: Final = 5.0
SPENT: Final = "spent"
UNANSWERED: Final = "unanswered"
UNANSWERED_MAX: Final = 200  # more are not asked before a model counts as away
FILE: Final = "items.ndjson.gz"
LINE_BYTES_MAX: Final = 256 * 1024
TOLD_MAX: Final = 5_000


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of an item, as it was recorded."""

    key: Key
    values: Values
    status: Annotated[str, msgspec.Meta(max_length=STATUS_CHARS_MAX)] | None = None
    detail: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the control plane tells of earlier attempts: their last rows, what they asked, what all cost."""

    rows: Annotated[list[Row], msgspec.Meta(max_length=TOLD_MAX)] = []
    asked: Annotated[list[Key], msgspec.Meta(max_length=TOLD_MAX)] = []
    tokens: Count = 0
    cost_usd: Amount = 0.0


@dataclass(slots=True)
class Journal:
    """The rows of a run; `done` has the keys of those there are, `lost` what was asked without a result.

    What is known to have come to nothing is `unanswered`, and not lost.
    """

    context: Context
    spent: Callable[[], Spent] = lambda: NOTHING
    done: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    _segment: int = 0
    _open: list[Row] = field(default_factory=list)
    _kept_s: float = 0.0
    _keeper: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "journal"))
    _keeping: Future[None] | None = None

    @property
    def file(self) -> Path:
        """Return where the rows lie on this pod."""
        return self.context.workspace / "items.ndjson"

    def restore(self) -> Iterator[Row]:
        """Yield the rows of earlier attempts, once they are safe under this one."""
        told = _told(self.context)
        rows = {row.key: row for row in (*self._restored(), *filter(_is_sound, told.rows))}
        unanswered = self._unanswered_before()
        self.lost = set(told.asked) - rows.keys() - unanswered
        self.done = set(rows)
        if rows or unanswered:
            self._write(rows.values())
            self._keep_all()
        self._kept_s = self.context.clock.monotonic_s()
        yield from rows.values()

    def spent_before(self) -> Spent:
        """Return what earlier attempts have spent, by the log where the control plane told it."""
        told = _told(self.context)
        if told.tokens or told.cost_usd:
            return Spent(tokens=told.tokens, model_usd=told.cost_usd)
        states = [kept.state.get(SPENT, {}) for _, kept in self._checkpoints()]
        try:
            return max((Spent.of(each) for each in states), key=lambda each: each.tokens, default=NOTHING)
        except (Unreadable, TypeError):
            return NOTHING

    def add(self, row: Row) -> None:
        """Keep a row; every so many go into a checkpoint, beside the work."""
        self.done.add(row.key)
        self._open.append(row)
        now_s = self.context.clock.monotonic_s()
        is_due = len(self._open) >= SEGMENT_ROWS or now_s - self._kept_s >= SEGMENT_S
        if is_due and (self._keeping is None or self._keeping.done()):
            self._kept_s = now_s
            self._begin()

    def close(self) -> None:
        """Keep what is open, and wait for it."""
        if self._keeping is not None:
            self._keeping.result()
        if self._open:
            self._begin()
        if self.unanswered:
            self._keeper.submit(self._keep_all, "-away").result()
        self._keeper.shutdown()

    def _begin(self) -> None:
        rows, self._open = self._open, []
        self._write(rows)
        self._segment += 1
        if self._segment > SEGMENTS:
            self._segment = 0
            self._keeping = self._keeper.submit(self._keep_all)
        else:
            self._keeping = self._keeper.submit(self._keep, f"{WHOLE}-{self._segment:02}", rows)

    def _write(self, rows: Iterable[Row]) -> None:
        with self.file.open("ab") as file:
            file.writelines(_lines(rows))

    def _keep(self, name: str, rows: Iterable[Row]) -> None:
        path = self.context.workspace / f"{name}-{len(self.done)}.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.writelines(_lines(rows))
        self.context.checkpoint(name, {SPENT: self.spent().state()}, {FILE: path})

    def _keep_all(self, ending: str = "") -> None:
        path = self.context.workspace / f"{WHOLE}-all-{len(self.done)}{ending}.gz"
        with self.file.open("ab+") as rows, gzip.open(path, "wb", compresslevel=1) as file:
            rows.seek(0)
            shutil.copyfileobj(rows, file)
        state = {SPENT: self.spent().state(), UNANSWERED: sorted(self.unanswered)[:UNANSWERED_MAX]}
        self.context.checkpoint(WHOLE, state, {FILE: path})

    def _unanswered_before(self) -> set[str]:
        """Return what the last attempt asked of a model that was away."""
        for name, kept in self._checkpoints():
            found = kept.state.get(UNANSWERED, []) if name == WHOLE else []
            if isinstance(found, list):
                return {each for each in found[:UNANSWERED_MAX] if isinstance(each, str)}
        return set()

    def _checkpoints(self) -> Iterator[tuple[str, Restored]]:
        """Yield what earlier attempts of this run left, all rows first."""
        for name in (WHOLE, *(f"{WHOLE}-{number:02}" for number in range(1, SEGMENTS + 1))):
            kept = self.context.restored(name)
            if kept is not None and kept.from_run is None and FILE in kept.files:
                yield name, kept

    def _restored(self) -> Iterator[Row]:
        for name, kept in self._checkpoints():
            try:
                yield from _read(kept.files[FILE])
            except (OSError, EOFError, ValueError) as error:
                self.context.log(f"the checkpoint {name} cannot be read to its end: {error}", "warning")


def _lines(rows: Iterable[Row]) -> Iterator[bytes]:
    return (msgspec.json.encode(row) + b"\n" for row in rows)


def _read(path: Path) -> Iterator[Row]:
    """Yield the rows of a file that another pod may have written. Raises `ValueError` beyond its bounds."""
    size = 0
    with gzip.open(path, "rb") as file:
        for _ in range(ROWS_MAX):
            line = file.readline(LINE_BYTES_MAX)
            size += len(line)
            if not line:
                return
            if size > RESULT_BYTES_MAX:
                raise ValueError("it has more bytes than an attempt may record")
            row = msgspec.json.decode(line, type=Row)
            if _is_sound(row):
                yield row


def _is_sound(row: Row) -> bool:
    return problem_with_values(row.values) is None and unlike(ITEMS.columns, row.values) is None


def _told(context: Context) -> Told:
    told: Mapping[str, Any] = {
        name: context.told[name] for name in Told.__struct_fields__ if name in context.told
    }
    try:
        return msgspec.convert(told, Told)
    except msgspec.ValidationError as error:
        context.log(f"what the control plane told cannot be used: {error}", "warning")
        return Told()
