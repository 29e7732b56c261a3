"""What a stored run measures, in the words of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from events.kinds import KINDS, measures, read_spec
from events.runtime.errors import Rejected


def measures_of(kind: str, spec: Mapping[str, Any] | None) -> str | None:
    """Return what a run measures; None where that cannot be said, or it claims nothing."""
    if kind not in KINDS or spec is None:
        return None
    try:
        return measures(kind, read_spec(kind, spec)) or None
    except Rejected:  # it was queued by a control plane that read otherwise, or the kind's code fails
        return None
