"""Pulls a tree into a folder of this machine.

Law: the folder is there whole or not at all. A pull that broke off goes on where it was, in a folder beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from events.answers.kinds.trees import FileTree, TreeChunks
from events.files.tree_fetch import TreeFetch
from events.runtime.clock import Clock
from events.runtime.errors import Transient
from podfleet.client.problems import Unreachable
from podfleet.client.transport import Target, is_loopback

ASKED_AT_ONCE: Final = 32  # chunks: a URL has to be used within minutes


class Unpulled(Exception):
    """A tree cannot be put where it shall be; the text says why."""


class StoredTrees(Protocol):
    """The calls by which a tree is pulled, and where they are sent."""

    target: Target

    def tree(self, tree_id: str) -> FileTree: ...

    def tree_chunks(self, tree_id: str, *, first: int = 0, limit: int | None = None) -> TreeChunks: ...


@dataclass(frozen=True, slots=True)
class TreesOfClient:
    """Asks the control plane of a client for its trees. Raises the errors of a client, and `Transient`."""

    client: StoredTrees

    def tree(self, tree_id: str) -> FileTree:
        """Return what is known of a tree."""
        try:
            return self.client.tree(tree_id)
        except Unreachable as error:
            raise Transient("control_plane_unreachable", str(error)) from error

    def chunks(self, tree_id: str, first: int) -> TreeChunks:
        """Return where its chunks are."""
        try:
            return self.client.tree_chunks(tree_id, first=first, limit=ASKED_AT_ONCE)
        except Unreachable as error:
            raise Transient("control_plane_unreachable", str(error)) from error


def pull(
    client: StoredTrees, clock: Clock, tree_id: str, folder: Path, told: Callable[[int, int], None]
) -> None:
    """Put the files of a tree into a new folder.

    Raises `Unpulled`, `Rejected` where the storage holds other bytes, `Transient`, and errors of a client.
    """
    import httpx

    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise Unpulled(f"{folder} is there already: name another place by --output")
    partial = folder.with_name(f".{folder.name[:100]}.{tree_id[:16]}.part")
    with httpx.Client(trust_env=not is_loopback(str(client.target.url))) as storage:
        fetch = TreeFetch(TreesOfClient(client), storage, clock, told=told)
        tree = fetch.manifest(tree_id)
        try:
            partial.mkdir(parents=True, exist_ok=True)
            fetch.fill(tree, tree_id, partial)
            partial.rename(folder)
        except OSError as error:
            raise Unpulled(f"{folder} cannot be written: {error.strerror or error}") from error
