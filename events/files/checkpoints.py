"""The checkpoint that one attempt leaves for the next: a manifest, and the files that it names.

Law: both are artifacts of the attempt, the manifest registered last. A checkpoint exists if and only if its
manifest is registered. A later one of the same name takes its place.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from events.files.paths import BadPath, RunPath, SafeName, from_text

PREFIX: Final = "checkpoints/"
MANIFEST: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 16 << 20
VALUES_MAX: Final = 1 << 20  # signs that begin or part values; each value may take a hundred bytes of memory
FILES_MAX: Final = 200

Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
RunId = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]

T = TypeVar("T")


class BrokenManifest(ValueError):
    """The content is no manifest; the text says where it is wrong."""


class CheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a checkpoint: the pipeline's name for it, that of its artifact, and what it holds."""

    name: SafeName
    artifact: RunPath
    size: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    sha256: Sha256


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a checkpoint, without its state."""

    version: Literal[1]
    name: SafeName
    run_id: RunId
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    files: Annotated[list[CheckpointFile], msgspec.Meta(max_length=FILES_MAX)]


class _Sealed(Contents, frozen=True, kw_only=True):
    """A manifest whose state is not decoded."""

    state: msgspec.Raw


class Manifest(Contents, frozen=True, kw_only=True):
    """A checkpoint: `state` is the pipeline's own, as JSON."""

    state: dict[str, Any]


_sealed: Final = msgspec.json.Decoder(_Sealed, dec_hook=from_text)
_manifests: Final = msgspec.json.Decoder(Manifest, dec_hook=from_text)


def decode_contents(content: bytes) -> Contents:
    """Decode the contents of a manifest, but not its state, which may be large.

    Raises `BrokenManifest`.
    """
    sealed = _decoded(_sealed, content)
    try:
        content.decode()  # nobody has looked into the state's texts
    except UnicodeDecodeError as error:
        raise BrokenManifest(str(error)) from error
    if not bytes(sealed.state).startswith(b"{"):
        raise BrokenManifest("its state is no object")
    return sealed


def decode_manifest(content: bytes) -> Manifest:
    """Read a manifest. Raises `BrokenManifest`."""
    return _decoded(_manifests, content)


def _decoded(decoder: msgspec.json.Decoder[T], content: bytes) -> T:
    if sum(map(content.count, (b",", b"[", b"{"))) > VALUES_MAX:
        raise BrokenManifest(f"it has more than {VALUES_MAX} values")
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenManifest(str(error)) from error


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as it is kept. Raises `TypeError` for a state that is no JSON."""
    return msgspec.json.encode(manifest, enc_hook=_as_text)


def emptied(name: str, run_id: str, attempt: int) -> bytes:
    """Return the manifest by which an attempt sets aside what earlier ones left under a name.

    It has neither state nor files, so that its digest alone says what it is.
    """
    return encode_manifest(
        Manifest(version=1, name=SafeName(name), run_id=run_id, attempt=attempt, state={}, files=[])
    )


def is_emptied(sha256: str, name: str, run_id: str, attempt: int) -> bool:
    """Say whether a manifest with this digest sets earlier ones aside."""
    return sha256 == hashlib.sha256(emptied(name, run_id, attempt)).hexdigest()


def _as_text(value: object) -> str:
    if isinstance(value, str):  # a name or a path
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def manifest_artifact(name: str) -> str:
    """Return the name of the artifact that a checkpoint's manifest is."""
    return f"{PREFIX}{name}/{MANIFEST}"


def file_artifact(name: str, number: int, file: str) -> str:
    """Return that of a file, which the next checkpoint of the same name (another `number`) leaves alone."""
    return f"{PREFIX}{name}/{number}/{file}"


def checkpoint_of(artifact: str) -> SafeName | None:
    """Return the checkpoint that an artifact belongs to by its name; None where it names none."""
    try:
        path = RunPath(artifact)
        if not path.is_below(PREFIX) or len(path.parts) < 3:
            return None
        return SafeName(path.parts[1])
    except BadPath:
        return None
