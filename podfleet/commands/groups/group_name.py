"""The name of a group that nobody named."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from events.runtime.clock import SystemIds

TELLING_CHARS: Final = 8


def group_name(kind: str, idempotency_key: str | None = None) -> str:
    """Return a name that no other group has: the kind and letters of chance, for one key always the same.

    By its name a group is found again: a command that is repeated with its key makes no second one.
    """
    if idempotency_key is None:
        telling = SystemIds().ulid()[-TELLING_CHARS:].lower()
    else:
        telling = hashlib.sha256(idempotency_key.encode()).hexdigest()[:TELLING_CHARS]
    return f"{re.sub('[^a-z0-9]+', '-', kind.lower()).strip('-')[:40]}-{telling}"
