"""The members of an archive as a tar file: plain files under short names, of one form alone; pure.

Who reads one compares each head with the head that a writer makes of its name and size. So there is no link,
no device, no owner and no extension in what is read, and two archives of the same members are the same bytes.
"""

from __future__ import annotations

import re
import tarfile
from typing import Final

from events.runtime.errors import Rejected

BLOCK_BYTES: Final = 512
END: Final = bytes(2 * BLOCK_BYTES)
NAME_CHARS_MAX: Final = 99  # what fits into a head
BAD: Final = "bad_archive"
MANIFEST: Final = "manifest.json"
RUN: Final = "run.json"
ARTIFACTS: Final = "artifacts/"
DECISIONS: Final = "decisions"
# Parts of a list, one after the other: documents of a collection, and events: numbered ones by attempts.
_PART: Final = re.compile(
    r"(?P<folder>documents|events)/(?P<list>[a-z_]{1,40}|a[1-9][0-9]{0,9})-[0-9]{6}\.ndjson\Z"
)
_ARTIFACT: Final = re.compile(r"artifacts/a[1-9][0-9]{0,9}/[0-9a-f]{16,64}\Z")


def head(name: str, size: int) -> bytes:
    """Return what stands before the content of a member."""
    assert is_name(name), name
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member.tobuf(tarfile.GNU_FORMAT)


def padding(size: int) -> bytes:
    """Return what stands behind a content of this many bytes."""
    return bytes(-size % BLOCK_BYTES)


def read_head(block: bytes) -> tuple[str, int]:
    """Return name and size of a member. Raises `Rejected`."""
    try:
        found = tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, ValueError) as error:
        raise Rejected(BAD, f"it is no archive of a run, or is damaged: {error}") from error
    if not is_name(found.name):
        raise Rejected("bad_name", f"it has a member {found.name[:80]!r}, which no archive has")
    if found.size < 0 or head(found.name, found.size) != block:
        raise Rejected(BAD, f"its member {found.name} is no plain file as an archive has them")
    return found.name, found.size


def is_name(name: str) -> bool:
    """Say whether an archive may have a member of this name."""
    return len(name) <= NAME_CHARS_MAX and (
        name in (MANIFEST, RUN) or bool(_PART.match(name)) or bool(_ARTIFACT.match(name))
    )


def part_name(folder: str, listed: str, number: int) -> str:
    """Return the name of a part of a list; `number` from 1 on."""
    return f"{folder}/{listed}-{number:06d}.ndjson"


def list_of(name: str) -> tuple[str, str] | None:
    """Return the folder and the list of which a member is a part; None if it is none."""
    found = _PART.match(name)
    return None if found is None else (found["folder"], found["list"])


def is_artifact(name: str) -> bool:
    """Say whether a member is the content of an artifact."""
    return bool(_ARTIFACT.match(name))
