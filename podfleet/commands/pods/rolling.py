"""Decides the next steps of a rolling update: which pods to cordon, to restart and to let claim again; pure.

Law: what is under way stands in the store alone, as cordons with `REASON` and as orders to restart, so that
an update that was cut short goes on where it stood, and two of them do the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from events.answers.pods import Pod

REASON: Final = "rolling update"  # and the version: by it a cordon is known as that of an update
ENDED: Final = frozenset({"stopped", "gone"})
CLAIMS: Final = frozenset({"idle", "busy"})

Phase = Literal["waits for its run", "restarts", "is back"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pods to update, by name or by labels (all without either), `at_once` at a time to `version`."""

    version: str
    names: Collection[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    at_once: int = 1

    def has(self, workers: Sequence[Pod]) -> bool:
        """Say whether the pod with these workers is among them."""
        return any(
            (not self.names or each.pod in self.names)
            and all(each.labels.get(name) == value for name, value in self.labels.items())
            for each in workers
        )


@dataclass(frozen=True, slots=True)
class Cordon:
    """Cordon a pod: it is the next one."""

    pod: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Order workers of a pod to restart; none of them has a run."""

    pod: str
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """A pod has the version, and would claim: its cordon is lifted, where it is the update's."""

    pod: str
    is_cordoned: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """A pod is under way, and nothing is to be done; `why` says for what it waits."""

    pod: str
    phase: Phase
    why: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A pod that was restarted came back in another version than the wanted one."""

    pod: str
    version: str


Step = Cordon | Restart | Finish | Wait | Unchanged


def by_name(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """Return the workers of each pod, the last started first, as `pods` are."""
    found: dict[str, list[Pod]] = {}
    for each in pods:
        found.setdefault(each.pod, []).append(each)
    return found


def is_ours(workers: Sequence[Pod]) -> bool:
    """Say whether the cordon of a pod is that of a rolling update."""
    cordon = workers[0].orders.cordon if workers else None
    return cordon is not None and cordon.reason.startswith(REASON)


def outdated(workers: Sequence[Pod], version: str) -> list[Pod]:
    """Return the live workers of a pod that have another version; a drained one leaves for good anyway."""
    return [
        each
        for each in workers
        if each.state not in ENDED and each.version != version and not each.orders.drain
    ]


def steps(pods: Sequence[Pod], chosen: Chosen, restarted: Mapping[str, Collection[str]]) -> list[Step]:
    """Return what each pod under way needs, then the pods that are begun now; nothing where all is done.

    `restarted` are the workers that this update has ordered to restart, by their pods.
    """
    fleet = by_name(pods)
    going = {name: each for name, each in fleet.items() if _is_under_way(name, each, restarted)}
    found = [_step(name, each, chosen.version, restarted.get(name, ())) for name, each in going.items()]
    taken = sum(not isinstance(each, Finish) for each in found)
    waiting = [
        name
        for name, each in sorted(fleet.items())
        if name not in going and outdated(each, chosen.version) and chosen.has(each)
    ]
    # a pod that is let go makes room in the next round, when it is seen to claim
    room = max(0, chosen.at_once - taken) if not any(isinstance(each, Finish) for each in found) else 0
    return [*found, *map(Cordon, waiting[:room])]


def _is_under_way(name: str, workers: Sequence[Pod], restarted: Mapping[str, Collection[str]]) -> bool:
    sent = any(each.orders.restart and each.state not in ENDED for each in workers)
    return is_ours(workers) or sent or name in restarted


def _step(name: str, workers: Sequence[Pod], version: str, restarted: Collection[str]) -> Step:
    live = [each for each in workers if each.state not in ENDED]
    old = outdated(workers, version)
    if not live:
        return Wait(name, "restarts", "has not reported since it left")
    if not old:
        return _back(name, workers, live)
    again = [each for each in old if restarted and each.id not in restarted and not each.orders.restart]
    if again:
        return Unchanged(name, again[0].version)
    # the cordon keeps its slots from claiming: what was not ordered yet can be left as it was
    if busy := [each.run_id for each in old if each.run_id is not None]:
        return Wait(name, "waits for its run", f"finishes {', '.join(busy)}")
    if unsent := tuple(each.id for each in old if not each.orders.restart):
        return Restart(name, unsent)
    return Wait(name, "restarts", f"has {old[0].version} still, and is ordered to restart")


def _back(name: str, workers: Sequence[Pod], live: Sequence[Pod]) -> Step:
    if starting := [each for each in live if each.state not in CLAIMS]:
        return Wait(name, "is back", f"is {starting[0].state}")
    failing = [check.name for each in live for check in each.checks if not check.ok and check.kinds is None]
    if failing:
        return Wait(name, "is back", f"claims nothing ({', '.join(dict.fromkeys(failing))} fails)")
    return Finish(name, is_ours(workers))
