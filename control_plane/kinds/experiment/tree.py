"""The search tree of a run, folded from its `ai.node.*` events, pure.

Law: only the fact of an event is read, in the types of the catalogue; other fields of its data are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

import msgspec

from events.catalog import type_of
from events.kinds.experiment import (
    NodeCodeGenerated,
    NodeCompleted,
    NodeCreated,
    NodeExecuting,
    NodeRestored,
    NodeSelectedBest,
    best_of,
)

Changing = NodeCreated | NodeCodeGenerated | NodeExecuting | NodeCompleted | NodeRestored
NodeFact = Changing | NodeSelectedBest
FACTS: Final[Mapping[str, type[NodeFact]]] = {type_of(fact): fact for fact in get_args(NodeFact)}
NODE_TYPES: Final = tuple(FACTS)
# What is said of a node but its texts alone.
TREE_TYPES: Final = tuple(name for name, fact in FACTS.items() if fact is not NodeCodeGenerated)
# What is long: a tree is shown without it, and a node with it.
TEXTS: Final = ("code", "logTail")


def nodes(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the nodes in the order of their creation; for each stage only those of its latest attempt.

    A stage that a resumed attempt did not run again keeps the nodes of the attempt that ran it.
    If `events` are those of some nodes only, the answer has these nodes, and may mark no best one.
    """
    ordered = sorted(events, key=lambda event: (event["attempt"], event.get("sequence") or 0))
    facts = [(event["attempt"], fact) for event in ordered if (fact := _fact(event)) is not None]
    latest = {fact.stage: attempt for attempt, fact in facts}
    tree: dict[tuple[str, str], dict[str, Any]] = {}
    selections = _Selections()
    for place, (attempt, fact) in enumerate(facts):
        if attempt != latest[fact.stage]:
            continue
        if isinstance(fact, NodeSelectedBest):
            selections.note(place, fact)
            continue
        key = (fact.stage, fact.node)
        if key not in tree:
            tree[key] = _node(fact, attempt)
            selections.born[key] = place
        tree[key].update(_changes(fact))
    for key, node in tree.items():
        node.update(selections.of(key))
    return list(tree.values())


def _fact(event: Mapping[str, Any]) -> NodeFact | None:
    """Return the fact of an event about a node; None if it cannot be read."""
    try:
        return msgspec.convert(event["data"], FACTS[event["type"]])
    except msgspec.ValidationError:
        return None


class _Selections:
    """Which nodes the stages selected; each event and each node is read once."""

    def __init__(self) -> None:
        self.born: dict[tuple[str, str], int] = {}
        self._named: dict[str, tuple[int, NodeSelectedBest]] = {}
        self._latest: dict[
            str, list[tuple[int, str]]
        ] = {}  # of a stage, the last of each of the last two nodes

    def note(self, place: int, fact: NodeSelectedBest) -> None:
        """Record that a stage selected a node, which may be one of an earlier stage."""
        self._named[fact.node] = (place, fact)
        others = [each for each in self._latest.get(fact.stage, []) if each[1] != fact.node]
        self._latest[fact.stage] = [*others[-1:], (place, fact.node)]

    def of(self, key: tuple[str, str]) -> dict[str, Any]:
        """Return the node with the result of the selections."""
        stage, node = key
        place, fact = self._named.get(node, (-1, None))
        if fact is None or place < self.born[key]:
            return {}
        passed = max((at for at, other in self._latest.get(stage, []) if other != node), default=-1)
        return {
            "best": place > passed,
            "bestOf": best_of(stage, fact.arm) if place > passed else None,
            "reason": fact.reason,
            "mean": fact.mean,
            "standardError": fact.standard_error,
            "seeds": fact.seeds,
        }


def _node(fact: Changing, attempt: int) -> dict[str, Any]:
    return {
        "id": fact.node,
        "stage": fact.stage,
        "arm": None,
        "attempt": attempt,
        "status": "created",
        "parent": None,
        "plan": None,
        "params": {},
        "metric": None,
        "metricName": None,
        "scores": {},
        "mean": None,
        "standardError": None,
        "seeds": [],
        "buggy": None,
        "seconds": None,
        "error": None,
        "best": False,
        "bestOf": None,
        "reason": None,
        "code": None,
        "logTail": None,
    }


def _changes(fact: Changing) -> dict[str, Any]:
    match fact:
        case NodeCreated():
            return _planned(fact)
        case NodeCodeGenerated():
            return {"code": fact.code or None}
        case NodeExecuting():
            return {"status": "executing"}
        case NodeCompleted():
            return _tried(fact)
        case NodeRestored():
            taken_over = {"attempt": fact.from_attempt, "code": fact.code or None}
            return {**_planned(fact), **taken_over, **_tried(fact)}


def _planned(fact: NodeCreated | NodeRestored) -> dict[str, Any]:
    return {"parent": fact.parent, "plan": fact.plan, "params": fact.params, "arm": fact.arm}


def _tried(fact: NodeCompleted | NodeRestored) -> dict[str, Any]:
    return {
        "status": "buggy" if fact.buggy else "good",
        "buggy": fact.buggy,
        "seconds": fact.seconds,
        "metric": fact.metric,
        "metricName": fact.metric_name,
        "scores": fact.scores,
        "error": fact.error,
        "logTail": fact.log_tail,
    }
