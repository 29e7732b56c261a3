"""Compares a live database with its own log and its invariants; it only reads.

Law: a healthy fleet gives no finding, even while it works. A run that changes between two reads is read
again; a check across several runs is made twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Protocol

from control_plane.store.verify.collecting import Unjudged
from control_plane.store.verify.evidence import Document, Evidence
from control_plane.store.verify.queries import VerifyReads
from control_plane.store.verify.shapes import name, problem
from control_plane.verify.comparison import differences
from control_plane.verify.groups import violations
from control_plane.verify.invariants import INVARIANTS, Case, log_incomplete
from control_plane.verify.refusals import wrongly_refused
from control_plane.verify.replay import replay
from control_plane.verify.result_rows import difference, row_repairs
from events.runtime.errors import Rejected

TRIES_MAX: Final = 20
DOWNLOADS_MAX: Final = 4
SECOND_LOOK_S: Final = 2.0
LOOK_AGAIN_S: Final = 2.0
YOUNG: Final = timedelta(seconds=30)
ROWS_TOLD_MAX: Final = 20
MORE_ROWS: Final = "and more rows of results"
REBUILD: Final = "rebuild"
NOTE: Final = "log-incomplete"
UNREADABLE: Final = "unreadable"
MESSAGE_CHARS_MAX: Final = 2_000
REPLACED: Final = "\ufffd"  # stands for bytes that are no UTF-8
# What working with stored values of any kind may raise.
HAND_MADE: Final = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def clipped(message: str) -> str:
    """Return a shortened message: it may quote any stored value."""
    return message if len(message) <= MESSAGE_CHARS_MAX else f"{message[:MESSAGE_CHARS_MAX]}…"


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of an invariant; a note reports a loss that was accepted and marked."""

    run_id: str
    message: str
    invariant: str = REBUILD

    @property
    def is_note(self) -> bool:
        return self.invariant == NOTE

    def clipped(self) -> Finding:
        """Return it with a shortened message."""
        return replace(self, message=clipped(self.message))


class Objects(Protocol):
    """Object storage, as an audit reads it."""

    async def digest(self, key: str) -> tuple[int, str] | None:
        """Return size and SHA-256 of an object; None if there is none."""
        ...


