"""The rows of an experiment, of its nodes, finalists, seeds and verdicts, and its headline numbers, pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Final

from events.kinds.results import Value
from events.kinds.space.result_sets import FINALISTS, NODES, SEEDS, VERDICTS
from stages.kinds.experiment.record.record import Finalist, Record
from stages.kinds.experiment.tree import Node

TEXT_CHARS_MAX: Final = 250  # at four bytes each a row can hold it


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a result set."""

    set: str
    key: str
    values: dict[str, Value]
    status: str


def _finite(values: dict[str, Value]) -> dict[str, Value]:
    """Return values in which no number is infinite, as the bound of an interval of two units may be."""
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in values.items()
    }


def node_row(node: Node, metric: str) -> Row:
    """Return the row of a node that was tried; its metric is that of the search."""
    values: dict[str, Value] = {
        "metric": node.metric,
        "seconds": node.seconds,
        "stage": node.stage,
        "arm": node.arm,
        "buggy": node.buggy,
        "metric_name": metric,
        "parent": node.parent,
        "error": None if node.error is None else node.error[:TEXT_CHARS_MAX],
        "plan": node.plan[:TEXT_CHARS_MAX],
    }
    return Row(NODES.name, node.id, _finite(values), "buggy" if node.buggy else "good")


def finalist_row(stage: str, finalist: Finalist, *, is_best: bool) -> Row:
    """Return the row of a candidate that a stage ran again from seeds of its own."""
    values: dict[str, Value] = {
        "mean": finalist.mean,
        "standard_error": finalist.standard_error,
        "seeds": len(finalist.seeds),
        "stage": stage,
        "node": finalist.node,
    }
    return Row(
        FINALISTS.name, f"{stage} {finalist.node}", _finite(values), "chosen" if is_best else "passed over"
    )


def verdict_rows(record: Record) -> Iterator[Row]:
    """Yield the rows of the units that judged each effect of the claim, then that of its judgement."""
    for effect, judgement in zip(record.claim.effects, record.verdicts.judgements, strict=True):
        measure = effect.metric.name
        for pair in judgement.pairs:
            unit: dict[str, Value] = {
                "difference": pair.difference,
                "baseline": pair.baseline,
                "intervention": pair.intervention,
                "measure": measure,
                "seed": pair.seed,
                "baseline_failed": pair.failed[0],
                "intervention_failed": pair.failed[1],
            }
            status = "failed" if any(pair.failed) else "measured"
            yield Row(SEEDS.name, f"{measure} {pair.seed}", _finite(unit), status)
        interval = judgement.interval
        values: dict[str, Value] = {
            "effect": interval.mean if interval else None,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "p_value": interval.p_value if interval else None,
            "units": len(judgement.pairs),
            "measure": measure,
            "claimed": effect.kind,
            "direction": effect.direction,
            "reason": judgement.reason[:TEXT_CHARS_MAX],
        }
        yield Row(VERDICTS.name, measure, _finite(values), judgement.conclusion)


def headline(record: Record) -> dict[str, Value]:
    """Return what the first effect of the claim was measured to be."""
    interval = record.verdicts.judgement.interval
    numbers: dict[str, Value] = {
        "effect": interval.mean if interval else None,
        "effect_low": interval.low if interval else None,
        "effect_high": interval.high if interval else None,
        "p_value": interval.p_value if interval else None,
        "units": len(record.verdicts.judgement.pairs),
        "nodes": sum(len(stage.nodes) for stage in record.stages),
    }
    return _finite(numbers)
