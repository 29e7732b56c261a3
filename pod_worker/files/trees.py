"""The file trees of a pod: fetched once, read-only, and shared by its processes (`folder_cache`)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from events.answers.kinds.trees import FileTree, TreeChunks
from events.delivery.control_plane_client import Answer, ControlPlane, bearer
from events.files.tree_fetch import TreeFetch
from events.queue.claims import Claim
from events.runtime.clock import Clock
from events.runtime.errors import NotFound, Rejected
from pod_worker.files.folder_cache import FILES_MAX, ID, TREE_CACHE_BYTES, FolderCache, Size

CALL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class TreesOfRun:
    """Asks the control plane for the trees that a run names, by its token."""

    control_plane: ControlPlane
    claim: Claim

    def tree(self, tree_id: str) -> FileTree:
        """Return what is known of a tree. Raises `LeaseLost`, `NotFound`, `Transient`."""
        return self._ask(tree_id, "", {}).read(FileTree, self.claim)

    def chunks(self, tree_id: str, first: int) -> TreeChunks:
        """Return where its chunks are. Raises as `tree` does."""
        return self._ask(tree_id, "/chunks", {"first": first}).read(TreeChunks, self.claim)

    def _ask(self, tree_id: str, part: str, query: Mapping[str, int]) -> Answer:
        path = f"/api/runs/{self.claim.run_id}/trees/{tree_id}{part}"
        headers = bearer(self.claim.run_token)
        answer = self.control_plane.send("GET", path, params=query, headers=headers, timeout_s=CALL_S)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise NotFound("unknown_tree", answer.shown())
        return answer


@dataclass(frozen=True, slots=True)
class TreeCache:
    """Trees below a folder of this pod, within limits of bytes and files; several processes may use it."""

    folder: Path
    clock: Clock
    bytes_max: int = TREE_CACHE_BYTES
    files_max: int = FILES_MAX

    @contextmanager
    def used(self, tree_id: str, fetch: TreeFetch) -> Iterator[Path]:
        """Yield the folder of a tree, which is fetched where it is not there, and stays while it is used.

        Raises what `fetch` raises, and `Rejected` or `Transient` where the tree finds no room.
        """
        if not ID.fullmatch(tree_id):
            raise Rejected("bad_tree", f"{tree_id[:64]!r} is no id of a tree")
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = FolderCache(self.folder, self.clock, self.bytes_max, "tree", self.files_max)
        place = kept.place(tree_id)
        while True:
            with kept.locked(tree_id, fcntl.LOCK_SH, fetch.check) as lock:
                if place.is_dir():
                    os.utime(lock)  # its last use
                    yield place
                    os.utime(lock)
                    return
            with kept.locked(tree_id, fcntl.LOCK_EX, fetch.check) as lock:
                if not place.is_dir():
                    tree = fetch.manifest(tree_id)
                    kept.put(
                        tree_id, Size(tree.size, len(tree.files)), lock, partial(fetch.fill, tree, tree_id)
                    )
