"""File trees in the storage: what it lacks of one, and which are whole.

Law: a tree is added when the storage holds its manifest and each chunk. Where the storage holds each PUT to
its SHA-256, the size of a chunk is looked at; else its bytes are read once, and compared: one that has others
is removed, so that the next push sends it. The tree of a run's files names those files themselves: nothing is
copied, and who fetches it compares them. Before the storage is looked at, the tree is stored as one that is
being added, which holds its objects; one that is removed at this moment is not believed (`tree_sweeper`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from control_plane.files.blobs import Blobs, storage_call
from control_plane.files.inspection import Inspector
from control_plane.files.signing import Content, Signed
from control_plane.model.views.readable import readable
from control_plane.reads import paging
from control_plane.reads.reading import listing
from control_plane.store.files.tree_removals import TreeRemovals
from control_plane.store.files.trees import Trees
from events.answers.answer import Listing
from events.answers.kinds.trees import (
    DataSet,
    FileTree,
    MissingObjects,
    SignedChunk,
    SoughtObject,
    TreeChunks,
)
from events.files.trees import (
    BAD_TREE,
    MANIFEST_BYTES_MAX,
    TREE_BUSY,
    RunFiles,
    Tree,
    id_of,
    is_tree_id,
    read_any,
    sizes_of,
)
from events.runtime.errors import Conflict, NotFound, Rejected, Transient

T = TypeVar("T")
U = TypeVar("U")

LOOKS_AT_ONCE: Final = 8  # of a request, at objects of the storage
TREES_READ_AT_ONCE: Final = 2  # a manifest takes ten times its bytes
TREES_MAX: Final = 200_000
VERSIONS_MAX: Final = 100_000  # of all data sets
DIGEST_BYTES: Final = 32
CHUNKS: Final = "chunks/"
MANIFESTS: Final = "trees/"
MANIFESTS_END: Final = ".json"
TRIES_MAX: Final = 10  # of pushes of one name at once
BUSY_S: Final = 2.0  # until a removal that is under way is asked for again


@dataclass(frozen=True, slots=True)
class TreeStore:
    """Adds trees and versions of data sets, and signs for their bytes.

    Raises `Rejected`, `NotFound`, `Conflict`, `Transient`.
    """

    blobs: Blobs
    inspector: Inspector
    store: Trees
    removals: TreeRemovals
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TREES_READ_AT_ONCE))

    async def missing(
        self, chunks: Sequence[tuple[str, int]], manifest: tuple[str, int] | None
    ) -> MissingObjects:
        """Return where to put those chunks, and the manifest, that the storage lacks."""
        lacks = await _each(lambda each: self._lacks(_chunk_key(each[0]), *each), chunks)
        lacking = [each for each, is_missing in zip(chunks, lacks, strict=True) if is_missing]
        wanted = [(_chunk_key(sha256), sha256, size) for sha256, size in lacking]
        if manifest is not None and await self._lacks(_manifest_key(manifest[0]), *manifest):
            wanted.append((_manifest_key(manifest[0]), *manifest))
        sign = self.blobs.puts.sign
        signed = await storage_call(
            lambda: [_sought(sha256, sign(key, Content(size, sha256))) for key, sha256, size in wanted]
        )
        return MissingObjects(
            chunks=signed[: len(lacking)], manifest=next(iter(signed[len(lacking) :]), None)
        )

    async def add(self, tree_id: str, *, by: str) -> FileTree:
        """Add the tree whose manifest and chunks are in the storage, which is looked at anew each time."""
        await self._require_room(tree_id)
        async with self._turns:
            manifest = await self.blobs.beginning(_manifest_key(tree_id), MANIFEST_BYTES_MAX + 1)
            if manifest is None:
                raise Conflict("tree_incomplete", "the storage lacks its manifest: push it again")
            tree, sizes = await asyncio.to_thread(_read, manifest[1], tree_id)
        await self._begin(tree_id, tree, len(manifest[1]), by)
        if await self.blobs.version(_manifest_key(tree_id)) is None:
            raise Conflict("tree_incomplete", "the storage lacks its manifest: push it again")
        lacks = await _each(lambda each: self._is_unfit(_chunk_key(each[0]), *each), [*sizes.items()])
        if missing := sum(lacks):
            of = f"{missing:,} of its {len(sizes):,} chunks"
            raise Conflict("tree_incomplete", f"the storage lacks {of}: push it again")
        return await self._shown(await self._confirmed(tree_id))

    async def add_run_files(self, tree: RunFiles, keys: Sequence[str], *, by: str) -> str:
        """Add the tree of a run's files, return its id; `keys` are of the objects of those not empty."""
        manifest = await asyncio.to_thread(tree.manifest)
        tree_id = id_of(manifest)
        if await self.store.use(tree_id) is None:
            await self._require_room(tree_id)
            of_run = {"run": tree.run, "keys": list(keys)}
            await self._begin(tree_id, tree, len(manifest), by, of_run)
            await self.blobs.put(_manifest_key(tree_id), manifest)
            await self._confirmed(tree_id)
        return tree_id

    async def _begin(
        self, tree_id: str, tree: Tree, size: int, by: str, more: Mapping[str, Any] | None = None
    ) -> None:
        """Hold the objects of a tree. Raises `Transient` while one of them is being removed."""
        fields = {
            "size": tree.size,
            "files": len(tree.files),
            "chunks": len(tree.chunks),
            "manifestSize": size,
            **(more or {}),
        }
        await self.store.begin(tree_id, fields, b"".join(map(bytes.fromhex, tree.chunks)), by)
        # Who removes objects says so first and then looks at the trees: one of the two sees the other.
        if await self.removals.is_going([tree_id, *tree.chunks]):
            why = "objects like those of this tree are being removed: push it again in a moment"
            raise Transient(TREE_BUSY, why, retry_after_s=BUSY_S)

    async def _confirmed(self, tree_id: str) -> Mapping[str, Any]:
        found = await self.store.confirm(tree_id)
        if found is None:
            raise Transient(TREE_BUSY, "the tree was removed while it was added", retry_after_s=BUSY_S)
        return found

    async def _require_room(self, tree_id: str) -> None:
        if await self.store.find(tree_id) is None and await self.store.count(TREES_MAX) >= TREES_MAX:
            raise Rejected("too_many_trees", f"there are {TREES_MAX:,} trees, which is the most")

    async def require(self, tree_id: str) -> None:
        """Check that there is a tree of this id. Raises `NotFound`."""
        await self._used(tree_id)

    async def find(self, tree_id: str) -> FileTree:
        """Return a tree."""
        return await self._shown(await self._stored(tree_id))

    async def chunks(self, tree_id: str, first: int, limit: int) -> TreeChunks:
        """Return where to read the chunks of a tree from the number `first` on."""
        stored = await self._stored(tree_id, is_whole=True)
        digests = bytes(stored.get("digests", b""))
        names = [digests[at : at + DIGEST_BYTES].hex() for at in range(0, len(digests), DIGEST_BYTES)]
        wanted = names[first : first + limit]
        keys = stored.get("keys", [])[first : first + limit] or list(map(_chunk_key, wanted))
        places = list(zip(wanted, keys, strict=True))
        urls = await _each(lambda place: self.blobs.get_url(place[1], name=place[0]), places)
        signed = [SignedChunk(sha256=name, url=url) for name, url in zip(wanted, urls, strict=True)]
        return TreeChunks(first=first, count=len(names), chunks=signed)

    async def manifest(self, tree_id: str) -> Tree:
        """Return the files of a tree."""
        async with self._turns:
            found = await self.blobs.beginning(_manifest_key(tree_id), MANIFEST_BYTES_MAX + 1)
            if found is None:
                raise NotFound("unknown_tree", f"the storage lacks the manifest of the tree {tree_id[:64]!r}")
            return await asyncio.to_thread(read_any, found[1], tree_id)

    async def only_file(self, tree_id: str, most: int) -> bytes:
        """Return the content of a tree of one file, of at most so many bytes, which are looked at."""
        tree = await self.manifest(tree_id)
        if len(tree.chunks) != 1 or not 0 < tree.size <= most:
            raise Rejected(BAD_TREE, f"the tree {tree_id} has other than one file of {most:,} bytes at most")
        found = await self.blobs.beginning(_chunk_key(tree.chunks[0]), tree.size)
        if found is None or hashlib.sha256(found[1]).hexdigest() != tree.chunks[0]:
            raise NotFound("unknown_tree", f"the storage lacks a chunk of the tree {tree_id}")
        return found[1]

    async def add_version(self, name: str, tree_id: str, *, by: str) -> tuple[DataSet, bool]:
        """Return the version of a data set that is this tree, and whether it is new."""
        tree = await self._used(tree_id)
        for _ in range(TRIES_MAX):
            latest = await self.store.latest(name)
            if latest is not None and latest.get("tree") == tree_id:
                return _version(latest), False
            if await self.store.count_versions(VERSIONS_MAX) >= VERSIONS_MAX:
                message = f"there are {VERSIONS_MAX:,} versions of data sets, which is the most"
                raise Rejected("too_many_versions", message)
            number = await self.store.last_number(name) + 1
            fields = {"tree": tree_id, "size": tree["size"], "files": tree["files"]}
            added = await self.store.add_version(name, number, fields, by)
            if added is not None:
                return _version(added), True
        raise Conflict("data_set_busy", f"others push {name!r} at the same time: try again")

    async def version(self, name: str, version: int | None) -> DataSet:
        """Return a version of a data set, the latest where none is named."""
        found = await (self.store.latest(name) if version is None else self.store.version(name, version))
        if found is None:
            of = "no data set" if version is None else f"no version {version} of a data set"
            raise NotFound(
                "unknown_data_set", f"there is {of} {name!r}; `podfleet data list` shows what there is"
            )
        return _version(found)

    async def remove_version(self, name: str, version: int, *, by: str) -> None:
        """Remove a version of a data set. Raises `Conflict` while what has not ended reads it."""
        found = await self.version(name, version)
        is_only = await self.store.count_live(name, 2) == 1
        user = await self.removals.user_of(name, version, is_only=is_only)
        if user is not None:
            why = f"{user} reads {found.id}: remove it once that has ended, or cancel that first"
            raise Conflict("data_set_in_use", why)
        await self.store.remove_version(name, version, by)

    async def versions(self, name: str | None, limit: int, after: str | None) -> Listing[DataSet]:
        """Return a page of versions, by name, the newest of each first."""
        key = None if after is None else paging.decode("data-sets", after, str, int)
        found = await self.store.page(name, key, paging.limited(limit))
        return listing("data-sets", found, _version)

    async def _used(self, tree_id: str) -> Mapping[str, Any]:
        """Return a tree, which is kept until who names it now has done so."""
        if not is_tree_id(tree_id) or (found := await self.store.use(tree_id)) is None:
            return await self._stored(tree_id)
        return found

    async def _stored(self, tree_id: str, *, is_whole: bool = False) -> Mapping[str, Any]:
        found = await self.store.find(tree_id, is_whole=is_whole) if is_tree_id(tree_id) else None
        if found is None:
            raise NotFound("unknown_tree", f"there is no tree {tree_id[:64]!r}: push it first")
        return found

    async def _shown(self, document: Mapping[str, Any]) -> FileTree:
        tree_id = str(document["_id"])
        url = await self.blobs.get_url(_manifest_key(tree_id), name=f"{tree_id}.json")
        return readable(FileTree, "tree", document, url=url)

    async def _lacks(self, key: str, sha256: str, size: int) -> bool:
        """Say whether an object has to be put; one of another size is looked at: the caller may be wrong."""
        version = await self.blobs.version(key)
        if version is None or version.size == size:
            return version is None
        return await self._is_unfit(key, sha256, version.size)

    async def _is_unfit(self, key: str, sha256: str, size: int) -> bool:
        """Say whether an object of this content is not there; what lies there with another is removed."""
        version = await self.blobs.version(key)
        if version is None or self.blobs.puts.knows.digests:
            return version is None or version.size != size
        try:  # by its own size: what a manifest says of a chunk of others removes nothing
            await self.inspector.require(f"chunk {sha256}", key, version.size, sha256)
        except NotFound:
            return True
        except Conflict:
            await self.blobs.remove(key)
            return True
        return version.size != size


async def _each(look: Callable[[T], Awaitable[U]], items: Sequence[T]) -> list[U]:
    """Return what `look` answers for each item, a few at once."""
    found: list[U] = []
    for at in range(0, len(items), LOOKS_AT_ONCE):
        found += await asyncio.gather(*map(look, items[at : at + LOOKS_AT_ONCE]))
    return found


def _read(manifest: bytes, tree_id: str) -> tuple[Tree, Mapping[str, int]]:
    tree = Tree.read(manifest, tree_id)
    return tree, sizes_of(tree)


def _chunk_key(sha256: str) -> str:
    return f"{CHUNKS}{sha256}"


def _manifest_key(tree_id: str) -> str:
    return f"{MANIFESTS}{tree_id}{MANIFESTS_END}"


def _sought(sha256: str, signed: Signed) -> SoughtObject:
    return SoughtObject(sha256=sha256, url=signed.url, headers=dict(signed.headers))


def _version(document: Mapping[str, Any]) -> DataSet:
    return readable(DataSet, "data set", document)
