"""Writes a run as one file: its documents, its log and its artifacts, and a manifest with hashes.

Law: the same run gives the same bytes. Nothing that grants anything is in it: no token, no lease, no name of
a secret. What is held at once is one part of a list, or one piece of a file. A file whose bytes are not
those that were registered breaks the archive off; nothing in its place says that it is whole. A run that was
imported is written as its own fleet wrote it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, Protocol

from control_plane.model.ownership import IMPORTED
from control_plane.store.files.archives import LISTS, ArchiveReads
from control_plane.store.log.inspections import Version
from events.files.archive import event_lines, extended_json, tape
from events.files.archive import manifest as manifests
from events.files.archive.attempt_logs import AttemptLogs
from events.files.archive.check import NUMBERED, PART_BYTES, member_of
from events.files.archive.manifest import MEMBERS_MAX, Manifest, Member
from events.lifecycle import FINAL
from events.runtime.errors import Conflict, NotFound, Rejected, Transient

# What of a run is of one fleet alone, or grants something.
LEFT_OUT: Final = frozenset(
    {"tokens", "lease", "secrets", "userId", "idempotency", "journal", "importedFrom"}
)
SPEC_LEFT_OUT: Final = frozenset({"unchecked"})
MARKS: Final = frozenset({IMPORTED})
# What an imported run has as text alone: names of another fleet.
MOVED: Final = ("hypothesisId", "parentRunId", "groupId", "slot", "after", "submittedBy")
NOT_BROUGHT: Final = "import:no-files"  # who took the files that an imported archive does not have

Document = Mapping[str, Any]


class Storage(Protocol):
    """The objects of artifacts. Raises `Transient`, and `Rejected` for a key that no storage holds."""

    async def version(self, key: str) -> Version | None:
        """Return the version of an object, None if there is none."""
        ...

    def content(self, key: str, most: int) -> AsyncGenerator[bytes, None]:
        """Yield an object as it is stored, not much further than `most` bytes."""
        ...


@dataclass(frozen=True, slots=True)
class RunArchive:
    """An archive that is ready to be written."""

    run: Document
    spec: Document
    has_artifacts: bool
    files: Mapping[str, Document]  # by their members
    left_out: list[str]

    @property
    def told(self) -> Document:
        """The run as the archive tells it; an imported one is as its own fleet had it."""
        run = _without(self.run, LEFT_OUT)
        origin = self.run.get("importedFrom")
        if origin is None:
            return run
        marks = run.get("taken") or {}
        taken = {what: mark for what, mark in marks.items() if mark.get("by") != NOT_BROUGHT}
        run = {**_without(run, frozenset({"taken"})), **origin["references"]}
        return {**run, "taken": taken} if taken else run


@dataclass(frozen=True, slots=True)
class Exporter:
    """Writes archives; `fleet` is the name of this one's database."""

    reads: ArchiveReads
    storage: Storage
    fleet: str

    async def open(self, run_id: str, *, has_artifacts: bool) -> RunArchive:
        """Return the archive of a run. Raises `NotFound`, `Conflict` where it is not over, `Rejected`."""
        run, spec = await self.reads.run(run_id), await self.reads.spec(run_id)
        if run is None or spec is None:
            raise NotFound("unknown_run", f"there is no run {run_id} that can be archived")
        if run.get("status") not in FINAL:
            raise Conflict("run_not_over", f"the run is {run.get('status')}: only what has ended is archived")
        if run.get("journal") or run.get("logOpen"):
            raise Conflict("log_open", "its last events are still on their way; ask again in some minutes")
        files, left_out = dict[str, Document](), list[str]()
        if has_artifacts:
            async for artifact in self.reads.listed("artifacts", run_id):
                name = member_of(run_id, artifact)
                if len(files) + len(left_out) >= MEMBERS_MAX // 2:
                    raise Conflict("too_many_files", "it has too many files for one archive: leave them out")
                if await self._is_there(artifact):
                    files[name] = artifact
                else:
                    left_out.append(name)
        return RunArchive(run, spec, has_artifacts, files, left_out)

    async def _is_there(self, artifact: Document) -> bool:
        try:
            found = await self.storage.version(str(artifact["key"]))
        except Transient:
            raise
        except Rejected:
            return False
        return found is not None and found.size == artifact["size"]

    async def members(self, run_id: str) -> list[Member]:
        """Return the members that the archive of a run has without its files. Raises as `open`, `written`."""
        writing = _Writing()
        async for _ in self.written(await self.open(run_id, has_artifacts=False), writing):
            pass
        return writing.members

    async def written(self, archive: RunArchive, writing: _Writing | None = None) -> AsyncIterator[bytes]:
        """Yield the archive piece by piece. Raises `Transient`, `Rejected`: then it is broken off."""
        run_id, writing, logs = str(archive.run["_id"]), writing or _Writing(), AttemptLogs()
        yield writing.member(tape.RUN, extended_json.encoded(archive.told) + b"\n")
        parts = _Parts(writing, "documents", "run_specs")
        yield b"".join(
            [parts.added(extended_json.encoded(_without(archive.spec, SPEC_LEFT_OUT))), parts.ended()]
        )
        for name in LISTS:
            async for piece in _listed(writing, name, self.reads.listed(name, run_id)):
                yield piece
        async for piece in _listed(writing, tape.DECISIONS, self.reads.decisions(run_id)):
            yield piece
        async for piece in _numbered(writing, logs, self.reads.numbered(run_id)):
            yield piece
        parts = _Parts(writing, "events", "others")
        async for event in self.reads.others(run_id):
            yield parts.added(event_lines.encoded(_without(event, MARKS)))
        yield parts.ended()
        for name, artifact in archive.files.items():
            async for piece in self._content(writing, name, artifact):
                yield piece
        origin = archive.run.get("importedFrom") or {"podfleet": version("podfleet"), "fleet": self.fleet}
        said = Manifest(
            podfleet=str(origin["podfleet"]),
            fleet=str(origin["fleet"]),
            run_id=run_id,
            kind=str(archive.run["kind"]),
            status=str(archive.run["status"]),
            has_artifacts=archive.has_artifacts,
            left_out=archive.left_out,
            attempts=logs.closed(),
            members=writing.members,
        )
        yield writing.member(tape.MANIFEST, manifests.encoded(said)) + tape.END

    async def _content(self, writing: _Writing, name: str, artifact: Document) -> AsyncIterator[bytes]:
        size, digest, left = int(artifact["size"]), hashlib.sha256(), int(artifact["size"])
        yield tape.head(name, size)
        async for piece in self.storage.content(str(artifact["key"]), size):
            await asyncio.to_thread(digest.update, piece)
            left -= len(piece)
            if left < 0:
                break
            yield piece
        if left or digest.hexdigest() != artifact["sha256"]:
            raise Rejected("object_unfit", f"the object of {artifact['name']!r} is not what was registered")
        yield tape.padding(size)
        writing.members.append(Member(name, size, digest.hexdigest()))


