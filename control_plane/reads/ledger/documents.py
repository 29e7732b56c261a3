"""Reads lives and attempts out of stored documents, pure: what is none is left out.

Law: an attempt's own marks count only within the time for which it was held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from control_plane.reads.ledger.segments import Held, Life
from events.kinds.results import is_measured
from events.queue.faults import blame_of
from events.queue.requirements import NO_KIND, read_class

GPUS_MAX: Final = 1_024
USD_MAX: Final = 1e6


def milliseconds(at: datetime) -> int:
    """Return a moment as milliseconds since 1970, exactly."""
    return round(at.timestamp() * 1_000)


def life_of(document: Mapping[str, Any]) -> Life | None:
    """Return the life of a worker by its line of the roster."""
    since, until = _ms(document.get("startedAt")), _ms(document.get("reportedAt"))
    if since is None or until is None or not isinstance(document.get("_id"), str):
        return None
    said = document.get("capabilities")
    gpus = said.get("gpus") if isinstance(said, Mapping) else None
    return Life(
        id=document["_id"],
        since=since,
        until=max(since, until),
        gpus=min(GPUS_MAX, len(gpus)) if isinstance(gpus, list) else 0,
        usd_per_hour=price_of(document.get("usdPerHour")),
    )


def held_of(document: Mapping[str, Any], saved_by: Mapping[str, Mapping[int, int]]) -> Held | None:
    """Return an attempt; `saved_by` are the moments up to which attempts of runs were saved."""
    run_id, attempt, worker = document.get("runId"), document.get("attempt"), document.get("pod")
    since, until = _ms(document.get("claimedAt")), _ms(document.get("endedAt"))
    if since is None or not (
        isinstance(run_id, str) and isinstance(attempt, int) and isinstance(worker, str)
    ):
        return None
    outcome, fault = document.get("outcome"), document.get("fault")
    return Held(
        run_id=run_id,
        attempt=attempt,
        worker=worker,
        since=since,
        until=until,
        outcome=outcome if isinstance(outcome, str) and until is not None else None,
        fault=fault if isinstance(fault, str) else None,
        worked_from=mark(document, "workedFrom"),
        worked_until=mark(document, "workedUntil"),
        saved_until=saved_by.get(run_id, {}).get(attempt),
    )


def mark(document: Mapping[str, Any], name: str) -> int | None:
    """Return a mark of an attempt's log."""
    marks = document.get("marks")
    return _ms(marks.get(name)) if isinstance(marks, Mapping) else None


def is_saved(document: Mapping[str, Any]) -> bool:
    """Say whether an attempt did not complete, and left a checkpoint."""
    return document.get("outcome") not in (None, "completed") and mark(document, "savedUntil") is not None


def saved_of(attempts: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, int]]:
    """Return up to when attempts were saved, by run and attempt: a later one went on from the checkpoint.

    It went on where its own work began, unless an attempt in between set aside what there was.
    """
    by_run: dict[str, dict[int, Mapping[str, Any]]] = {}
    for each in attempts:
        if isinstance(each.get("runId"), str) and isinstance(each.get("attempt"), int):
            by_run.setdefault(each["runId"], {})[each["attempt"]] = each
    found: dict[str, dict[int, int]] = {}
    for run_id, known in by_run.items():
        went_on = False
        for number in sorted(known, reverse=True):
            saved = mark(known[number], "savedUntil")
            if went_on and saved is not None:
                found.setdefault(run_id, {})[number] = saved
            went_on = went_on or mark(known[number], "workedFrom") is not None
            went_on = went_on and mark(known[number], "setAsideAt") is None
    return found


def project_of(class_key: object) -> str:
    """Return the project of a run by its class, nothing where that is none."""
    found = read_class(class_key) if isinstance(class_key, str) else None
    return "" if found is None or found.kind == NO_KIND else found.project


def price_of(told: object) -> float | None:
    """Return a price in dollars an hour, None where a worker told none."""
    return float(told) if is_measured(told) and 0 <= told <= USD_MAX else None


def cost_before(
    number: int, attempts: Mapping[int, Mapping[str, Any]], prices: Mapping[str, object]
) -> float | None:
    """Return what the attempts before this one have cost, from claim to end, None where an end is not known.

    The time of a lost attempt counts until it was taken from its pod. A pod without a price costs
    nothing, nor one that left the run to others.
    """
    spent = 0.0
    for each in (attempts.get(earlier, {}) for earlier in range(1, number)):
        since, until = _ms(each.get("claimedAt")), _ms(each.get("endedAt"))
        if since is None or until is None:
            return None
        if blame_of(code if isinstance(code := each.get("code"), str) else None).left_s is not None:
            continue  # nothing was begun
        price = price_of(prices.get(str(each.get("pod"))))
        spent += max(0, until - since) / 3_600_000 * (price or 0.0)
    return spent


def _ms(value: object) -> int | None:
    return milliseconds(value) if isinstance(value, datetime) else None
