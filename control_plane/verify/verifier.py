"""Compares a live database with its own log and its invariants; it only reads.

Law: a healthy fleet gives no finding, even while it works. A run that changes between two reads is read
again; a check across several runs is made twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Protocol

from control_plane.store.verify.collecting import HAND_MADE, Unjudged
from control_plane.store.verify.evidence import Document, Evidence
from control_plane.store.verify.queries import TOGETHER_MAX, VerifyReads
from control_plane.store.verify.shapes import name, problem
from control_plane.verify.comparison import differences
from control_plane.verify.groups import violations
from control_plane.verify.invariants import INVARIANTS, Case, log_incomplete
from control_plane.verify.refusals import wrongly_refused
from control_plane.verify.replay import replay
from control_plane.verify.result_rows import difference, row_repairs
from events.runtime.errors import Rejected, Transient

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

    async def digest(self, key: str, most: int) -> tuple[int, str] | None:
        """Return size and SHA-256 of an object, read not much further than `most`; None if there is none."""
        ...

    async def ping(self) -> None:
        """Check that the storage answers. Raises `Transient`."""
        ...


@dataclass(slots=True)
class _Look:
    """What one look at a run found; it is final where no other look could find less."""

    findings: list[Finding]
    is_final: bool = True
    is_young: bool = False
    has_files: bool = True
    stood_still: bool = False


def _pages(runs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield runs in parts that are looked at together."""
    for collection in dict.fromkeys(its for its, _ in runs):
        named = [run_id for its, run_id in runs if its == collection]
        for start in range(0, len(named), TOGETHER_MAX):
            yield collection, named[start : start + TOGETHER_MAX]


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
        """Yield every finding: of each run, or of one, the runs that change last; then of the fleet."""
        later: list[tuple[str, str]] = []
        async for collection, page in self.reads.pages(only):
            looks = await self._look(collection, page, rebuilds=rebuilds)
            for run_id in page:
                self.on_run(run_id)
                look = looks[run_id]
                if look.is_final or (look.stood_still and (self.patience_s <= 0 or not look.is_young)):
                    for finding in look.findings:
                        yield finding
                else:
                    later.append((collection, run_id))
                if self.objects is not None and look.has_files:
                    for finding in await self._check_objects(run_id):
                        yield finding
        async for finding in self._looked_again(later, rebuilds=rebuilds):
            yield finding
        if only is None:
            async for finding in self._fleet():
                yield finding

    async def rebuild(self) -> AsyncIterator[Finding]:
        """Yield every finding of every run, with a full comparison with the replay."""
        async for collection, page in self.reads.pages():
            for run_id in page:
                for finding in await self.examine(collection, run_id):
                    yield finding

    async def examine(self, collection: str, run_id: str, *, rebuilds: bool = True) -> list[Finding]:
        """Return the findings of one run, read while it did not change."""
        return [
            each async for each in self._looked_again([(collection, run_id)], rebuilds=rebuilds, waited_s=0.0)
        ]

    async def _looked_again(
        self, runs: Sequence[tuple[str, str]], *, rebuilds: bool, waited_s: float | None = None
    ) -> AsyncIterator[Finding]:
        """Yield the findings of runs that remain; all of them are waited for at once.

        Without `waited_s` they were looked at before, and are waited for first.
        """
        left = list(runs)
        for tries in range(TRIES_MAX, 0, -1):
            if not left:
                return
            if waited_s is None or tries < TRIES_MAX:
                pause_s = min(LOOK_AGAIN_S, self.patience_s)
                await asyncio.sleep(pause_s)
                waited_s = (waited_s or 0.0) + pause_s
            moving: list[tuple[str, str]] = []
            for collection, page in _pages(left):
                looks = await self._look(collection, page, rebuilds=rebuilds)
                for run_id in page:
                    look = looks[run_id]
                    is_patient = waited_s >= self.patience_s or not look.is_young
                    if look.is_final or (look.stood_still and is_patient) or tries == 1:
                        for finding in look.findings:
                            yield finding
                    else:
                        moving.append((collection, run_id))
            left = moving

    async def _look(self, collection: str, page: Sequence[str], *, rebuilds: bool) -> dict[str, _Look]:
        """Look once at each of these runs."""
        before = await self.reads.positions(collection, page)
        found = await self.reads.evidences(collection, page)
        looks = {
            run_id: await self._judged(collection, run_id, found.get(run_id), rebuilds) for run_id in page
        }
        wrong = [run_id for run_id, look in looks.items() if not look.is_final]
        if wrong:
            after = await self.reads.positions(collection, wrong)
            for run_id in wrong:
                looks[run_id].stood_still = after.get(run_id) == before.get(run_id)
        return looks

    async def _judged(
        self, collection: str, run_id: str, evidence: Evidence | Exception | None, rebuilds: bool
    ) -> _Look:
        match evidence:
            case None if REPLACED in run_id:
                return _Look([Finding(run_id, f"{collection}: its id is no text", UNREADABLE)])
            case None:  # gone meanwhile
                return _Look([], has_files=False)
            case Unjudged():
                return _Look([Finding(run_id, evidence.message, evidence.invariant)])
            case Exception():
                return _Look([odd(run_id, evidence)])
        findings = judge(evidence, rebuilds=rebuilds)
        if rebuilds and evidence.has_rows:
            findings += await self._rows(evidence)
        return _Look(
            findings,
            is_final=all(finding.is_note for finding in findings),
            is_young=is_young(evidence),
            has_files=bool(evidence.artifacts or evidence.misshapen),
        )

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
        what = f"{artifact['name']} of attempt {artifact['attempt']} at {artifact['key']}"
        try:
            found = await self._digest(artifact)
        except Rejected as error:
            message = f"artifacts {artifact['_id']}: no object can have its key: {error.message}"
            return Finding(artifact["runId"], message, UNREADABLE)
        if isinstance(found, str):
            return Finding(artifact["runId"], f"{what} cannot be read: {found}", "artifact-unread")
        if found is None:
            return Finding(artifact["runId"], f"{what} is not in the storage", "artifact-missing")
        size, sha256 = found
        if (size, sha256) == (artifact["size"], artifact["sha256"]):
            return None
        registered = f"{artifact['size']} bytes, SHA-256 {artifact['sha256'][:16]}… were registered"
        stored = f"{size} bytes, {sha256[:16]}… are stored"
        return Finding(artifact["runId"], f"{what}: {registered}, {stored}", "artifact-altered")

    async def _digest(self, artifact: Any) -> tuple[int, str] | str | None:
        """Return size and SHA-256 of an object, or why it cannot be read though the storage answers."""
        assert self.objects is not None
        try:
            return await self.objects.digest(artifact["key"], artifact["size"])
        except Transient:
            await self.objects.ping()
        try:
            return await self.objects.digest(artifact["key"], artifact["size"])
        except Transient as error:
            return error.message

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
        """Audit each group; those with which something is wrong are looked at twice, many at once."""
        wrong: dict[str, list[Finding]] = {}
        async for group_id in self.reads.groups.names():
            if findings := await self._group(group_id):
                wrong[group_id] = findings
            if len(wrong) == TOGETHER_MAX:
                async for each in self._remaining(wrong):
                    yield each
                wrong = {}
        async for each in self._remaining(wrong):
            yield each

    async def _remaining(self, wrong: Mapping[str, list[Finding]]) -> AsyncIterator[Finding]:
        """Yield the findings of groups that a second look confirms."""
        if wrong:
            await asyncio.sleep(self.second_look_s)
        for group_id, findings in wrong.items():
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
