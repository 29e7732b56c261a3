"""Which pods run the lanes of a race: by name, by labels, or one for each value of a label; pure.

Law: pods that are named come first. Another lane takes no pod that has one, prefers one that is idle, and
leaves out what could not take the kind now. The same fleet gives the same lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from control_plane.model.groups.parameters import Values
from control_plane.model.groups.races.machine import Machine
from control_plane.model.groups.races.race import LANES_MAX, LANES_MIN, Lane
from events.queue.abilities import lacks
from events.queue.labels import words_of
from events.queue.pod_checks import obstacle
from events.queue.requirements import Requirements, class_key
from events.runtime.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Lanes as somebody wants them: one on `pod`, those with `labels`, or one for each value of `one_of`.

    Of those with labels at most `most`.
    """

    pod: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    one_of: str | None = None
    most: int = LANES_MAX
    parameters: Values = field(default_factory=dict)


def chosen(
    wishes: Sequence[Wish], machines: Sequence[Machine], kind: str, requires: Requirements
) -> list[Lane]:
    """Return the lanes, in the order of the wishes. Raises `Rejected` that names the wish."""
    taken = [each.pod for each in wishes if each.pod is not None]
    if twice := sorted({name for name in taken if taken.count(name) > 1}):
        raise Rejected("bad_lanes", f"lanes: two of them would be on the pod {twice[0]!r}; a pod runs one")
    used = set(taken)
    lanes: list[Lane] = []
    for place, wish in enumerate(wishes):
        names = [wish.pod] if wish.pod is not None else _found(place, wish, machines, kind, requires, used)
        used.update(names)
        lanes += [Lane(name, wish.parameters) for name in names]
    if not LANES_MIN <= len(lanes) <= LANES_MAX:
        say = ", ".join(each.pod for each in lanes)[:300]
        raise Rejected(
            "bad_lanes", f"lanes: a race has {LANES_MIN} to {LANES_MAX} lanes, these are {len(lanes)}: {say}"
        )
    return lanes


def _found(
    place: int, wish: Wish, machines: Sequence[Machine], kind: str, requires: Requirements, used: set[str]
) -> list[str]:
    where = f"lanes.{place}"
    asked = Requirements(
        gpu_gib=requires.gpu_gib, region=requires.region, labels={**requires.labels, **wish.labels}
    )
    words = ", ".join(words_of(name, value) for name, value in wish.labels.items())
    what = f"the label {wish.one_of!r}" if wish.one_of is not None else words
    serving = [each for each in machines if _serves(each, class_key(kind, asked))]
    serving = [each for each in serving if wish.one_of is None or wish.one_of in each.labels]
    if not serving:
        raise Rejected("no_such_pod", f"{where}: no live pod with {what} could take a run of the kind {kind}")
    free = _by_pod([each for each in serving if each.name not in used])
    if not free:
        raise Rejected("bad_lanes", f"{where}: every pod with {what} has a lane already; a pod runs one")
    if wish.one_of is None:
        return [each.name for each in free[: wish.most]]
    best: dict[str, str] = {}
    for each in free:
        best.setdefault(each.labels[wish.one_of], each.name)
    return [name for _, name in sorted(best.items())]


def _serves(machine: Machine, key: str) -> bool:
    pod = machine.pod
    return (
        pod.hold is None
        and not pod.is_draining
        and not any(lacks(key, pod.abilities))
        and obstacle(key, pod.broken) is None
    )


def _by_pod(machines: Sequence[Machine]) -> list[Machine]:
    """Return one worker of each pod, idle ones first, then by their names."""
    found: dict[str, Machine] = {}
    for each in sorted(machines, key=lambda each: (not each.is_idle, each.name)):
        found.setdefault(each.name, each)
    return list(found.values())
