"""What is known of a lane before its race: whether its pod can take it, and its model fits; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.model.groups.races.fit import Fit, Grade, fit_of, worst
from control_plane.model.groups.races.machine import Machine, Model
from events.formatting import size
from events.models.containers import PROGRAM
from events.models.engines import ENGINES
from events.models.job_containers import HAS
from events.queue.abilities import lacks
from events.queue.labels import ENDPOINT
from events.queue.pod_checks import obstacle

LATEST: Final = ":latest"  # what a library adds to a name without a tag


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a lane, with its grade."""

    name: str
    grade: Grade
    says: str
    fit: Fit | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a lane needs: the class of its run, the model, and the engine or the server that serves it.

    An engine `in_image` is brought by the run, and its pod needs Docker. A server has the name by which pods
    say that they have it. Where nothing is said of a model, an engine or a server, there is none. One that
    `is_offline` fetches nothing.
    """

    class_key: str
    kind: str
    model: str = ""
    engine: str = ""
    in_image: bool = False
    server: str = ""
    is_offline: bool = False


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
    if wanted.server:
        yield _server_check(machine, wanted.server)
    elif wanted.engine:
        yield _engine_check(machine, PROGRAM if wanted.in_image else wanted.engine)
    if not wanted.model:
        return
    there, grade = _model_words(machine, wanted)
    yield Check("model", grade, there)
    memory, of = machine.model_memory
    fit = fit_of(memory, _bytes_of(machine, machines, wanted), of=of)
    yield Check("memory", fit.grade, fit.says, fit)


def _server_check(machine: Machine, server: str) -> Check:
    if not machine.labels:
        return Check("engine", "RISK", "its worker does not tell which servers its runs may ask")
    if machine.labels.get(f"{ENDPOINT}{server}") != HAS:
        says = f"it has no server {server}: its operator names one in PODFLEET_ENDPOINTS"
        return Check("engine", "FAIL", says)
    return Check("engine", "GOOD", f"it has the server {server}")


def _engine_check(machine: Machine, engine: str) -> Check:
    if machine.engines is None:
        return Check("engine", "RISK", "its worker does not tell which engines it has")
    if engine not in machine.engines:
        has = ", ".join(machine.engines) or "none"
        return Check("engine", "FAIL", f"it has no {engine}; its engines: {has}"[:500])
    return Check("engine", "GOOD", f"it has {engine}")


def _model_words(machine: Machine, wanted: Wanted) -> tuple[str, Grade]:
    if wanted.server:
        return f"it is not known whether the server {wanted.server} has {wanted.model}", "RISK"
    if machine.models is None:
        return "its worker does not tell which models it has", "RISK"
    if (found := _model_of(machine, wanted)) is not None:
        return f"it has {found.name}" + ("" if found.size is None else f", {size(found.size)}"), "GOOD"
    if wanted.is_offline:  # it may be there all the same: links are not listed, nor models beyond a hundred
        says = "and the run is offline: it fails unless the pod has it all the same"
        return f"{wanted.model} is not among the models that it lists, {says}", "RISK"
    if _is_of_library(wanted):
        return f"{wanted.model} will be fetched before the start", "RISK"
    return f"it does not have {wanted.model}; the lane fetches it before the start, or fails", "RISK"


def _is_of_library(wanted: Wanted) -> bool:
    """Say whether the engine has models of its own alone, and fetches those that it lacks."""
    return wanted.engine in ENGINES and ENGINES[wanted.engine].weights == "library"


def _model_of(machine: Machine, wanted: Wanted) -> Model | None:
    """Return the wanted model as a machine has it for the engine of the lane; any engine's for a server."""
    own = wanted.engine if _is_of_library(wanted) else None
    names = {wanted.model} if own is None and not wanted.server else {wanted.model, f"{wanted.model}{LATEST}"}
    for each in machine.models or ():
        if each.name in names and (wanted.server or each.engine in {own, wanted.engine}):
            return each
    return None


def _bytes_of(machine: Machine, machines: Sequence[Machine], wanted: Wanted) -> int | None:
    """Return the bytes of the wanted model as this machine knows them, else as another one does."""
    for each in (machine, *machines):
        if (found := _model_of(each, wanted)) is not None and found.size:
            return found.size
    return None
