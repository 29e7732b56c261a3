"""Results of runs as the HTTP interface shows them: pages of rows, and runs beside each other row by row."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from events.answers.answer import Amount, Answer, Count, Unreadable
from events.answers.kinds.kind import ColumnAnswer

Cell = Amount | str | bool | None


class ResultRow(Answer, frozen=True, kw_only=True):
    """A row of a result set; `detail` names an artifact of the run with what is too long for a row."""

    key: str
    values: dict[str, Cell]
    status: str | None
    detail: str | None


class SetName(Answer, frozen=True, kw_only=True):
    """A result set of a run, by its name and its title."""

    name: str
    title: str


class ResultPage(Answer, frozen=True, kw_only=True):
    """A page of a result set of a run; `next` is the `after` of the next page, null on the last one.

    The rows are those of `attempt`, the newest that recorded any; null while there are none. A page that
    filters or searches may hold few rows, or none, and have a `next`. `sortable` names what `sort` takes.
    `outcome` is the column that says how a row ended, null where none is declared.
    `refused` counts rows of the run that were beyond its bounds, up to 1,000. `unreadable` names rows of the
    page that are damaged; it is left out where all can be read.
    """

    run_id: str
    attempt: Count | None
    set: str
    title: str
    sets: list[SetName]
    columns: list[ColumnAnswer]
    sortable: list[str]
    items: list[ResultRow]
    next: str | None
    refused: Count
    outcome: str | None = None
    unreadable: list[Unreadable] | UnsetType = UNSET


class ComparedRow(Answer, frozen=True, kw_only=True):
    """The values of one key in each of the runs; null where a run has no row of this key."""

    key: str
    values: list[dict[str, Cell] | None]
    differs: bool


class ComparedRows(Answer, frozen=True, kw_only=True):
    """A page of the rows of runs that have the set, beside each other in the order of their keys."""

    runs: list[str]
    attempts: list[Count | None]
    set: str
    columns: list[ColumnAnswer]
    items: list[ComparedRow]
    next: str | None


class SigningKey(Answer, frozen=True, kw_only=True):
    """A key by which exports are signed: its id, and its public key in hexadecimal digits."""

    id: str
    public: str


class SigningKeys(Answer, frozen=True, kw_only=True):
    """The keys of exports; the first signs, the others signed earlier ones."""

    items: list[SigningKey]


class ChangedItem(Answer, frozen=True, kw_only=True):
    """An item that one of two runs alone has right: which, and the key of its first row in each."""

    item: str
    is_right: list[bool]
    keys: list[str]


class ItemPairs(Answer, frozen=True, kw_only=True):
    """Two runs item by item: how many items both have right, one alone, or none, and the p value of `method`.

    Items count where both runs have asked the same: `in_first_alone` and `in_second_alone` are those of one
    run, `other_question` those that were not asked alike, `unanswered` those without an answer in one of
    them. `items` is a page of the changed ones; `next` is the `after` of the next page.
    """

    runs: list[str]
    attempts: list[Count | None]
    set: str
    both_right: Count
    only_first: Count
    only_second: Count
    both_wrong: Count
    in_first_alone: Count
    in_second_alone: Count
    other_question: Count
    unanswered: Count
    p_value: float
    method: str
    items: list[ChangedItem]
    next: str | None
