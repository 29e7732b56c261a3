"""Writes the signed ZIP of a run: every result set as NDJSON, what was asked, and a manifest with hashes.

Law: no more than one page of rows is held; the manifest comes last, because it has the hash of all else.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from control_plane.reads.results.export import Ndjson
from control_plane.reads.results.rows import Opened, ResultQuery, Results
from events.answers.kind_parts import in_json
from events.files.export_zip import MANIFEST, RUN_FILE, SIGNATURE, ExportedFile, Key, Manifest, ZipWriter

ZIP: Final = "application/zip"
# What of a run says what was measured, and how it went.
TOLD: Final = (
    "id", "kind", "title", "status", "spec", "labels", "summary", "attempt", "queuedAt", "startedAt",
    "finishedAt", "submittedBy", "groupId", "error",
)  # fmt: skip


class Signer(Protocol):
    """Signs the manifest."""

    def require(self) -> Key: ...

    def sign(self, content: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class RunArchive:
    """The archive of one run, ready to be written."""

    run: Mapping[str, Any]
    sets: Sequence[Opened]
    key: Key
    made_at: datetime


async def opened(results: Results, signer: Signer, run_id: str, made_at: datetime) -> RunArchive:
    """Return the archive of a run. Raises `NotFound`, and `Conflict` where no key signs."""
    key = signer.require()
    run = in_json(await results.reading.run(run_id, lambda _: ()))
    sets = [await results.open(run_id, ResultQuery(set=name)) for name in await results.set_names(run_id)]
    told: dict[str, Any] = {name: value for name, value in run.items() if name in TOLD}
    return RunArchive(told, sets, key, made_at)


async def archived(archive: RunArchive, results: Results, signer: Signer) -> AsyncIterator[bytes]:
    """Yield the archive piece by piece."""
    writing = Writing()
    content = msgspec.json.format(msgspec.json.encode(archive.run, order="sorted"), indent=2) + b"\n"
    yield b"".join([*writing.begun(RUN_FILE), *writing.added(content), *writing.ended(None)])
    for each in archive.sets:
        lines = Ndjson(each.declared.columns)
        rows = 0
        yield b"".join(writing.begun(f"results/{each.declared.name}.ndjson"))
        async for page in results.rows(each):
            rows += len(page)
            yield await asyncio.to_thread(_piece, writing, lines, page)
        yield b"".join(writing.ended(rows))
    attempts = [each.attempt for each in archive.sets if each.attempt is not None]
    manifest = Manifest(
        run_id=archive.run["id"],
        kind=archive.run["kind"],
        attempt=attempts[0] if attempts else None,
        made_at=archive.made_at.isoformat(),
        key=archive.key,
        files=writing.files,
    )
    raw = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    for name, last in ((MANIFEST, raw), (SIGNATURE, signer.sign(raw))):
        yield b"".join([writing.zip.begun(name), writing.zip.added(last), writing.zip.ended()])
    yield writing.zip.closed()


def _piece(writing: Writing, lines: Ndjson, page: Any) -> bytes:
    return b"".join(writing.added(lines.written(page)))


@dataclass(slots=True)
class Writing:
    """The archive so far, and the files that its manifest names."""

    zip: ZipWriter = field(default_factory=ZipWriter)
    files: list[ExportedFile] = field(default_factory=list)
    _name: str = ""
    _size: int = 0
    _digest: Any = None

    def begun(self, name: str) -> Iterator[bytes]:
        self._name, self._size, self._digest = name, 0, hashlib.sha256()
        yield self.zip.begun(name)

    def added(self, piece: bytes) -> Iterator[bytes]:
        self._size += len(piece)
        self._digest.update(piece)
        yield self.zip.added(piece)

    def ended(self, rows: int | None) -> Iterator[bytes]:
        self.files.append(ExportedFile(self._name, self._size, self._digest.hexdigest(), rows))
        yield self.zip.ended()
