"""The keys of objects in the storage: which of them every storage holds, pure."""

from __future__ import annotations

from events.files.paths import PATH_BYTES_MAX


def is_key(key: str) -> bool:
    """Say whether a key is valid for storage: no part of it is empty, `.` or `..`."""
    is_path = key.isprintable() and not {"", ".", ".."} & set(key.split("/"))
    return is_path and len(key.encode()) <= PATH_BYTES_MAX
