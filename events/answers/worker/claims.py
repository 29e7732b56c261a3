"""The answers of the queue to pods: claims, and the orders of people for the owner of a run."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Moment


class PodNote(Answer, frozen=True, kw_only=True):
    """A person's note to the pipeline."""

    number: int
    text: str
    by: str


class PodNode(Answer, frozen=True, kw_only=True):
    """The place of a run in a job of several nodes; the first of these is reached at `address`, HOST:PORT."""

    rank: int
    nodes: int
    address: str


class RunOrders(Answer, frozen=True, kw_only=True):
    """The orders for the owner of a run; `notes` are all of them, the oldest first.

    `start_at` is when a lane of a race starts, once that is decided, and a `node` of a job. A run to
    `preempt` gives its pod back. `now` is the store's moment.
    """

    cancel: bool
    paused: bool
    notes: list[PodNote]
    start_at: Moment | UnsetType = UNSET
    node: PodNode | UnsetType = UNSET
    preempt: bool | UnsetType = UNSET
    now: Moment | UnsetType = UNSET


class ClaimedRun(Answer, frozen=True, kw_only=True):
    """A run that is the pod's for `lease_s` seconds from each renewal; `run_token` proves that.

    `from_stage` is where a retry of a part begins; `traceparent` is the context of this attempt.
    `secrets` are the names of those whose values the attempt may fetch. One with a `barrier` waits for the
    start of its race.
    """

    collection: str
    run_id: str
    attempt: int
    run_token: str
    lease_s: float
    kind: str
    spec: dict[str, Any]
    hypothesis_id: str | None
    from_stage: str | None
    traceparent: str | None
    paused: bool
    notes: list[PodNote]
    secrets: list[str] | UnsetType = UNSET
    barrier: bool | UnsetType = UNSET


class ClaimAnswer(Answer, frozen=True, kw_only=True):
    """The claim of a pod that seeks a run; null if there is none for it. `now` is the store's moment."""

    claim: ClaimedRun | None
    now: Moment | UnsetType = UNSET


class SettledAnswer(Answer, frozen=True, kw_only=True):
    """That the end of an attempt is decided."""

    settled: bool


class WaitingIn(Answer, frozen=True, kw_only=True):
    """A class in which a run waits, with the priority of its head."""

    collection: str
    class_key: str
    priority: int


class Wakeup(Answer, frozen=True, kw_only=True):
    """Whether a run may wait in one of the requested classes; the class is not always known."""

    waiting: bool
    classes: list[WaitingIn]
