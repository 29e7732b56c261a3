"""What a run may wait for: runs by their ids, and groups by `group:NAME`, pure."""

from __future__ import annotations

from typing import Final

OF_GROUP: Final = "group:"


def group_in(name: str) -> str | None:
    """Return the group that a predecessor is, None for a run."""
    return name.removeprefix(OF_GROUP) if name.startswith(OF_GROUP) else None


def shown(name: str) -> str:
    """Return a predecessor in words, such as `run 01K...` or `group rates`."""
    group = group_in(name)
    return f"run {name}" if group is None else f"group {group}"