def _unheard(_: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Audits each run, then the fleet; without `objects` no artifact's bytes are read.

    Recent events may not be applied yet: a young run is read again until `patience_s` is over, and only
    findings that remain are reported.
    """

    reads: VerifyReads
    objects: Objects | None = None
    patience_s: float = 0.0
    on_run: Callable[[str], None] = _unheard
    second_look_s: float = SECOND_LOOK_S

    async def audit(self, *, rebuilds: bool, only: str | None = None) -> AsyncIterator[Finding]:
        """Yield every finding: of each run in id order, or of one; then of the fleet."""
        async for collection, run_id in self.reads.run_ids(only):
            self.on_run(run_id)
            for finding in await self.examine(collection, run_id, rebuilds=rebuilds):
                yield finding
            for finding in await self._check_objects(run_id):
                yield finding
        if only is None:
            async for finding in self._fleet():
                yield finding

    async def rebuild(self) -> AsyncIterator[Finding]:
        """Yield every finding of every run, with a full comparison with the replay."""
        async for collection, run_id in self.reads.run_ids():
            for finding in await self.examine(collection, run_id):
                yield finding

    async def examine(self, collection: str, run_id: str, *, rebuilds: bool = True) -> list[Finding]:
        """Return the findings of one run, read while it did not change."""
        findings: list[Finding] = []
        waited_s = 0.0
        for _ in range(TRIES_MAX):
            before = await self.reads.position(collection, run_id)
            try:
                evidence = await self.reads.evidence(collection, run_id)
            except Unjudged as error:
                return [Finding(run_id, error.message, error.invariant)]
            except HAND_MADE as error:
                return [odd(run_id, error)]
            if evidence is None:
                if REPLACED not in run_id:
                    return []  # gone meanwhile
                return [Finding(run_id, f"{collection}: its id is no text", UNREADABLE)]
            findings = judge(evidence, rebuilds=rebuilds)
            if rebuilds:
                findings += await self._rows(evidence)
            if all(finding.is_note for finding in findings):
                return findings
            stood_still = await self.reads.position(collection, run_id) == before
            if stood_still and (waited_s >= self.patience_s or not is_young(evidence)):
                return findings
            pause_s = min(LOOK_AGAIN_S, self.patience_s)
            await asyncio.sleep(pause_s)
            waited_s += pause_s
        return findings

    async def _rows(self, evidence: Evidence) -> list[Finding]:
        """Return how the rows of a run differ from its log, the first of many."""
        findings: list[Finding] = []
        try:
            replayed = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
            async for repair in row_repairs(self.reads.rows, Case(evidence, replayed)):
                if len(findings) == ROWS_TOLD_MAX:
                    return [*findings, Finding(evidence.run_id, MORE_ROWS)]
                findings.append(Finding(evidence.run_id, difference(repair)).clipped())
        except HAND_MADE as error:
            findings.append(odd(evidence.run_id, error))
        return findings

    async def _check_objects(self, run_id: str) -> list[Finding]:
        if self.objects is None:
            return []
        findings: list[Finding] = []
        batch: list[Any] = []
        async for artifact in self.reads.artifacts(run_id):
            batch.append(artifact)
            if len(batch) == DOWNLOADS_MAX:
                findings += await self._check_batch(batch)
                batch.clear()
        return findings + await self._check_batch(batch)

    async def _check_batch(self, artifacts: Sequence[Any]) -> list[Finding]:
        found = await asyncio.gather(*map(self._check_object, artifacts))
        return [finding for finding in found if finding is not None]

    async def _check_object(self, artifact: Any) -> Finding | None:
        assert self.objects is not None
        try:
            found = await self.objects.digest(artifact["key"])
        except Rejected as error:
            message = f"artifacts {artifact['_id']}: no object can have its key: {error.message}"
            return Finding(artifact["runId"], message, UNREADABLE)
        what = f"{artifact['name']} of attempt {artifact['attempt']} at {artifact['key']}"
        if found is None:
            return Finding(artifact["runId"], f"{what} is not in the storage", "artifact-missing")
        size, sha256 = found
        if (size, sha256) == (artifact["size"], artifact["sha256"]):
            return None
        registered = f"{artifact['size']} bytes, SHA-256 {artifact['sha256'][:16]}… were registered"
        stored = f"{size} bytes, {sha256[:16]}… are stored"
        return Finding(artifact["runId"], f"{what}: {registered}, {stored}", "artifact-altered")

    async def _fleet(self) -> AsyncIterator[Finding]:
        for run, message in await self._twice_tokens():
            yield Finding(run, message, "duplicate-token")
        for run, message in await self._twice_pods():
            yield Finding(run, message, "two-runs-one-pod")
        async for violation in self._groups():
            yield violation
        async for collection, message in self.reads.misnamed():
            yield Finding("-", f"{collection} {message}", UNREADABLE)
        async for run_id in self.reads.runs_without_spec():
            yield Finding(run_id, "its specification is missing", "spec-missing")
        async for collection, run_id in self.reads.orphans():
            message = f"{collection} tell of a run that does not exist"
            yield Finding(run_id, message, "orphan-document")
        async for letter in self.reads.letters_of_nobody():
            if (finding := _of_nobody(letter)) is not None:
                yield finding

    async def _groups(self) -> AsyncIterator[Finding]:
        """Audit each group; what is wrong with one is looked at twice."""
        async for group_id in self.reads.groups.names():
            findings = await self._group(group_id)
            if findings:
                await asyncio.sleep(self.second_look_s)
                again = await self._group(group_id)
                for each in findings:
                    if each in again:
                        yield each.clipped()

    async def _group(self, group_id: str) -> list[Finding]:
        where = f"group {group_id}"
        try:
            standing = await self.reads.groups.standing(group_id)
            if standing is None:
                return [Finding(where, "runs name it, and it does not exist", "group-missing")]
            return [Finding(where, message, invariant) for invariant, message in violations(standing)]
        except HAND_MADE as error:
            return [odd(where, error)]

    async def _twice_tokens(self) -> Sequence[tuple[str, str]]:
        groups = await self.reads.shared("lease.tokenHash", {})
        return [(runs[0], f"has the claim token of {', '.join(runs[1:])} too") for _, runs in groups]

    async def _twice_pods(self) -> Sequence[tuple[str, str]]:
        """A worker has one run; a run that it has just left may still look held at the first read."""
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
    """Say whether the run changed a moment ago."""
    moments = [each["receivedAt"] for each in evidence.log] + [each.at for each in evidence.waiting]
    moments += [each.newest for each in evidence.quiet]
    return any(evidence.now - moment < YOUNG for moment in moments)


def judge(evidence: Evidence, *, rebuilds: bool) -> list[Finding]:
    """Return all findings of a run; one that manual changes made unreadable gets a finding for that."""
    broken = [Finding(evidence.run_id, message, UNREADABLE) for message in evidence.broken]
    try:
        findings = _judge(evidence, rebuilds=rebuilds)
    except HAND_MADE as error:
        findings = [odd(evidence.run_id, error)]
    return [each.clipped() for each in (*broken, *findings)]


def odd(run_id: str, error: Exception) -> Finding:
    """Return the finding for an unexpected value."""
    return Finding(run_id, f"a stored field is missing or of another type: {error!r}", UNREADABLE).clipped()


def _of_nobody(letter: Document) -> Finding | None:
    """Return the finding for a refused line that belongs to no run, if there is one."""
    run_id = letter.get("runId") or "-"
    if (wrong := problem("dead_letters", letter)) is not None:
        return Finding(run_id, f"dead_letters {name(letter)}: {wrong}", UNREADABLE)
    why = wrongly_refused(None, letter)
    message = f"dead letter {letter['_id']} ({letter['code']}): {why}"
    return None if why is None else Finding(run_id, message, "wrong-refusal").clipped()


def _judge(evidence: Evidence, *, rebuilds: bool) -> list[Finding]:
    replayed = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
    case = Case(evidence, replayed)
    findings = [
        Finding(evidence.run_id, message, name)
        for name, invariant in INVARIANTS.items()
        for message in invariant(case)
    ]
    if rebuilds:
        findings += [Finding(evidence.run_id, message) for message in differences(evidence, replayed)]
    if (note := log_incomplete(evidence)) is not None:
        findings.append(Finding(evidence.run_id, note, NOTE))
    return findings
