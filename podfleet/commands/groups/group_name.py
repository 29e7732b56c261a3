"""The name of a group that nobody named."""

from __future__ import annotations

import re

from events.runtime.clock import SystemIds


def group_name(kind: str) -> str:
    """Return a name that no other group has: the kind and letters of chance."""
    return f"{re.sub('[^a-z0-9]+', '-', kind.lower()).strip('-')[:40]}-{SystemIds().ulid()[-8:].lower()}"
