"""The fleet as the HTTP interface shows it: its queues, and the state of a control plane's dependencies."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class QueuedClass(Answer, frozen=True, kw_only=True):
    """A class in which runs wait: how many, or more where that is partial; the oldest's wait in seconds.

    `labels` are asked of pods, `pod` is the one to which they are pinned.
    """

    class_key: str
    labels: dict[str, str]
    pod: str | None
    collection: str
    depth: Count
    is_partial: bool
    oldest_queued_at: Moment | None
    oldest_wait_s: float | None


class Queue(Answer, frozen=True, kw_only=True):
    """The classes in which runs wait, and how many runs there are of each status, counted up to 10,000."""

    items: list[QueuedClass]
    next: str | None
    statuses: dict[str, int]


class Health(Answer, frozen=True, kw_only=True):
    """The process is alive: `alive`."""

    status: str


class Readiness(Answer, frozen=True, kw_only=True):
    """The state of each dependency of a control plane, `ok` or a word for its problem, and what works now.

    Uploads and downloads are asked of the storage; everything else works without it.
    """

    mongodb: str
    indexes: str
    storage: str
    works: list[str]


class SignInLink(Answer, frozen=True, kw_only=True):
    """The path of a link that signs one browser in, once and within ten minutes."""

    path: str
