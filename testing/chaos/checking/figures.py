"""What a campaign measured: how many, how fast noticed, how fast mended; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from testing.chaos.checking.evidence import Evidence
from testing.chaos.checking.ownership import Ownership, holder_at, ownerships
from testing.chaos.records.journal import Line

WORKER_DEATHS: Final = frozenset(
    {"worker killed", "worker killed at a chosen step", "worker killed, disk lost", "pod clock skewed"}
)
CLUSTER_FAULTS: Final = frozenset({"primary killed", "primary stepped down", "primary partitioned"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The counts and times of one campaign, or of several together."""

    runs: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    attempts: int = 0
    events: int = 0
    decisions: int = 0
    artifacts: int = 0
    groups: int = 0
    rows: int = 0
    changes: int = 0
    """Of options of waiting runs, acknowledged."""
    times: Mapping[str, Sequence[float]] = field(default_factory=dict)


def figures(evidence: Evidence) -> Figures:
    """Count and measure."""
    return Figures(
        runs=len(evidence.runs),
        statuses=dict(Counter(f"{run['kind']} {run['status']}" for run in evidence.runs.values())),
        attempts=sum(run["attempt"] for run in evidence.runs.values()),
        events=len(evidence.events),
        decisions=sum(len(entries) for entries in evidence.decisions.values()),
        artifacts=len(evidence.artifacts),
        groups=len(evidence.groups),
        rows=len(evidence.rows),
        changes=sum((line.what, line.phase) == ("change", "ok") for line in evidence.lines),
        times={**_worker_times(evidence), **_cluster_times(evidence), **_cancel_times(evidence)},
    )


def _worker_times(evidence: Evidence) -> dict[str, list[float]]:
    """Measure from the kill of a worker to the rescue of its run, and to the run's next claim."""
    holds: dict[str, list[Ownership]] = {}
    for hold in ownerships(evidence.lines):
        holds.setdefault(hold.actor, []).append(hold)
    noticed: list[float] = []
    claimed: list[float] = []
    for fault in _faults(evidence.lines, WORKER_DEATHS):
        held = holder_at(holds, fault.data["victim"], fault.at_s)
        if held is None:
            continue
        run_id, attempt = held.term
        after = [entry for entry in evidence.decisions.get(run_id, ()) if entry.at.timestamp() > fault.wall_s]
        rescues = [each for each in after if each.cause == "rescue" and each.attempt == attempt]
        noticed += [each.at.timestamp() - fault.wall_s for each in rescues]
        again = [each for each in after if each.cause == "claim" and each.sets["attempt"] == attempt + 1]
        claimed += [each.at.timestamp() - fault.wall_s for each in again if rescues]
    return {"worker killed to its run rescued": noticed, "worker killed to its run claimed again": claimed}


def _cancel_times(evidence: Evidence) -> dict[str, list[float]]:
    """Measure from the order to cancel a run that somebody holds to its end."""
    found: list[float] = []
    for entries in evidence.decisions.values():
        ordered = next((entry for entry in entries if entry.to == "CANCELING"), None)
        ended = next((entry for entry in entries if entry.to == "CANCELED"), None)
        if ordered is not None and ended is not None:
            found.append((ended.at - ordered.at).total_seconds())
    return {"cancel of a running run to its end": found}


def _cluster_times(evidence: Evidence) -> dict[str, list[float]]:
    """Measure from a fault of the primary to the next claim of anybody."""
    claims = sorted(
        entry.at.timestamp()
        for entries in evidence.decisions.values()
        for entry in entries
        if entry.cause == "claim"
    )
    found: dict[str, list[float]] = {}
    for fault in _faults(evidence.lines, CLUSTER_FAULTS):
        later = next((at for at in claims if at > fault.wall_s), None)
        if later is not None:
            found.setdefault(f"{fault.data['kind']} to the next claim", []).append(later - fault.wall_s)
    return found


def _faults(lines: Sequence[Line], kinds: frozenset[str]) -> list[Line]:
    return [line for line in lines if line.what == "fault" and line.data["kind"] in kinds]
