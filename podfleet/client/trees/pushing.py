"""Pushes the tree of a folder: the storage gets what it lacks, then the control plane adds the tree.

A push that broke off goes on where it was, since only what is missing is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from events.answers.kinds.trees import FileTree, MissingObjects, SoughtObject
from events.files.trees import TREE_BUSY, Piece, id_of, layout, size_of, sizes_of
from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock
from podfleet.client.problems import Refused
from podfleet.client.transport import is_loopback
from podfleet.client.trees.packing import Packed

if TYPE_CHECKING:
    import httpx

AT_ONCE: Final = 4
LOOKED_AT_ONCE: Final = 256  # chunks, of which none is sent
ASKED_AT_ONCE: Final = 32  # chunks: a URL has to be used within minutes
TRIES_MAX: Final = 6
BACK_OFF_FIRST_S: Final = 0.2
BACK_OFF_MAX_S: Final = 10.0
PUT_S: Final = 60.0  # for one write, not for the whole chunk
UNREAD: Final = "object_unread"  # the control plane still reads what was sent, and goes on when asked again
ADDS_MAX: Final = 1_000
ROUNDS_MAX: Final = 3
SHOWN_CHARS: Final = 200


class Unpushed(Exception):
    """The storage does not take a tree; the text says why."""


class Trees(Protocol):
    """The calls by which a tree is pushed."""

    def tree(self, tree_id: str) -> FileTree: ...

    def missing_of_trees(
        self, chunks: Sequence[tuple[str, int]], manifest: tuple[str, int] | None = None
    ) -> MissingObjects: ...

    def add_tree(self, tree_id: str) -> FileTree: ...


@dataclass(slots=True)
class Push:
    """Pushes trees; `told` hears how many bytes of how many the storage has."""

    client: Trees
    clock: Clock
    told: Callable[[int, int], None] = lambda done, size: None
    _done: int = 0
    _http: httpx.Client | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _never: threading.Event = field(default_factory=threading.Event)

    def run(self, packed: Packed, *, is_checked: bool = False, is_glanced: bool = False) -> FileTree:
        """Return the tree, once the fleet has it whole; what it has is believed unless it `is_checked`.

        One that `is_glanced` at is sent again where the storage lacks an object of it, of the right size.

        Raises `Unpushed`, `Unpackable` for a file that changed meanwhile, and the errors of a client.
        """
        manifest = packed.tree.manifest()
        tree_id = id_of(manifest)
        try:
            if not is_checked:
                known = self.client.tree(tree_id)
                if not is_glanced or self._is_whole(packed, (tree_id, len(manifest))):
                    return known
        except Refused as error:
            if error.code != "unknown_tree":
                raise
        try:
            return self._pushed(packed, tree_id, manifest)
        finally:
            if self._http is not None:
                self._http.close()

    def _is_whole(self, packed: Packed, manifest: tuple[str, int]) -> bool:
        """Say whether the storage has all objects of a tree, each of its size."""
        sizes = [*sizes_of(packed.tree).items()]
        first = self.client.missing_of_trees(sizes[:LOOKED_AT_ONCE], manifest)
        return not (first.manifest or first.chunks) and not any(
            self.client.missing_of_trees(sizes[at : at + LOOKED_AT_ONCE]).chunks
            for at in range(LOOKED_AT_ONCE, len(sizes), LOOKED_AT_ONCE)
        )

    def _pushed(self, packed: Packed, tree_id: str, manifest: bytes) -> FileTree:
        refused: Refused | None = None

        def lacks() -> SoughtObject | None:
            return self.client.missing_of_trees([], (tree_id, len(manifest))).manifest

        for _ in range(ROUNDS_MAX):
            self._done = 0
            self._send(packed)
            if (at := lacks()) is not None:
                self._put(at, manifest, lacks)
            try:
                return self._added(tree_id)
            except Refused as error:
                if error.code != "tree_incomplete":
                    raise
                refused = error
        raise Unpushed(f"the storage loses what is sent to it: {refused}")

    def _send(self, packed: Packed) -> None:
        """Put the chunks that the storage lacks."""
        pieces = dict(zip(packed.tree.chunks, layout(packed.tree.files), strict=True))
        size = sum(map(size_of, pieces.values()))
        with ThreadPoolExecutor(AT_ONCE, "push") as threads:
            for batch in _batches(list(pieces), ASKED_AT_ONCE):
                sizes = [(sha256, size_of(pieces[sha256])) for sha256 in batch]
                missing = self.client.missing_of_trees(sizes).chunks
                lacking = {each.sha256 for each in missing}
                self._count(sum(has for sha256, has in sizes if sha256 not in lacking), size)
                futures = [
                    threads.submit(self._chunk, packed, each, pieces[each.sha256], size) for each in missing
                ]
                try:
                    for future in futures:
                        future.result()
                finally:
                    for future in futures:
                        future.cancel()

    def _chunk(self, packed: Packed, sought: SoughtObject, pieces: Sequence[Piece], size: int) -> None:
        content = packed.content(pieces, sought.sha256)
        named = (sought.sha256, len(content))
        self._put(sought, content, lambda: next(iter(self.client.missing_of_trees([named]).chunks), None))
        self._count(len(content), size)

    def _count(self, bytes_: int, size: int) -> None:
        with self._lock:
            self._done += bytes_
            self.told(self._done, size)

    def _put(self, sought: SoughtObject, content: bytes, lacks: Callable[[], SoughtObject | None]) -> None:
        """Send an object; before each further try `lacks` says where to. Raises `Unpushed`."""
        at: SoughtObject | None = sought
        tries = 0
        while at is not None and (problem := self._problem(at, content)) is not None:
            tries += 1
            if tries >= TRIES_MAX:
                where = at.url.partition("?")[0].rpartition("/")[0]
                raise Unpushed(f"the storage at {where} does not take a file: {problem}; push again later")
            wait_s = back_off_s(tries, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S)
            self.clock.wait(self._never, wait_s)
            at = lacks()

    def _problem(self, at: SoughtObject, content: bytes) -> str | None:
        """Send an object once; return why the storage has not taken it."""
        import httpx

        try:
            answer = self._storage(at.url).put(at.url, content=content, headers=at.headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"{type(error).__name__}: {error}"
        if answer.is_success:
            return None if "etag" in answer.headers else "what answers is no storage"
        return f"it answers {answer.status_code}: {answer.text[:SHOWN_CHARS]}"

    def _storage(self, url: str) -> httpx.Client:
        """Return the connections to the storage, which get no key of ours."""
        import httpx

        with self._lock:
            if self._http is None:
                self._http = httpx.Client(timeout=PUT_S, trust_env=not is_loopback(url))
            return self._http

    def _added(self, tree_id: str) -> FileTree:
        for _ in range(ADDS_MAX):
            try:
                return self.client.add_tree(tree_id)
            except Refused as error:
                if error.code == TREE_BUSY:
                    self.clock.wait(self._never, error.retry_after_s or BACK_OFF_MAX_S)
                elif error.code != UNREAD:
                    raise
        raise Unpushed("the control plane does not come to an end of reading the tree: push again later")


def _batches(items: Sequence[str], size: int) -> Iterator[list[str]]:
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch
