"""Holds a live database against its own log and its invariants; reads only.

Law: a healthy fleet gives no finding, also while it works. A run that moves between two reads
is read again; what spans several runs is looked at twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

from control_plane.comparison import differences
from control_plane.evidence import Evidence
from control_plane.invariants import INVARIANTS, Case, log_incomplete
from control_plane.refusals import wrongly_refused
from control_plane.replay import replay
from control_plane.store.audit import AuditReads

TRIES_MAX: Final = 20
DOWNLOADS_MAX: Final = 4
SECOND_LOOK_S: Final = 2.0
LOOK_AGAIN_S: Final = 2.0
YOUNG: Final = timedelta(seconds=30)
REBUILD: Final = "rebuild"
NOTE: Final = "log-incomplete"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be; a note tells of a loss that was accepted and marked."""

    run_id: str
    message: str
    invariant: str = REBUILD

    @property
    def is_note(self) -> bool:
        return self.invariant == NOTE


class Objects(Protocol):
    """Object storage, as an audit reads it."""

    async def digest(self, key: str) -> tuple[int, str] | None:
        """Return size and SHA-256 of an object, None where there is none."""
        ...


def _unheard(_: str) -> None:
    """Tell nobody which run is looked at."""


@dataclass(frozen=True, slots=True)
class Auditor:
    """Audits runs one by one, and what spans them; without `objects` no artifact's bytes are read.

    What happened a moment ago may still be on its way into the documents: for a young run the
    audit looks again until `patience_s` is over, and reports only what stays.
    """

    reads: AuditReads
    objects: Objects | None = None
    patience_s: float = 0.0
    on_run: Callable[[str], None] = _unheard

    async def audit(self, *, rebuilds: bool, only: str | None = None) -> AsyncIterator[Finding]:
        """Yield every finding: of each run in id order, or of one; then of the fleet."""
        async for collection, run_id in self.reads.run_ids(only):
            self.on_run(run_id)
            for finding in await self.examine(collection, run_id, rebuilds=rebuilds):
                yield finding
            for finding in await self._check_objects(run_id):
                yield finding
        if only is None:
            for finding in await self._fleet():
                yield finding

    async def rebuild(self) -> AsyncIterator[Finding]:
        """Yield every finding of every run, a full comparison with the replay among them."""
        async for collection, run_id in self.reads.run_ids():
            for finding in await self.examine(collection, run_id):
                yield finding

    async def examine(self, collection: str, run_id: str, *, rebuilds: bool = True) -> list[Finding]:
        """Return the findings of one run, read while it stood still."""
        findings: list[Finding] = []
        waited_s = 0.0
        for _ in range(TRIES_MAX):
            before = await self.reads.position(collection, run_id)
            evidence = await self.reads.evidence(collection, run_id)
            if evidence is None:
                return []
            findings = judge(evidence, rebuilds=rebuilds)
            if all(finding.is_note for finding in findings):
                return findings
            stood_still = await self.reads.position(collection, run_id) == before
            if stood_still and (waited_s >= self.patience_s or not is_young(evidence)):
                return findings
            pause_s = min(LOOK_AGAIN_S, self.patience_s)
            await asyncio.sleep(pause_s)
            waited_s += pause_s
        return findings

    async def _check_objects(self, run_id: str) -> list[Finding]:
        if self.objects is None:
            return []
        room = asyncio.Semaphore(DOWNLOADS_MAX)
        artifacts = await self.reads.artifacts(run_id)
        found = await asyncio.gather(*(self._check_object(each, room) for each in artifacts))
        return [finding for finding in found if finding is not None]

    async def _check_object(self, artifact: Any, room: asyncio.Semaphore) -> Finding | None:
        assert self.objects is not None
        async with room:
            found = await self.objects.digest(artifact["key"])
        what = f"{artifact['name']} of attempt {artifact['attempt']} at {artifact['key']}"
        if found is None:
            return Finding(artifact["runId"], f"{what} is not in the storage", "artifact-missing")
        size, sha256 = found
        if (size, sha256) == (artifact["size"], artifact["sha256"]):
            return None
        registered = f"{artifact['size']} bytes, SHA-256 {artifact['sha256'][:16]}… were registered"
        stored = f"{size} bytes, {sha256[:16]}… are stored"
        return Finding(artifact["runId"], f"{what}: {registered}, {stored}", "artifact-altered")

    async def _fleet(self) -> list[Finding]:
        findings = [
            *[Finding(run, message, "duplicate-token") for run, message in await self._twice_tokens()],
            *[Finding(run, message, "two-runs-one-pod") for run, message in await self._twice_pods()],
        ]
        async for run_id in self.reads.runs_without_spec():
            findings.append(Finding(run_id, "its specification is missing", "spec-missing"))
        async for collection, run_id in self.reads.orphans():
            message = f"{collection} tell of a run that does not exist"
            findings.append(Finding(run_id, message, "orphan-document"))
        async for letter in self.reads.letters_of_nobody():
            if (problem := wrongly_refused(None, letter)) is not None:
                message = f"dead letter {letter['_id']} ({letter['code']}): {problem}"
                findings.append(Finding(letter.get("runId") or "-", message, "wrong-refusal"))
        return findings

    async def _twice_tokens(self) -> Sequence[tuple[str, str]]:
        groups = await self.reads.shared("lease.tokenHash", {})
        return [(runs[0], f"has the claim token of {', '.join(runs[1:])} too") for _, runs in groups]

    async def _twice_pods(self) -> Sequence[tuple[str, str]]:
        """A worker has one run; what it left a moment ago may still look held to a first look."""
        first = dict(await self.reads.shared("claimedBy", self.reads.HELD))
        if not first:
            return []
        await asyncio.sleep(SECOND_LOOK_S)
        again = await self.reads.shared("claimedBy", self.reads.HELD)
        return [
            (runs[0], f"{pod} holds it and {', '.join(runs[1:])} at once")
            for pod, runs in again
            if first.get(pod) == runs
        ]


def is_young(evidence: Evidence) -> bool:
    """Say whether something happened to the run a moment ago."""
    moments = [each["receivedAt"] for each in evidence.log] + [each.at for each in evidence.waiting]
    return any(evidence.now - moment < YOUNG for moment in moments)


def judge(evidence: Evidence, *, rebuilds: bool) -> list[Finding]:
    """Return everything that is wrong with a run; one that a hand left unreadable is named as that."""
    try:
        return _judge(evidence, rebuilds=rebuilds)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"a stored field is missing or of another type: {error!r}"
        return [Finding(evidence.run_id, message, UNREADABLE)]


def _judge(evidence: Evidence, *, rebuilds: bool) -> list[Finding]:
    told = replay(evidence.run_id, evidence.decisions, evidence.events)
    case = Case(evidence, told)
    findings = [
        Finding(evidence.run_id, message, name)
        for name, invariant in INVARIANTS.items()
        for message in invariant(case)
    ]
    if rebuilds:
        findings += [Finding(evidence.run_id, message) for message in differences(evidence, told)]
    if (note := log_incomplete(evidence)) is not None:
        findings.append(Finding(evidence.run_id, note, NOTE))
    return findings
