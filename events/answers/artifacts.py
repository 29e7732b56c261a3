"""Artifacts as the HTTP interface shows them: the files that a run keeps."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class Artifact(Answer, frozen=True, kw_only=True):
    """A file of an attempt: its size in bytes, its SHA-256 in hexadecimal, its key in the storage.

    `seq` is the position in the attempt's log at which it was registered.
    """

    id: str
    run_id: str
    attempt: Count
    name: str
    key: str
    size: Count
    sha256: str
    content_type: str
    stage: str | None
    registered_at: Moment | None
    seq: int
