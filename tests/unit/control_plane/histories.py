"""What an attempt says, event by event, and what is decided of its run, as the log keeps both.

Each position has a moment of its own, so that no field can take another's.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from control_plane.model.run import Entry
from events import catalog as c
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.lifecycle import Cause, Status
from events.testing import EPOCH

RUN_ID: Final = "r"
SOURCE: Final = "//pod/1"
SHA256: Final = "0" * 64


def moment_at(position: int) -> datetime:
    """Return when the event at `position` was said."""
    return EPOCH + timedelta(seconds=position)


def said(
    fact: Fact,
    sequence: int | None = 1,
    *,
    attempt: int = 1,
    run_id: str = RUN_ID,
    time: datetime | None = None,
) -> Event:
    """Return the event that says `fact` at its position; `time` is its position's own unless given."""
    moment = time or moment_at(sequence or 0)
    return Event(
        id=f"{attempt}-{sequence}-{type(fact).__name__}",
        source=SOURCE,
        type="ai.future" if isinstance(fact, c.Unknown) else c.type_of(type(fact)),
        run_id=run_id,
        attempt=attempt,
        sequence=sequence,
        time=moment.isoformat(),
        data=c.data_of(fact),
        fact=fact,
    )


def log_of(facts: Iterable[Fact], *, attempt: int = 1, after: int = 0) -> list[Event]:
    """Return the events of an attempt that say `facts` at the positions that follow `after`."""
    return [said(fact, number, attempt=attempt) for number, fact in enumerate(facts, after + 1)]


def artifact(name: str = "probe.bin", *, attempt: int = 1, **fields: Any) -> c.ArtifactRegistered:
    """Return the registration of a file that lies where its attempt may write."""
    given = {"key": f"runs/{RUN_ID}/a{attempt}/0123/{name}", "size": 3, "sha256": SHA256, **fields}
    return c.ArtifactRegistered(name=name, **given)


def whole_life(attempt: int = 1) -> list[Fact]:
    """Return what an attempt says that starts, does its one stage, keeps a file and completes."""
    return [
        c.RunStarted(),
        c.StageStarted(stage="probe", index=1, total=1),
        c.StageProgress(stage="probe", progress=0.5, activity="half way"),
        c.StageMetric(stage="probe", name="loss", value=0.25),
        artifact(attempt=attempt),
        c.StageCompleted(stage="probe", duration_s=1.5),
        c.RunCompleted(summary="done"),
    ]


def decided(
    n: int,
    cause: Cause,
    came_from: Status | None,
    to: Status,
    *,
    attempt: int = 0,
    seq: int = 0,
    sets: dict[str, Any] | None = None,
) -> Entry:
    """Return the journal's entry of decision `n`, which saw the events of `attempt` up to `seq`."""
    return Entry(n, cause.value, "somebody", moment_at(n), came_from, to.value, attempt, seq, sets or {})


def submitted(status: Status = Status.QUEUED) -> Entry:
    """Return the first decision about a run."""
    return decided(1, Cause.SUBMIT, None, status, sets={"priority": 5, "maxAttempts": 3})


def claimed(n: int = 2, attempt: int = 1, *, seq: int = 0) -> Entry:
    """Return the claim that begins `attempt`, after the one before it was seen up to `seq`."""
    sets = {
        "attempt": attempt, "claimedBy": f"pod/{attempt}", "lastEventSeq": 0, "currentStage": None,
        "startedAt": None, "validation": None, "settled": None, "error": None,
    }  # fmt: skip
    return decided(n, Cause.CLAIM, Status.QUEUED, Status.SCHEDULED, attempt=attempt - 1, seq=seq, sets=sets)