@dataclass(slots=True)
class _Writing:
    """The members that were written so far."""

    members: list[Member] = field(default_factory=list)

    def member(self, name: str, content: bytes) -> bytes:
        if len(self.members) >= MEMBERS_MAX:
            raise Rejected("too_large", "the run is too large for one archive")
        if name != tape.MANIFEST:
            self.members.append(Member(name, len(content), hashlib.sha256(content).hexdigest()))
        return tape.head(name, len(content)) + content + tape.padding(len(content))


@dataclass(slots=True)
class _Parts:
    """The parts of one list: a part ends with the line that makes it long enough."""

    writing: _Writing
    folder: str
    listed: str
    _number: int = 0
    _held: bytearray = field(default_factory=bytearray)

    def added(self, line: bytes) -> bytes:
        """Return what can be written after one more line."""
        self._held += line
        self._held += b"\n"
        return self.ended() if len(self._held) >= PART_BYTES else b""

    def ended(self) -> bytes:
        """Return what is still to be written."""
        if not self._held:
            return b""
        self._number += 1
        content, self._held = bytes(self._held), bytearray()
        return self.writing.member(tape.part_name(self.folder, self.listed, self._number), content)


async def _listed(
    writing: _Writing,
    name: str,
    documents: AsyncGenerator[Document, None],
) -> AsyncIterator[bytes]:
    parts = _Parts(writing, "documents", name)
    async for document in documents:
        if piece := parts.added(extended_json.encoded(_without(document, MARKS))):
            yield piece
    yield parts.ended()


async def _numbered(
    writing: _Writing, logs: AttemptLogs, events: AsyncGenerator[Document, None]
) -> AsyncIterator[bytes]:
    """Yield the parts of the logs of the attempts, one after the other."""
    parts, attempt = None, 0
    async for event in events:
        if parts is None or event["attempt"] != attempt:
            if parts is not None:
                yield parts.ended()
            attempt = event["attempt"]
            parts = _Parts(writing, "events", f"{NUMBERED}{attempt}")
        logs.add(event)
        if piece := parts.added(event_lines.encoded(_without(event, MARKS))):
            yield piece
    if parts is not None:
        yield parts.ended()


def _without(document: Document, names: frozenset[str]) -> Document:
    return {name: value for name, value in document.items() if name not in names}
