"""Matches waiting classes with a pod: which it can serve, and in which order it tries them, pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from events.kinds.declaring.queues import Mode, collections
from events.queue.abilities import Abilities, lacks
from events.queue.fair.shares import Shares
from events.queue.labels import missing
from events.queue.requirements import ANY_REGION, GPU_TIERS, read_class

DIGITS_MAX: Final = 5  # of a number of GPUs, and one


@dataclass(frozen=True, slots=True)
class WaitingClass:
    """A class in which at least one run waits, with the priority of its head."""

    collection: str
    class_key: str
    priority: int


@dataclass(frozen=True, slots=True)
class Seeker:
    """A pod that seeks a run."""

    pod: str
    mode: Mode
    abilities: Abilities

    def serves(self, collection: str, class_key: str | None) -> bool:
        """Return whether it could take a run of this class; None is an unknown class."""
        if collection not in collections(self.mode):
            return False
        return class_key is None or matches(class_key, self.abilities)


@dataclass(frozen=True, slots=True)
class Named:
    """Classes by name, for a seeker of a run of any of them, with labels that it has or a pin to it."""

    classes: Collection[str]
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    pod: str | None = None

    def serves(self, collection: str, class_key: str | None) -> bool:
        """Return whether a run of this class is sought; None is an unknown class."""
        if class_key is None or class_key in self.classes:
            return True
        wanted = read_class(class_key)
        is_ours = wanted.base in self.classes and wanted.pod in (None, self.pod)
        return is_ours and not missing(wanted.labels, self.labels)


def matches(class_key: str, pod: Abilities) -> bool:
    """Return whether the pod can serve runs of a class."""
    return not any(lacks(class_key, pod))


def classes(pod: Abilities) -> list[str]:
    """Return every class without labels and pin of which the pod can serve runs."""
    regions = dict.fromkeys((ANY_REGION, pod.region or ANY_REGION))
    named = (
        f"{kind}/{tier}/{region}" for kind in sorted(pod.kinds) for tier in GPU_TIERS for region in regions
    )
    return [each for each in named if matches(each, pod)]


def candidates(
    waiting: Sequence[WaitingClass], seeker: Seeker, shares: Shares | None = None
) -> list[WaitingClass]:
    """Return the classes to try: preferred queue first, then the project that has used least for its weight.

    Of one project the highest priority of the head comes first. Of the same priority those come first that
    ask for most, since the fewest other pods could take them. Projects that are closed are left out.
    `waiting` may name queues that the seeker's mode does not serve, since wake-ups name all of them.
    """
    order, shares = collections(seeker.mode), shares or Shares()
    served = [each for each in waiting if seeker.serves(each.collection, each.class_key)]
    labels = seeker.abilities.labels
    open_ones = [each for each in served if is_open(each.class_key, shares, labels)]
    used = {each: shares.used(each) for each in {read_class(each.class_key).project for each in open_ones}}
    return sorted(
        open_ones,
        key=lambda each: (
            order.index(each.collection),
            used[read_class(each.class_key).project],
            -each.priority,
            *_breadth(each.class_key),
        ),
    )


def is_open(class_key: str, shares: Shares, labels: Mapping[str, str]) -> bool:
    """Return whether the project of a class may have one more run now, on a pod with these labels."""
    return shares.may_claim(read_class(class_key).project, cards_held(class_key, labels))


def cards_held(class_key: str, labels: Mapping[str, str]) -> int:
    """Return how many GPUs a run of a class holds on a pod with these labels: all that its slot has."""
    said = labels.get("gpus", "")
    has = int(said) if said.isascii() and said.isdecimal() and len(said) < DIGITS_MAX else 0
    return max(has, read_class(class_key).gpus)


def _breadth(class_key: str) -> tuple[bool, int]:
    """Return how many pods could serve a class, as far as its pin and its labels tell: least first."""
    wanted = read_class(class_key)
    return wanted.pod is None, -len(wanted.labels)
