"""What every specification has: the limits of an attempt, and values at the names of its fields; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=30 * 24 * 3600)]
Review = Annotated[
    Literal["none", "human"], msgspec.Meta(description="Whether a person reviews the verdict.")
]

TITLE_MAX: Final = 200
START_LIMIT_S: Final = 300.0
TIME_LIMIT_S: Final = 3600.0
NO_PROGRESS_S: Final = 1800.0


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time limits of every attempt: to its first event, in total, and between two events."""

    start_limit_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds until the first event.")] = (
        START_LIMIT_S
    )
    time_limit_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds of an attempt.")] = (
        TIME_LIMIT_S
    )
    no_progress_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds between two events.")] = (
        NO_PROGRESS_S
    )


def value_at(spec: Any, name: str) -> Any:
    """Return the value of a field in a specification, None where it is left out."""
    found: Any = spec
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found
