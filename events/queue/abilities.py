"""The abilities of a pod, and those it lacks for a class, pure: one rule for claiming and for explaining."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from events.queue.labels import NOMINAL, missing, words_of
from events.queue.requirements import ANY_REGION, read_class

# How strictly a pod holds the programs of a model, the strictest first.
ISOLATIONS: Final = ("strict", "filter", "best")
JOB_ISOLATIONS: Final = ("user", "sandbox")  # the least that holds jobs there


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a pod has: the kinds it can run, memory of its largest GPU in GiB, its region, labels and name.

    `cards` are the GPUs that a run holds there, also where they are broken and no label tells of them.
    """

    kinds: frozenset[str]
    gpu_gib: float
    region: str | None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    pod: str | None = None
    cards: int = 0


def lacks(class_key: str, pod: Abilities) -> Iterator[str]:
    """Yield in words what the pod lacks for runs of a class; nothing if it serves them."""
    wanted = read_class(class_key)
    if wanted.pod not in (None, pod.pod):
        yield f"the run is pinned to the pod {wanted.pod}"
    if not pod.kinds:
        yield "it starts, and has not said which kinds it runs"
    elif wanted.kind not in pod.kinds:
        yield f"it does not run the kind {wanted.kind}"
    if wanted.tier != "cpu" and pod.gpu_gib < float(wanted.tier) * NOMINAL:
        has = f"has one of {pod.gpu_gib:.0f} GiB" if pod.gpu_gib else "has none"
        yield f"a GPU of {wanted.tier} GiB is needed, and it {has}"
    if wanted.region not in (ANY_REGION, pod.region):
        yield f"the run belongs to the region {wanted.region}, and it is in {pod.region or 'none'}"
    for name, asked in missing(wanted.labels, pod.labels):
        has = f"{name}={pod.labels[name]}" if name in pod.labels else f"says no {name}"
        yield f"{words_of(name, asked)} is needed, and it {'has ' if name in pod.labels else ''}{has}"
