"""The search tree of a run, folded from its `ai.node.*` events, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from events import catalog as c
from events.catalog import type_of

CREATED: Final = type_of(c.NodeCreated)
CODE_GENERATED: Final = type_of(c.NodeCodeGenerated)
EXECUTING: Final = type_of(c.NodeExecuting)
COMPLETED: Final = type_of(c.NodeCompleted)
RESTORED: Final = type_of(c.NodeRestored)
SELECTED_BEST: Final = type_of(c.NodeSelectedBest)
NODE_TYPES: Final = (CREATED, CODE_GENERATED, EXECUTING, COMPLETED, RESTORED, SELECTED_BEST)
# What is said of a node but its texts alone.
TREE_TYPES: Final = (CREATED, EXECUTING, COMPLETED, RESTORED, SELECTED_BEST)
# What is long: a tree is shown without it, and a node with it.
TEXTS: Final = ("code", "logTail")


def nodes(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the nodes in the order of their creation; of each stage only its latest attempt's.

    A stage that a resumed attempt did not run again keeps the nodes of the attempt that ran it.
    Where `events` are those of some nodes only, so is the answer, but for which of them is the best.
    """
    ordered = sorted(events, key=lambda event: (event["attempt"], event.get("sequence") or 0))
    latest = {event["data"]["stage"]: event["attempt"] for event in ordered}
    tree: dict[tuple[str, str], dict[str, Any]] = {}
    selections = _Selections()
    for place, event in enumerate(ordered):
        data = event["data"]
        if event["attempt"] != latest[data["stage"]]:
            continue
        if event["type"] == SELECTED_BEST:
            selections.note(place, data)
            continue
        key = (data["stage"], data["node"])
        if key not in tree:
            tree[key] = _node(data, event["attempt"])
            selections.born[key] = place
        tree[key].update(_changes(event["type"], data))
    for key, node in tree.items():
        node.update(selections.of(key))
    return list(tree.values())


class _Selections:
    """Which nodes the stages handed on; each event and each node is looked at once, however many."""

    def __init__(self) -> None:
        self.born: dict[tuple[str, str], int] = {}
        self._named: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self._latest: dict[
            str, list[tuple[int, str]]
        ] = {}  # of a stage, the last of each of the last two nodes

    def note(self, place: int, data: Mapping[str, Any]) -> None:
        """Keep that a stage hands on a node, which may be one of an earlier stage."""
        stage, node = data["stage"], data["node"]
        self._named[node] = (place, data)
        others = [each for each in self._latest.get(stage, []) if each[1] != node]
        self._latest[stage] = [*others[-1:], (place, node)]

    def of(self, key: tuple[str, str]) -> dict[str, Any]:
        """Return what selections make of a node."""
        stage, node = key
        place, data = self._named.get(node, (-1, {}))
        if place < self.born[key]:
            return {}
        passed = max((at for at, other in self._latest.get(stage, []) if other != node), default=-1)
        return {
            "best": place > passed,
            "reason": data.get("reason"),
            "mean": data.get("mean"),
            "standardError": data.get("standard_error"),
            "seeds": data.get("seeds", []),
        }


def _node(data: Mapping[str, Any], attempt: int) -> dict[str, Any]:
    return {
        "id": data["node"],
        "stage": data["stage"],
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
        "reason": None,
        "code": None,
        "logTail": None,
    }


def _changes(event_type: str, data: Mapping[str, Any]) -> dict[str, Any]:
    planned = {name: data[name] for name in ("parent", "plan", "params") if name in data}
    if event_type == CREATED:
        return planned
    if event_type == CODE_GENERATED:
        return {"code": data.get("code")}
    if event_type == EXECUTING:
        return {"status": "executing"}
    if event_type in (COMPLETED, RESTORED):
        return {
            **planned,
            **(_taken_over(data) if event_type == RESTORED else {}),
            "status": "buggy" if data["buggy"] else "good",
            "buggy": data["buggy"],
            "seconds": data["seconds"],
            "metric": data.get("metric"),
            "metricName": data.get("metric_name"),
            "scores": data.get("scores", {}),
            "error": data.get("error"),
            "logTail": data.get("log_tail"),
        }
    return {}


def _taken_over(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"attempt": data["from_attempt"], "code": data.get("code")}
