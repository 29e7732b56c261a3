"""The objects of a backup: copied out of the storage or only listed, and put back or only looked at.

Law: the file of an object is named by its key and its version, so that a version is copied once, whatever is
repeated; an object that changes while it is copied has the version that was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import msgspec

from control_plane.concurrency.loops import serve_all
from control_plane.files.blobs import Blobs
from control_plane.files.object_keys import is_key
from control_plane.files.transfer import fetch, send
from control_plane.store.log.inspections import Version
from control_plane.store.verify.dumps import packed, unpacked
from control_plane.upkeep.backup.folder import Folder, Packer
from events.runtime.errors import Rejected

AT_ONCE: Final = 8
SEEN_MAX: Final = 200_000  # keys in memory; whoever is named again behind so many others is looked at again
DIGEST_BYTES: Final = 32
TOLD_MAX: Final = 20  # objects that are named one by one


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One object: its key, size, ETag; the file with its bytes and their SHA-256 where it was copied."""

    key: str
    size: int
    etag: str
    file: str = ""
    sha256: str = ""


@dataclass(slots=True)
class Tally:
    """How many objects, and which of them are not as they were."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def tell(self, what: str, key: str) -> None:
        """Count an object that is `what`."""
        self.counts[what] += 1
        if len(self.examples) < TOLD_MAX:
            self.examples.append(f"{what}: {key}")


def named(collection: str, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of the objects that a document names; one that no storage has is none."""
    keys: list[Any] = []
    if collection == "artifacts":
        keys = [document.get("key")]
    elif collection == "trees":
        digests, of_run = document.get("digests"), document.get("keys")
        keys = [f"trees/{document.get('_id')}.json"]
        if isinstance(of_run, list):
            keys += of_run
        elif isinstance(digests, bytes):
            starts = range(0, len(digests) - DIGEST_BYTES + 1, DIGEST_BYTES)
            keys += [f"chunks/{digests[at : at + DIGEST_BYTES].hex()}" for at in starts]
    yield from (each for each in keys if isinstance(each, str) and is_key(each))


def once(keys: Iterable[str]) -> Iterator[str]:
    """Yield keys without those that came lately."""
    seen: set[str] = set()
    for key in keys:
        if key not in seen:
            if len(seen) >= SEEN_MAX:
                seen.clear()
            seen.add(key)
            yield key


async def collect(
    keys: Iterator[str], folder: Folder, blobs: Blobs, packer: Packer, *, copies: bool
) -> Tally:
    """List objects in a file, and copy those that are not in the folder. Raises `Transient`."""
    tally = Tally()

    async def one(key: str) -> Row | None:
        if not copies:
            found = await blobs.version(key)
            return None if found is None else Row(key, found.size, found.etag)
        return await _copied(key, folder, blobs, tally)

    while some := list(islice(keys, AT_ONCE)):
        for key, row in zip(some, await serve_all(some, one), strict=True):
            if row is None:
                tally.tell("missing", key)
                continue
            tally.counts["objects"] += 1
            packer.add(packed(msgspec.to_builtins(row)))
    return tally


async def _copied(key: str, folder: Folder, blobs: Blobs, tally: Tally) -> Row | None:
    version = await blobs.version(key)
    if version is None:
        return None
    name = folder.object_name(_identity(key, version))
    if digest := folder.kept_object(name):
        tally.counts["kept"] += 1
        return Row(key, version.size, version.etag, name, digest)
    writer = folder.object_writer(name)
    try:
        read = await fetch(blobs, key, writer.write)
        if read is None or _identity(key, read) != _identity(key, version) or writer.size != version.size:
            writer.abandon()
            return None if read is None else await _copied(key, folder, blobs, tally)
        digest = writer.close()
    except BaseException:
        writer.abandon()
        raise
    tally.counts["copied"] += 1
    return Row(key, version.size, version.etag, name, digest)


def _identity(key: str, version: Version) -> str:
    return "\n".join((key, str(version.size), version.etag, version.modified))


def rows(documents: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows of a file. Raises `Rejected` for one that names no object of ours."""
    for raw in documents:
        try:
            row = msgspec.convert(unpacked(raw), Row)
        except msgspec.ValidationError as error:
            raise Rejected("bad_backup", f"its list of objects is damaged: {error}") from error
        names = [(row.file, 64), (row.sha256, 64)] if row.file else []
        if not is_key(row.key) or row.size < 0 or not all(_is_hex(*each) for each in names):
            raise Rejected("bad_backup", "its list of objects names what is no object")
        yield row


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and set(text) <= set("0123456789abcdef")


def check(found: Iterator[Row], folder: Folder) -> int:
    """Read every copied object; return how many. Raises `Rejected` for one with other bytes."""
    count = 0
    for row in found:
        if row.file:
            size = sum(len(piece) for piece in folder.object_pieces(row.file, row.sha256))
            if size != row.size:
                raise Rejected("bad_backup", f"the object {row.key} has {size} bytes instead of {row.size}")
            count += 1
    return count


async def put_back(found: Iterator[Row], folder: Folder, blobs: Blobs) -> Tally:
    """Put copied objects where the storage lacks them or has another; look at those that are only listed."""
    tally = Tally()

    async def one(row: Row) -> None:
        present = await blobs.version(row.key)
        is_same = present is not None and present.size == row.size and present.etag == row.etag
        if not row.file:
            if not is_same:
                tally.tell("missing" if present is None else "changed", row.key)
            return
        if is_same:
            tally.counts["present"] += 1
            return
        await send(blobs, row.key, folder.object_pieces(row.file, row.sha256), row.size)
        tally.counts["put"] += 1

    while some := list(islice(found, AT_ONCE)):
        tally.counts["objects"] += len(some)
        await serve_all(some, one)
    return tally
