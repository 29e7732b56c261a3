"""Which fault strikes when: drawn from a seed, pure.

Law: a lane is one kind of victim; its faults follow each other and never overlap, so that two
members of the replica set are not gone at once. Each lane deals its faults like cards from a
shuffled deck: every kind comes, and none comes by luck alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

LATEST_PART: Final = 0.9  # of the time; what begins later could not show what it does


@dataclass(frozen=True, slots=True)
class Card:
    """A kind of fault, how often a deck holds it, and how long it lasts (shortest, longest)."""

    kind: str
    copies: int
    shortest_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class Lane:
    """Faults that take turns, with a pause between the end of one and the beginning of the next."""

    name: str
    cards: tuple[Card, ...]
    shortest_pause_s: float
    longest_pause_s: float


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the plan; `draw` in [0, 1) chooses the victim among those that are there then."""

    at_s: float
    kind: str
    seconds: float
    draw: float


WORKERS: Final = Lane(
    "workers",
    (
        Card("worker killed", 10, 0.2, 1.0),
        Card("worker killed at a chosen step", 4, 0.2, 1.0),
        Card("worker killed, disk lost", 2, 0.2, 1.0),
        Card("worker frozen beyond its lease", 2, 7.0, 11.0),
        Card("worker preempted", 2, 0.2, 1.0),
        Card("child killed", 2, 0.0, 0.0),
        Card("disk full", 1, 3.0, 6.0),
        Card("pod clock skewed", 2, 0.2, 1.0),
        Card("pod clock set", 2, 1.0, 6.0),
    ),
    0.5,
    3.0,
)
CLUSTER: Final = Lane(
    "cluster",
    (
        Card("primary killed", 5, 1.0, 4.0),
        Card("primary stepped down", 1, 2.0, 4.0),
        Card("primary frozen", 1, 3.0, 8.0),
        Card("primary partitioned", 4, 3.0, 8.0),
        Card("secondary partitioned", 2, 3.0, 8.0),
    ),
    3.0,
    8.0,
)
CONTROL_PLANES: Final = Lane(
    "control planes",
    (
        Card("control plane killed", 4, 0.2, 2.0),
        Card("control plane clock set", 2, 1.0, 6.0),
        Card("control plane terminated", 1, 0.2, 1.0),
        Card("control plane frozen", 2, 2.0, 8.0),
    ),
    6.0,
    20.0,
)
STORAGE: Final = Lane(
    "storage",
    (Card("object storage frozen", 2, 3.0, 9.0), Card("object storage killed", 2, 2.0, 8.0)),
    8.0,
    25.0,
)
PEOPLE: Final = Lane("people", (Card("cancel storm", 1, 0.0, 0.0),), 5.0, 20.0)
LANES: Final = (WORKERS, CLUSTER, CONTROL_PLANES, STORAGE, PEOPLE)
KINDS: Final = tuple(card.kind for lane in LANES for card in lane.cards)


def plan(seed: int, seconds: float, lanes: Sequence[Lane] = LANES) -> list[Fault]:
    """Return the faults of a campaign of `seconds`, in the order of time."""
    faults = [fault for lane in lanes for fault in _deal(lane, Random(f"{seed}/{lane.name}"), seconds)]
    return sorted(faults, key=lambda fault: (fault.at_s, fault.kind))


def _deal(lane: Lane, chance: Random, seconds: float) -> list[Fault]:
    faults: list[Fault] = []
    at_s = chance.uniform(0.0, lane.shortest_pause_s)
    first = True
    while True:
        deck = _deck(lane, chance, one_of_each=first)
        first = False
        for card in deck:
            if at_s > seconds * LATEST_PART:
                return faults
            lasts_s = chance.uniform(card.shortest_s, card.longest_s)
            faults.append(Fault(at_s, card.kind, lasts_s, chance.random()))
            # Pods are many: one that stands still does not keep the others from trouble.
            blocks_s = 0.0 if lane is WORKERS else lasts_s
            at_s += blocks_s + chance.uniform(lane.shortest_pause_s, lane.longest_pause_s)


def _deck(lane: Lane, chance: Random, *, one_of_each: bool) -> list[Card]:
    """Return a shuffled deck; the first one of a campaign begins with every kind once."""
    rest = [card for card in lane.cards for _ in range(card.copies)]
    chance.shuffle(rest)
    if not one_of_each:
        return rest
    ahead = list(lane.cards)
    chance.shuffle(ahead)
    return ahead + rest


def hurried(lane: Lane, factor: float) -> Lane:
    """Return a lane for a short campaign: pauses, and what a fault may last beyond its least, cut down."""
    cards = tuple(
        replace(card, longest_s=card.shortest_s + (card.longest_s - card.shortest_s) * factor)
        for card in lane.cards
    )
    return replace(
        lane,
        cards=cards,
        shortest_pause_s=lane.shortest_pause_s * factor,
        longest_pause_s=lane.longest_pause_s * factor,
    )
