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


class Taken(Answer, frozen=True, kw_only=True):
    """What a rule of retention took of a run, and when; `removedAt` is null until all of it is gone."""

    at: Moment
    by: str
    removed_at: Moment | None


class ImportedFrom(Answer, frozen=True, kw_only=True):
    """Where an imported run comes from: its fleet, with the version that wrote the archive, who imported it.

    `references` are names of that fleet: of the group, hypothesis, runs and submitter of the run.
    """

    fleet: str
    podfleet: str
    at: Moment
    by: str
    references: dict[str, str | int | list[str] | None]


class ArchivedRun(Answer, frozen=True, kw_only=True):
    """The run of an archive that was imported."""

    id: str
    kind: str
    status: str


class RetentionRule(Answer, frozen=True, kw_only=True):
    """A rule of retention: `what` is taken of runs `days` after their end, null for never.

    `taken` and `bytes` count what it took since it was set, `waiting` the runs that something still needs.
    `trouble` says what the last round could not take.
    """

    id: str
    what: str
    days: Count | None
    kind: str | None
    label: str | None
    is_default: bool
    set_by: str | None
    set_at: Moment | None
    swept_at: Moment | None
    taken: Count
    bytes: Count
    waiting: Count
    trouble: str | None


class RetentionPreview(Answer, frozen=True, kw_only=True):
    """What the next rounds of a rule would take: of how many `runs`, and how many `bytes` of files.

    `needed` runs wait. Without `isWhole` there are more runs than were looked at.
    """

    id: str
    runs: Count
    needed: Count
    bytes: Count
    is_whole: bool
