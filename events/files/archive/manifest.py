"""The manifest of an archive: its members with their hashes, and the root of each attempt's log; pure."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from events.runtime.errors import Rejected

FORMAT: Final = "podfleet-run"
VERSION: Final = 1
MEMBERS_MAX: Final = 50_000
MANIFEST_BYTES_MAX: Final = 16 * 1024 * 1024  # of so many members, each with a line of 300 bytes
ATTEMPTS_MAX: Final = 10_000
GAPS_MAX: Final = 1_000

_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the archive; `size` in bytes."""

    name: _Text
    size: _Count
    sha256: _Digest


class AttemptLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The log of one attempt: its lines, the stretches that it lacks up to the last, and its roots.

    `stored` is the root of the lines as they stand in the log, `said` that of what the worker recorded.
    """

    attempt: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    lines: _Count
    last: _Count
    gaps: Annotated[list[tuple[_Count, _Count]], msgspec.Meta(max_length=GAPS_MAX)]
    stored: _Digest
    said: _Digest


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an archive says of itself; `fleet` is the name of the database that it was made of.

    `left_out` are the members of registered files that the storage had no more, or not as registered.
    """

    format: Literal["podfleet-run"] = FORMAT
    version: Literal[1] = VERSION
    podfleet: _Text
    fleet: _Text
    run_id: _Text
    kind: _Text
    status: _Text
    has_artifacts: bool
    left_out: Annotated[list[_Text], msgspec.Meta(max_length=MEMBERS_MAX)]
    attempts: Annotated[list[AttemptLog], msgspec.Meta(max_length=ATTEMPTS_MAX)]
    members: Annotated[list[Member], msgspec.Meta(max_length=MEMBERS_MAX)]


def encoded(manifest: Manifest) -> bytes:
    """Return the manifest as it stands in an archive."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decoded(content: bytes) -> Manifest:
    """Return the manifest. Raises `Rejected`."""
    try:
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected("bad_manifest", f"its manifest cannot be read: {error}") from error
