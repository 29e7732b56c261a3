"""The result of fetching the checkpoints of earlier attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Fetched:
    """The warnings for people, and for each checkpoint name the pods of the attempts until it was written.

    `pods` has no checkpoint that sets earlier ones aside. `replication_asked` is whether an earlier attempt
    asked for a replication, by the record of the control plane, and `told` what the kind of the run tells it.
    `spent_usd` is what earlier attempts of the run have cost, `cheapest_usd` the price an hour of the
    cheapest pod that could take it; None where nobody said it.
    """

    warnings: list[str] = field(default_factory=list)
    pods: dict[str, list[str]] = field(default_factory=dict)
    replication_asked: bool = False
    told: dict[str, Any] = field(default_factory=dict)
    spent_usd: float | None = None
    cheapest_usd: float | None = None
