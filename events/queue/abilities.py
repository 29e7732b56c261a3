"""The abilities of a pod, and those it lacks for a class, pure: one rule for claiming and for explaining."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from events.queue.requirements import ANY_REGION

# How strictly a pod holds the programs of a model, the strictest first.
ISOLATIONS: Final = ("strict", "filter", "best")
# A card reports a little less memory than its name says.
NOMINAL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a pod has: the kinds it can run, memory of its largest GPU in GiB, its region."""

    kinds: frozenset[str]
    gpu_gib: float
    region: str | None


def lacks(class_key: str, pod: Abilities) -> Iterator[str]:
    """Yield in words what the pod lacks for runs of `kind/gpu tier/region`; nothing if it serves them."""
    kind, tier, region = class_key.split("/", 2)
    if not pod.kinds:
        yield "it starts, and has not said which kinds it runs"
    elif kind not in pod.kinds:
        yield f"it does not run the kind {kind}"
    if tier != "cpu" and pod.gpu_gib < float(tier) * NOMINAL:
        has = f"has one of {pod.gpu_gib:.0f} GiB" if pod.gpu_gib else "has none"
        yield f"a GPU of {tier} GiB is needed, and it {has}"
    if region not in (ANY_REGION, pod.region):
        yield f"the run belongs to the region {region}, and it is in {pod.region or 'none'}"
