"""What is known of a lane before its race: whether its pod can take it, and its model fits; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.model.groups.races.fit import Fit, Grade, fit_of, worst
from control_plane.model.groups.races.machine import Machine
from events.formatting import size
from events.queue.abilities import lacks
from events.queue.pod_checks import obstacle

FETCHING: Final = frozenset({"ollama"})  # engines that fetch a model which they do not have


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a lane, with its grade."""

    name: str
    grade: Grade
    says: str
    fit: Fit | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a lane needs: the class of its run, the model that it loads, and the engine that serves it.

    Where nothing is said of a model, or of an engine, there is none.
    """

    class_key: str
    kind: str
    model: str = ""
    engine: str = ""


def checks_of(pod: str, machines: Sequence[Machine], wanted: Wanted) -> list[Check]:
    """Return the checks of a lane on this pod; `machines` are all live ones of the fleet."""
    own = sorted((each for each in machines if each.name == pod), key=lambda each: not each.is_idle)
    if not own:
        says = "its pod has not reported for a minute: start its worker, or choose another pod"
        return [Check("reachable", "FAIL", says)]
    return [
        Check("reachable", "GOOD", "its pod reports"),
        *_queue_checks(own[0], wanted),
        *_model_checks(own[0], machines, wanted),
    ]


def grade_of(checks: Sequence[Check]) -> Grade:
    """Return the grade of a lane: that of its worst check."""
    return worst(each.grade for each in checks)


def _queue_checks(machine: Machine, wanted: Wanted) -> Iterator[Check]:
    pod = machine.pod
    lacking = [*lacks(wanted.class_key, pod.abilities)]
    broken = obstacle(wanted.class_key, pod.broken)
    if lacking:
        yield Check("kind", "FAIL", "; ".join(lacking))
    elif broken is not None:
        yield Check("kind", "FAIL", f"its check {broken.name} fails: {broken.message}"[:500])
    else:
        yield Check("kind", "GOOD", f"it runs the kind {wanted.kind}")
    if pod.hold is not None:
        yield Check("cordoned", "FAIL", pod.hold.why)
    elif pod.is_draining:
        yield Check("cordoned", "FAIL", "its worker drains and leaves")
    else:
        yield Check("cordoned", "GOOD", "nothing keeps it from claiming")
    if machine.is_idle or pod.hold is not None or pod.is_draining:
        yield Check("busy", "GOOD", "it has no other run")
    else:
        yield Check("busy", "RISK", f"it is {pod.state}: the lane waits until that has ended")


def _model_checks(machine: Machine, machines: Sequence[Machine], wanted: Wanted) -> Iterator[Check]:
    if wanted.engine:
        yield _engine_check(machine, wanted.engine)
    if not wanted.model:
        return
    there, grade = _model_words(machine, wanted)
    yield Check("model", grade, there)
    memory, of = machine.model_memory
    fit = fit_of(memory, _bytes_of(machine, machines, wanted.model), of=of)
    yield Check("memory", fit.grade, fit.says, fit)


def _engine_check(machine: Machine, engine: str) -> Check:
    if machine.engines is None:
        return Check("engine", "RISK", "its worker does not tell which engines it has")
    if engine not in machine.engines:
        has = ", ".join(machine.engines) or "none"
        return Check("engine", "FAIL", f"it has no {engine}; its engines: {has}"[:500])
    return Check("engine", "GOOD", f"it has {engine}")


def _model_words(machine: Machine, wanted: Wanted) -> tuple[str, Grade]:
    if machine.models is None:
        return "its worker does not tell which models it has", "RISK"
    if wanted.model in machine.models:
        found = machine.models[wanted.model]
        return f"it has {wanted.model}" + ("" if found is None else f", {size(found)}"), "GOOD"
    if wanted.engine in FETCHING:
        return f"{wanted.model} will be fetched before the start", "RISK"
    return f"it does not have {wanted.model}; the lane fetches it before the start, or fails", "RISK"


def _bytes_of(machine: Machine, machines: Sequence[Machine], model: str) -> int | None:
    """Return the bytes of a model as this machine knows them, else as another one does."""
    for each in (machine, *machines):
        if each.models is not None and (found := each.models.get(model)):
            return found
    return None
