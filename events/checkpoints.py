"""What one attempt leaves for the next: a manifest, and the files that it names.

Law: both are artifacts of the attempt, the manifest registered last. A checkpoint exists if
and only if its manifest is registered; a later one of the same name takes its place.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

PREFIX: Final = "checkpoints/"
MANIFEST: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 16 << 20
FILES_MAX: Final = 200

CheckpointName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class CheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a checkpoint: the pipeline's name for it, that of its artifact, and what it holds."""

    name: CheckpointName
    artifact: str
    size: int
    sha256: Sha256


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint: `state` is the pipeline's own, as JSON."""

    version: Literal[1]
    name: CheckpointName
    run_id: str
    attempt: int
    state: dict[str, Any]
    files: Annotated[list[CheckpointFile], msgspec.Meta(max_length=FILES_MAX)]


_decoder: Final = msgspec.json.Decoder(Manifest)


def decode_manifest(content: bytes) -> Manifest:
    """Read a manifest. Raises `msgspec.MsgspecError` on anything else."""
    return _decoder.decode(content)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as it is kept. Raises `TypeError` for a state that is no JSON."""
    return msgspec.json.encode(manifest)


def manifest_artifact(name: str) -> str:
    """Return the name of the artifact that a checkpoint's manifest is."""
    return f"{PREFIX}{name}/{MANIFEST}"


def file_artifact(name: str, number: int, file: str) -> str:
    """Return that of a file, which the next checkpoint of the same name (another `number`) leaves alone."""
    return f"{PREFIX}{name}/{number}/{file}"
