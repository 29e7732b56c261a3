"""The fleet as the HTTP interface shows it: its queues, and the state of a control plane's dependencies."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class QueuedClass(Answer, frozen=True, kw_only=True):
    """A class in which runs wait: how many, or more where that is partial; the oldest's wait in seconds.

    `labels` are asked of pods, `pod` is the one to which they are pinned; `project` is charged.
    """

    class_key: str
    project: str
    labels: dict[str, str]
    pod: str | None
    collection: str
    depth: Count
    is_partial: bool
    oldest_queued_at: Moment | None
    oldest_wait_s: float | None


class QueuedBehind(Answer, frozen=True, kw_only=True):
    """A run that waits until others have completed: runs, and groups (`group:NAME`), with their statuses."""

    id: str
    kind: str
    title: str | None
    project: str
    after: dict[str, str]


class Queue(Answer, frozen=True, kw_only=True):
    """The classes in which runs wait, and how many runs there are of each status, counted up to 10,000.

    `behind` are the 50 that have waited for other runs the longest; no pod sees them yet.
    """

    items: list[QueuedClass]
    next: str | None
    statuses: dict[str, int]
    behind: list[QueuedBehind]


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
    """The path of a link that signs one browser in, once and within ten minutes.

    `url` is the whole link where the control plane has a public address at which browsers stay signed in.
    """

    path: str
    url: str | None = None


class Installation(Answer, frozen=True, kw_only=True):
    """What a machine installs of a control plane to become a pod: paths there, and the wheel's SHA-256.

    `public_url` is the control plane's address for other machines, null where it was told none.
    """

    version: str
    wheel: str
    sha256: str
    bytes: int
    requirements: str
    extras: list[str]
    public_url: str | None


class LedgerSpent(Answer, frozen=True, kw_only=True):
    """Time of pods, the same times their GPUs, and its price; null where pods know no price."""

    seconds: float
    gpu_seconds: float
    cost_usd: float | None


class LedgerRow(Answer, frozen=True, kw_only=True):
    """What the time under one key was spent on; the classes sum to `all`.

    The key is empty for time of no run or no project. The classes: `useful`; `overhead`; lost to a
    failure of the run, the pod or the outside (`lost_run`, `lost_pod`, `lost_outside`), to preemption
    (`preempted`) or to a cancel (`canceled`), which `lost` adds up; `running`, of attempts that have not
    ended; `idle`.
    """

    key: str
    title: str | None
    all: LedgerSpent
    lost: LedgerSpent
    classes: dict[str, LedgerSpent]

    def flat(self) -> dict[str, str | float | None]:
        """Return the row as the cells of a table, each class in three columns."""
        cells: dict[str, str | float | None] = {"key": self.key, "title": self.title}
        for name, spent in {"all": self.all, "lost": self.lost, **self.classes}.items():
            cells |= {
                f"{name}_seconds": spent.seconds,
                f"{name}_gpu_seconds": spent.gpu_seconds,
                f"{name}_cost_usd": spent.cost_usd,
            }
        return cells


class Ledger(Answer, frozen=True, kw_only=True):
    """What pods spent their time on between two moments: a row for each day, pod, run or project.

    `left_out` rows, those of the least GPU time, are in the total alone. It is partial where more attempts or
    pods lie in that time than are read: what is not read counts as idle, or not at all.
    """

    by: str
    since: Moment
    until: Moment
    items: list[LedgerRow]
    total: LedgerRow
    left_out: int
    is_partial: bool
    next: str | None
