"""In what runs differ: parameters, ends, scores and cost, side by side, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from events.answers.runs import ComparedField
from events.runtime.errors import Rejected

RUNS_MIN: Final = 2
RUNS_MAX: Final = 12
SPEC: Final = "spec."
FACTS_MAX: Final = 1_000  # of a run: what its pods said decides how many there are
NAME_CHARS_MAX: Final = 200  # of a dotted name; what lies deeper is told whole, under the name so far

Json = Mapping[str, Any]


def chosen(run_ids: Sequence[str]) -> list[str]:
    """Return the runs to compare, each once. Raises `Rejected` where they are too few or too many."""
    found = list(dict.fromkeys(run_ids))
    if not RUNS_MIN <= len(found) <= RUNS_MAX:
        message = f"{RUNS_MIN} to {RUNS_MAX} runs can be compared, not {len(found)}"
        raise Rejected("bad_selection", message)
    return found


def compared(runs: Sequence[Json]) -> list[ComparedField]:
    """Return the fields of the runs: of each its first `FACTS_MAX`, and how many more there are."""
    facts = [_first(dict(_facts(run))) for run in runs]
    names = dict.fromkeys(name for each in facts for name in each)
    return [_row(name, [each.get(name) for each in facts]) for name in names]


def _row(field: str, values: list[Any]) -> ComparedField:
    differs = any(value != values[0] for value in values)
    return ComparedField(field=field, differs=differs, values=values)


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf under its dotted name; so is an empty object, and one whose name is long."""
    if isinstance(value, Mapping) and (value or not prefix) and len(prefix) <= NAME_CHARS_MAX:
        for name, each in value.items():
            yield from flat(each, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value


def _first(facts: dict[str, Any]) -> dict[str, Any]:
    if len(facts) <= FACTS_MAX:
        return facts
    return {**dict(islice(facts.items(), FACTS_MAX)), "…": f"{len(facts) - FACTS_MAX:,} more fields"}


def _facts(run: Json) -> Iterator[tuple[str, Any]]:
    """Yield what a run was asked to do, and what came of it, as far as it is known."""
    yield "status", run["status"]
    yield "kind", run["kind"]
    yield from _part(SPEC, run.get("spec"))
    yield from _part("requires.", run.get("requires"))
    yield from _part("labels.", run.get("labels"))
    yield "attempts", run["attempt"]
    usage = run.get("usage") or {}
    yield "tokens", usage.get("promptTokens", 0) + usage.get("completionTokens", 0)
    yield "costUsd", usage.get("costUsd")
    yield "error", (run.get("error") or {}).get("code")
    for stage in run.get("stages", ()):
        if stage["attempt"] == run["attempt"]:
            yield f"seconds.{stage['name']}", stage.get("durationS")
    for node in run.get("nodes", ()):
        if node.get("best") and isinstance(node.get("metric"), int | float):
            yield f"{node.get('bestOf') or 'best'}.{node['stage']}", node["metric"]
    for each in run.get("validations", ()):
        by = each.get("by") or "validation"
        yield f"{by}.verdict", each.get("verdict")
        if each.get("conclusion"):
            yield f"{by}.conclusion", each["conclusion"]
        yield from _part(f"{by}.scores.", each.get("scores"))


def _part(prefix: str, value: Json | None) -> Iterator[tuple[str, Any]]:
    for name, each in flat(value or {}):
        yield f"{prefix}{name}", each
