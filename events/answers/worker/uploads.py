"""The answers to workers about files: the URLs for uploads, and for fetching checkpoints."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Count


class UploadPart(Answer, frozen=True, kw_only=True):
    """A part of a file: its number from 1, its size in bytes, and the URL to PUT it to."""

    number: int
    size: Count
    url: str


class SignedUpload(Answer, frozen=True, kw_only=True):
    """Where a file goes: whole to `url` with `headers`, or in parts of `part_size` bytes.

    `missing` counts the parts that storage lacks, of which `parts` are the first.
    """

    key: str
    url: str | None
    headers: dict[str, str]
    upload_id: str | None = msgspec.field(name="upload_id")
    part_size: int | UnsetType = msgspec.field(name="part_size", default=UNSET)
    missing: int | UnsetType = UNSET
    parts: list[UploadPart] | UnsetType = UNSET


class SignedTest(Answer, frozen=True, kw_only=True):
    """Where the test object of a pod goes: to `url` with `headers`."""

    url: str
    headers: dict[str, str]


class SignedUploads(Answer, frozen=True, kw_only=True):
    """Where files go, in the order in which they were named."""

    files: list[SignedUpload]


class CompletedUpload(Answer, frozen=True, kw_only=True):
    """A file that is in the storage: its key, its size in bytes, its SHA-256 in hexadecimal."""

    key: str
    size: Count
    sha256: str


class SignedFile(Answer, frozen=True, kw_only=True):
    """A file and the URL to GET it from; size in bytes, SHA-256 in hexadecimal."""

    name: str
    size: Count
    sha256: str
    url: str


class Checkpoint(Answer, frozen=True, kw_only=True):
    """A checkpoint from which an attempt can go on; `pods` are those that have had the run until then."""

    name: str
    run_id: str
    attempt: int
    pods: list[str]
    manifest: SignedFile
    files: list[SignedFile]


class Checkpoints(Answer, frozen=True, kw_only=True):
    """The checkpoints from which an attempt can go on, the nearest and latest of each name first.

    `replication_asked` is whether an earlier attempt asked for a replication, checkpoints or not; `told` is
    what the kind of the run tells its attempts at their start. `spent_usd` is what earlier attempts of the
    run have cost by the prices of their pods, null where the end of one is not known. `cheapest_usd` is the
    price an hour of the cheapest pod of the last hour that could take it, where it has a budget.
    """

    checkpoints: list[Checkpoint]
    replication_asked: bool
    told: dict[str, Any]
    spent_usd: float | None
    cheapest_usd: float | None
