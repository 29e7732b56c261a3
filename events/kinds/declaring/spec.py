"""What every specification has: the limits of an attempt, and values at the names of its fields; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=30 * 24 * 3600)]
Dollars = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Review = Annotated[
    Literal["none", "human"], msgspec.Meta(description="Whether a person reviews the verdict.")
]

# How people name a field of a specification: dots lead into mappings, at most seven of them.
FIELD_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,63}(?:\.[A-Za-z0-9_-]{1,64}){0,7}"
TITLE_MAX: Final = 200
BUDGET: Final = "Most dollars that all attempts together may cost, by the prices of their pods."
START_LIMIT_S: Final = 300.0
# A search of half a day on a machine that is slower than its author's ends by itself; `no_progress_s` ends
# what hangs long before.
TIME_LIMIT_S: Final = 24 * 3600.0
NO_PROGRESS_S: Final = 1800.0


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time limits of every attempt: to its first event, in total, and between two events.

    `budget_usd` bounds all attempts together: each lasts as long as the rest pays for its pod.
    """

    start_limit_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds until the first event.")] = (
        START_LIMIT_S
    )
    time_limit_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds of an attempt.")] = (
        TIME_LIMIT_S
    )
    no_progress_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds between two events.")] = (
        NO_PROGRESS_S
    )
    budget_usd: Annotated[Dollars, msgspec.Meta(description=BUDGET)] | None = None


def value_at(spec: Any, name: str, default: Any = None) -> Any:
    """Return the value of a field in a specification, `default` where it is left out."""
    found: Any = spec
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return default
        found = found[part]
    return found


def default_at(kind: type[msgspec.Struct], name: str) -> Any:
    """Return as JSON what a field is that a specification leaves out; None where its type says nothing."""
    first, _, rest = name.partition(".")
    for field in msgspec.structs.fields(kind):
        if field.encode_name == first:
            made = (
                field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            )
            return None if made in (msgspec.NODEFAULT, msgspec.UNSET) else _told(made, rest)
    return None


def _told(made: Any, rest: str) -> Any:
    found = msgspec.to_builtins(made)
    return value_at(found, rest) if rest else found
