"""Trace context of the W3C: one trace from a submission through its claims to every event, pure.

Source: W3C Recommendation "Trace Context", version 00: `00-<trace id>-<span id>-<flags>`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_FORM: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
SAMPLED: Final = "01"


def traceparent_of(header: str | None, name: str) -> str:
    """Return the context of the work `name`: in the trace that `header` names, else in one of its own.

    A header that is none, or holds an id of zeros only, is left out, as the recommendation wants.
    """
    found = _FORM.fullmatch(header or "")
    if found is None or not (int(found[1], 16) and int(found[2], 16)):
        return f"00-{_hex(name, 'trace', 32)}-{_hex(name, 'span', 16)}-{SAMPLED}"
    return f"00-{found[1]}-{_hex(name, found[2], 16)}-{found[3]}"


def _hex(name: str, salt: str, digits: int) -> str:
    return hashlib.sha256(f"{salt}\n{name}".encode()).hexdigest()[:digits]
