"""Fetches the files of a tree from object storage into a folder, by signed URLs.

Law: nothing is taken at its word: the manifest is that of the tree's id, and a file gets bytes of a chunk
only after their SHA-256 was compared. One that no memory holds is compared when it lies in the folder, which
nobody uses before the end. No byte beyond a size is read, and no chunk takes longer than its size
allows. A fetch that broke off is continued: what lies in the folder and is right is not fetched again.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar

import httpx

from events.answers.kinds.trees import FileTree, TreeChunks
from events.files.open_beneath import read_beneath, update_beneath
from events.files.trees import CHUNK_BYTES, MANIFEST_BYTES_MAX, Piece, Tree, TreeFile, read_any, size_of
from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock
from events.runtime.errors import Rejected, Transient

T = TypeVar("T")

AT_ONCE: Final = 4
TRIES_MAX: Final = 6  # of a chunk; a storage that is away for longer is waited for by the caller
BACK_OFF_FIRST_S: Final = 0.2
BACK_OFF_MAX_S: Final = 5.0
READ_BYTES: Final = 256 * 1024
SILENCE_S: Final = 20.0
CHUNK_S: Final = 60.0  # and so much longer for its bytes
BYTES_A_SECOND_MIN: Final = 64 * 1024
OTHER_BYTES: Final = "tree_other_bytes"
LOST: Final = b"NoSuchKey"


class TreeSource(Protocol):
    """Who signs the URLs of a tree. Raises `PodfleetError`."""

    def tree(self, tree_id: str) -> FileTree:
        """Return what is known of a tree, and where its manifest is."""
        ...

    def chunks(self, tree_id: str, first: int) -> TreeChunks:
        """Return where the chunks from number `first` are, at least one of them."""
        ...


class _UnfitError(Exception):
    """The storage has lost an object, or sent other bytes than those of its digest."""


def _is_lost(response: httpx.Response) -> bool:
    """Say whether an answer that there is nothing is meant: a storage that lacks the bucket may come back."""
    return LOST in next(response.iter_raw(READ_BYTES), b"")


@dataclass(frozen=True, slots=True)
class TreeFetch:
    """Fetches trees with a few connections at once; `check` raises where nobody waits any more."""

    source: TreeSource
    storage: httpx.Client
    clock: Clock
    check: Callable[[], None] = lambda: None
    told: Callable[[int, int], None] = lambda done, size: None
    _never: threading.Event = field(default_factory=threading.Event)

    def manifest(self, tree_id: str) -> Tree:
        """Return the tree of an id. Raises `Rejected` for a manifest that lies, `Transient`."""
        manifest = self._patiently(lambda: self._get(self.source.tree(tree_id).url, None, tree_id))
        return read_any(manifest, tree_id)

    def fill(self, tree: Tree, tree_id: str, folder: Path) -> None:
        """Put the files of a tree into a folder, where nothing else may lie.

        Raises `Rejected` where the storage holds other bytes, `Transient`, `OSError`.
        """
        chunks = tree.pieces
        wanted = [number for number in range(len(chunks)) if not self._is_there(tree, chunks, number, folder)]
        for file in tree.files:
            if not file.size:
                update_beneath(folder, file.path).close()
        done, size = tree.size - sum(size_of(chunks[number]) for number in wanted), tree.size
        self.told(done, size)
        with ThreadPoolExecutor(AT_ONCE, "tree") as threads:
            while wanted:
                urls = self._urls(tree, tree_id, wanted[0])
                turn = [number for number in wanted if number in urls]
                if not turn:
                    raise Transient("tree_odd", "the control plane named other chunks than were asked for")
                futures = [
                    threads.submit(self._fetch, tree, tree_id, number, urls[number], chunks[number], folder)
                    for number in turn
                ]
                try:
                    for number, future in zip(turn, futures, strict=True):
                        future.result()
                        done += size_of(chunks[number])
                        self.told(done, size)
                finally:
                    for future in futures:
                        future.cancel()
                wanted = wanted[len(turn) :]
        for file in tree.files:
            with update_beneath(folder, file.path) as opened:
                os.ftruncate(opened.fileno(), file.size)
                os.fchmod(opened.fileno(), 0o755 if file.executable else 0o644)

    def _urls(self, tree: Tree, tree_id: str, first: int) -> dict[int, str]:
        """Return where chunks are, by their numbers, of which the first is `first`."""
        answer = self._patiently(lambda: self.source.chunks(tree_id, first))
        named = list(enumerate(answer.chunks, first))
        return {
            number: each.url
            for number, each in named
            if number < len(tree.chunks) and each.sha256 == tree.chunks[number]
        }

    def _fetch(
        self, tree: Tree, tree_id: str, number: int, url: str, pieces: Sequence[Piece], folder: Path
    ) -> None:
        """Fetch a chunk, and write it to its files."""
        urls = [url]  # of the first try; later ones ask anew

        def where() -> str:
            url = urls.pop() if urls else self._urls(tree, tree_id, number).get(number)
            if url is None:
                raise Transient("tree_odd", "the control plane named other chunks than were asked for")
            return url

        size, sha256 = size_of(pieces), tree.chunks[number]
        if size > CHUNK_BYTES:
            self._fetch_large(where, pieces[0].file, sha256, folder)
            return
        content = memoryview(self._patiently(lambda: self._get(where(), size, sha256)))
        for piece in pieces:
            with update_beneath(folder, piece.file.path) as file:
                file.seek(piece.offset)
                file.write(content[: piece.size])
            content = content[piece.size :]

    def _fetch_large(self, where: Callable[[], str], wanted: TreeFile, sha256: str, folder: Path) -> None:
        """Fetch a file that no memory holds; a further try goes on where the last one broke off."""
        done, digest = 0, hashlib.sha256()
        with update_beneath(folder, wanted.path) as file:

            def get() -> None:
                nonlocal done, digest
                for block in self._blocks(where(), done, wanted.size):
                    file.write(block)
                    digest.update(block)
                    done += len(block)
                if done < wanted.size:
                    raise Transient("storage_unreachable", "object storage ended an object before its end")
                if done > wanted.size or digest.hexdigest() != sha256:
                    done, digest = 0, hashlib.sha256()
                    file.seek(0)
                    raise _UnfitError(f"the storage holds other bytes than those of SHA-256 {sha256}")

            self._patiently(get)

    def _patiently(self, step: Callable[[], T]) -> T:
        tries = 0
        while True:
            self.check()
            try:
                return step()
            except Transient as error:
                tries += 1
                if tries >= TRIES_MAX:
                    raise
                wait_s = back_off_s(tries, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S)
                self.clock.wait(self._never, error.retry_after_s or wait_s)
            except _UnfitError as error:
                tries += 1
                if tries >= TRIES_MAX:
                    again = "submit its folder again, or push it with --check"
                    raise Rejected(OTHER_BYTES, f"{error}: {again}") from error

    def _get(self, url: str, size: int | None, sha256: str) -> bytes:
        """Return an object of this size, of any where it is None."""
        content = b"".join(self._blocks(url, 0, MANIFEST_BYTES_MAX if size is None else size))
        if size not in (None, len(content)) or hashlib.sha256(content).hexdigest() != sha256:
            raise _UnfitError(f"the storage holds other bytes than those of SHA-256 {sha256}")
        return content

    def _blocks(self, url: str, first: int, most: int) -> Iterator[bytes]:
        """Yield an object from a byte on, until there is more of it than `most` bytes. Raises `Transient`."""
        until_s = self.clock.monotonic_s() + CHUNK_S + most / BYTES_A_SECOND_MIN
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={first}-"} if first else {})
        wanted = httpx.codes.PARTIAL_CONTENT if first else httpx.codes.OK
        try:
            with self.storage.stream("GET", url, headers=headers, timeout=SILENCE_S) as response:
                if response.status_code == httpx.codes.NOT_FOUND and _is_lost(response):
                    raise _UnfitError("the storage has lost an object of the tree")
                if response.status_code != wanted:
                    raise Transient("storage_unavailable", f"object storage answers {response.status_code}")
                for block in response.iter_raw(READ_BYTES):
                    self.check()
                    yield block
                    first += len(block)
                    if first > most:
                        return
                    if self.clock.monotonic_s() > until_s:
                        raise Transient("storage_slow", "object storage takes too long to send an object")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise Transient("storage_unreachable", f"{type(error).__name__}: {error}") from error

    def _is_there(self, tree: Tree, chunks: Sequence[Sequence[Piece]], number: int, folder: Path) -> bool:
        """Say whether a fetch that broke off has written a chunk, whole and right."""
        digest = hashlib.sha256()
        for piece in chunks[number]:
            left = piece.size
            try:
                with read_beneath(folder, piece.file.path) as file:
                    file.seek(piece.offset)
                    while left and (block := file.read(min(left, READ_BYTES))):
                        digest.update(block)
                        left -= len(block)
            except OSError:
                return False
        return digest.hexdigest() == tree.chunks[number]
