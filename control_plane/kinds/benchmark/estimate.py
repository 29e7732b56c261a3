"""What a benchmark would take: its items by what each item of a suite took in earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.projection import RESULTS
from control_plane.store.catalogue.models import ModelEntries
from control_plane.store.database import Database, Document, answers
from control_plane.store.reads import RunReads
from events.answers.kinds.estimates import GUESS_MAX, TOKENS_MAX, EstimatedPart
from events.kinds.benchmark import KIND, OF_SUITES, BenchmarkSpec, items_wanted, suites_of

RUNS_MAX: Final = 20  # the newest of a model, or of all
NUMBER_MAX: Final = 1e12
PER_MILLION: Final = 1_000_000
_OF_RUN: Final = {"kind": 1, "summaryAttempt": 1}
_OF_ROW: Final = {"key": 1, "values.items": 1, "values.seconds": 1, "values.tokens": 1, "values.cost_usd": 1}


@dataclass(slots=True)
class Measured:
    """What items of a suite took together; `priced` of them have a known cost."""

    runs: int = 0
    items: float = 0.0
    seconds: float = 0.0
    tokens: float = 0.0
    priced: float = 0.0
    cost_usd: float = 0.0

    def add(self, values: Mapping[str, Any]) -> None:
        """Count the row of a suite; one that a pod made up is bounded, and one without items nothing."""
        items = _number(values.get("items"))
        if items is None or items < 1:
            return
        self.runs += 1
        self.items += items
        self.seconds += _number(values.get("seconds")) or 0.0
        self.tokens += _number(values.get("tokens")) or 0.0
        cost = _number(values.get("cost_usd"))
        if cost is not None:
            self.priced += items
            self.cost_usd += cost


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier runs measured of each suite, and which share of their tokens were those of prompts."""

    suites: Mapping[str, Measured]
    prompt_share: float | None


async def estimate(reads: RunReads, spec: BenchmarkSpec) -> Sequence[EstimatedPart]:
    """Return what each suite of a specification would take."""
    names = suites_of(spec)
    entry = await ModelEntries(reads.db).find(spec.model)
    mine = await _past(
        reads, await _newest(reads.db, "by_label", {"labelList": f"model={spec.model}"}), names
    )
    others = Past({}, None)
    if any(not mine.suites.get(name, Measured()).items for name in names):
        others = await _past(reads, await _newest(reads.db, "by_kind", {"kind": KIND.name}), names)
    return [_part(spec, name, entry, mine, others) for name in names]


def _part(
    spec: BenchmarkSpec, name: str, entry: Mapping[str, Any] | None, mine: Past, others: Past
) -> EstimatedPart:
    items = items_wanted(spec, name)
    measured, past, whose = mine.suites.get(name, Measured()), mine, "this model"
    if not measured.items:
        measured, past, whose = others.suites.get(name, Measured()), others, "other models"
    if not measured.items or items is None:
        why = "the number of its items is not known" if measured.items else "no run has asked it yet"
        return EstimatedPart(name=name, items=items, basis=why)
    runs = "1 run" if measured.runs == 1 else f"{measured.runs} runs"
    tokens, at_once = items * measured.tokens / measured.items, max(1, min(spec.concurrency, items))
    cost = _cost(items, tokens, entry, measured if past is mine else Measured(), past.prompt_share)
    return EstimatedPart(
        name=name,
        items=items,
        seconds=min(GUESS_MAX, items * measured.seconds / measured.items / at_once),
        tokens=min(TOKENS_MAX, round(tokens)),
        cost_usd=None if cost is None else min(GUESS_MAX, cost),
        basis=f"as {runs} of {whose} took",
    )


def _cost(
    items: int, tokens: float, entry: Mapping[str, Any] | None, own: Measured, prompt_share: float | None
) -> float | None:
    """Return the cost by the catalogue's prices, else as measured of this model; None where it is unknown."""
    if entry is not None:
        prices = _number(entry.get("inputUsdPerMtok")), _number(entry.get("outputUsdPerMtok"))
        if entry.get("served") is not None:
            return 0.0
        if prices[0] is not None and prices[1] is not None and prompt_share is not None:
            return tokens * (prompt_share * prices[0] + (1 - prompt_share) * prices[1]) / PER_MILLION
    return items * own.cost_usd / own.priced if own.priced else None


@answers()
async def _newest(db: Database, index: str, query: Document) -> dict[str, int]:
    """Return the newest benchmarks that have numbers, each with the attempt that said them."""
    found = await db.runs.find(query, _OF_RUN).sort("_id", -1).limit(RUNS_MAX).hint(index).to_list()
    attempts = {each["_id"]: each.get("summaryAttempt") for each in found if each.get("kind") == KIND.name}
    return {run_id: attempt for run_id, attempt in attempts.items() if isinstance(attempt, int)}


async def _past(reads: RunReads, attempts: Mapping[str, int], names: Sequence[str]) -> Past:
    if not attempts:
        return Past({}, None)
    suites: dict[str, Measured] = {}
    for row in await _rows(reads.db, attempts, names):
        values = row.get("values")
        if isinstance(values, Mapping):
            suites.setdefault(row["key"], Measured()).add(values)
    usage = await reads.usage([*attempts])
    prompt = sum(_number(each["promptTokens"]) or 0.0 for each in usage)
    completion = sum(_number(each["completionTokens"]) or 0.0 for each in usage)
    return Past(suites, prompt / (prompt + completion) if prompt + completion else None)


@answers()
async def _rows(db: Database, attempts: Mapping[str, int], names: Sequence[str]) -> list[Document]:
    """Return the rows of these suites: by a seek for each run and suite, whatever else a run recorded."""
    each_run = [
        {"runId": run_id, "attempt": attempt, "set": OF_SUITES.name, "key": {"$in": list(names)}}
        for run_id, attempt in attempts.items()
    ]
    return await db[RESULTS].find({"$or": each_run}, _OF_ROW).limit(len(attempts) * len(names)).to_list()


def _number(value: Any) -> float | None:
    """Return what a pod or a person said as a number within bounds; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= NUMBER_MAX:
        return None
    return float(value)
