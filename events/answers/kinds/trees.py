"""File trees and named versions of them, as the HTTP interface shows them."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class FileTree(Answer, frozen=True, kw_only=True):
    """A tree whose files are all in the storage; sizes in bytes. Its manifest can be read at `url`."""

    id: str
    size: Count
    files: Count
    chunks: Count
    manifest_size: Count
    created_by: str
    created_at: Moment
    url: str


class SignedChunk(Answer, frozen=True, kw_only=True):
    """A chunk of a tree, by its SHA-256 in hexadecimal, and the URL to GET it from."""

    sha256: str
    url: str


class TreeChunks(Answer, frozen=True, kw_only=True):
    """Chunks of a tree in their order from number `first`; of all there are `count`."""

    first: Count
    count: Count
    chunks: list[SignedChunk]


class SoughtObject(Answer, frozen=True, kw_only=True):
    """What the storage lacks, by its SHA-256 in hexadecimal, and where to PUT it with which `headers`."""

    sha256: str
    url: str
    headers: dict[str, str]


class MissingObjects(Answer, frozen=True, kw_only=True):
    """Which of some chunks, and whether the manifest, the storage lacks."""

    chunks: list[SoughtObject]
    manifest: SoughtObject | None


class DataSet(Answer, frozen=True, kw_only=True):
    """A version of a data set: the tree of its files; `size` in bytes."""

    id: str
    name: str
    version: Count
    tree: str
    size: Count
    files: Count
    created_by: str
    created_at: Moment
