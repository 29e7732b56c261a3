"""Compares runs side by side: parameters, ends, scores and cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from podfleet.output import Column, print_items, print_json

RUNS_MIN: Final = 2
RUNS_MAX: Final = 12

Json = Mapping[str, Any]


def show(runs: Sequence[Json], *, everything: bool, as_json: bool) -> None:
    """Print a line for each thing in which the runs differ; with `everything`, also where they agree."""
    rows = differing(runs, everything=everything)
    if as_json:
        print_json({"runs": [run["id"] for run in runs], "differing": rows})
        return
    columns = [Column("FIELD", lambda row: row["field"], is_whole=True)]
    columns += [Column(run["id"], partial(_value, number)) for number, run in enumerate(runs)]
    print_items(rows, columns, none="they differ in nothing")


def _value(number: int, row: Json) -> Any:
    return row["values"][number]


def differing(runs: Sequence[Json], *, everything: bool = False) -> list[dict[str, Any]]:
    """Return the fields with the value of each run; those in which all agree only where wanted."""
    facts = [dict(told(run)) for run in runs]
    names = dict.fromkeys(name for each in facts for name in each)
    rows = [{"field": name, "values": [each.get(name) for each in facts]} for name in names]
    return [row for row in rows if everything or any(value != row["values"][0] for value in row["values"])]


def told(run: Json) -> Iterator[tuple[str, Any]]:
    """Yield what a run was asked to do, and what came of it."""
    yield "status", run["status"]
    yield "kind", run["kind"]
    yield from _flat("spec", run.get("spec") or {})
    yield from _flat("requires", run.get("requires") or {})
    yield from _flat("labels", run.get("labels") or {})
    yield "attempts", run["attempt"]
    for stage in run.get("stages", ()):
        if stage["attempt"] == run["attempt"]:
            yield f"seconds.{stage['name']}", stage.get("durationS")
    for name, node in _best(run.get("nodes", ())).items():
        yield f"best.{name}", node
    for each in run.get("validations", ()):
        kind = each.get("by") or "validation"
        yield f"{kind}.verdict", each.get("verdict")
        yield from _flat(f"{kind}.scores", each.get("scores") or {})
    usage = run.get("usage") or {}
    yield "tokens", usage.get("promptTokens", 0) + usage.get("completionTokens", 0)
    yield "costUsd", usage.get("costUsd")
    error = run.get("error") or {}
    yield "error", error.get("code")


def _best(nodes: Sequence[Json]) -> dict[str, float]:
    """Return the metric of each stage's chosen node."""
    best: dict[str, float] = {}
    for node in nodes:
        if node.get("best") and isinstance(node.get("metric"), int | float):
            best[str(node["stage"])] = node["metric"]
    return best


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every leaf below `prefix` under its dotted name."""
    if isinstance(value, Mapping) and value:
        for name in value:
            yield from _flat(f"{prefix}.{name}", value[name])
    elif isinstance(value, list | Mapping):
        if value:
            yield prefix, json.dumps(value)
    else:
        yield prefix, value
