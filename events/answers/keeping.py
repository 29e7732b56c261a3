"""What is deleted, and what stays of it, as the HTTP interface shows it."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class AttemptSeal(Answer, frozen=True, kw_only=True):
    """What stays of the log of an attempt: its last position, its number of events, and their root."""

    attempt: Count
    last: Count
    count: Count
    root: str


class Tombstone(Answer, frozen=True, kw_only=True):
    """What stays of a run, or of a hypothesis with its `runs`, that was deleted.

    `counts` says what went with it, by collection, `bytes` how much its files took. `removedAt` is null until
    all of that is removed; `trouble` says what keeps it from that.
    """

    id: str
    kind: str
    project: str | None
    hypothesis_id: str | None
    group_id: str | None
    slot: Count | None
    status: str
    created_at: Moment | None
    finished_at: Moment | None
    deleted_at: Moment
    by: str
    removed_at: Moment | None
    trouble: str | None
    attempts: list[AttemptSeal]
    counts: dict[str, Count]
    bytes: Count
    runs: list[str]


class Deletion(Answer, frozen=True, kw_only=True):
    """What a deletion would take along: `counts` of documents by collection, and `bytes` of files.

    `refusal` says why it is refused now, null where it is not. `runs` go with a hypothesis. `retries` and
    `successors` name runs that would stay, and refer to one that is gone; 20 of each at most.
    """

    id: str
    status: str
    refusal: str | None
    counts: dict[str, Count]
    bytes: Count
    group_id: str | None
    runs: list[str]
    retries: list[str]
    successors: list[str]
