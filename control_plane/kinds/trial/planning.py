"""The study of a task: the run that each trial varies and the plan, from the task's configuration, pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from control_plane.kinds.trial.bodies import PruneTrialsBody, RangeBody, TaskBody
from control_plane.model.groups.space import Choice
from control_plane.model.groups.study import Study
from events.kinds.trial import CORES_MAX, GENAI_BENCH, KIND, METRICS, OWN, unfit_for_genai_bench
from events.models.containers import PROGRAM
from events.models.engine import Engine
from events.models.engines import ENGINES, PROXY
from events.models.parameter import Parameter
from events.queue.labels import engine_labels
from events.runtime.errors import PipelineError, Rejected
from events.text.traffic import read_scenarios

PREFIX: Final = "parameters."  # of a varied parameter in the specification of a run
SAMPLERS: Final = {"grid": "grid", "random": "random", "bayesian": "tpe"}
DIRECTIONS: Final = {"minimize": "min", "maximize": "max"}
DEPLOYED_BY_DOCKER: Final = "docker"
SHOWN_CHARS: Final = 100
HUB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")

Json = dict[str, Any]


def group_of(task_id: str) -> str:
    """Return the id of the group that runs the trials of a task."""
    return f"task-{task_id.lower()}"


def require_valid(task: TaskBody) -> None:
    """Check what the schema cannot say of a task. Raises `Rejected` that names every problem."""
    if problems := list(_problems(task)):
        raise Rejected("bad_task", "; ".join(problems))


def settled(task: TaskBody) -> TaskBody:
    """Return a valid task with its scenarios by themselves, each as it is written usually."""
    scenarios = [str(each) for each in read_scenarios(task.benchmark.traffic_scenarios)]
    benchmark = task.benchmark.model_copy(update={"traffic_scenarios": scenarios})
    return task.model_copy(update={"benchmark": benchmark})


def _problems(task: TaskBody) -> Iterator[str]:
    engine = ENGINES.get(task.base_runtime)
    if engine is None:
        shown = task.base_runtime[:SHOWN_CHARS]
        yield f"base_runtime: there is no engine {shown!r}; there are {', '.join(ENGINES)}"
    if not any(isinstance(each, list | RangeBody) for each in task.parameters.values()):
        yield "parameters: nothing varies; give one of them a list of values, or a range"
    try:
        read_scenarios(task.benchmark.traffic_scenarios)
    except ValueError as error:
        yield f"benchmark.traffic_scenarios: {error}"
    if not task.benchmark.num_concurrency and not task.benchmark.rates:
        yield "benchmark: `num_concurrency` and `rates` are both empty; name a load"
    if task.benchmark.client == GENAI_BENCH:
        yield from _unfit_for_its_client(task)
    if task.deployment_mode == DEPLOYED_BY_DOCKER and not task.runtime_image_tag.strip():
        yield "runtime_image_tag: a deployment by docker needs the image"
    if engine is not None:
        yield from _unfit(task, engine)
    if task.optimization.prune is not None:
        yield from _unprunable(task, task.optimization.prune)
    if isinstance(task.optimization.baseline, dict) and set(task.optimization.baseline) != set(varied(task)):
        yield f"optimization.baseline: it has a value for each of {', '.join(varied(task))}"


def _unfit_for_its_client(task: TaskBody) -> Iterator[str]:
    wanted = task.benchmark
    with suppress(ValueError):  # scenarios that are none are told by themselves
        scenarios = read_scenarios(wanted.traffic_scenarios)
        if problem := unfit_for_genai_bench(scenarios, wanted.num_concurrency, wanted.rates):
            yield f"benchmark.client: {problem}"
    if "/" in task.model.tokenizer and not HUB_ID.fullmatch(task.model.tokenizer):
        yield "model.tokenizer: genai-bench takes an id of the hub, such as Qwen/Qwen3-0.6B"


def _unprunable(task: TaskBody, prune: PruneTrialsBody) -> Iterator[str]:
    """Yield why no trial can be ended early by what it has measured."""
    wanted, where = task.optimization, "optimization.prune"
    if wanted.second_objective is not None:
        yield f"{where}: it compares one objective; take away the second one, or `prune`"
    if wanted.objective.metric not in METRICS:
        shown = wanted.objective.metric[:SHOWN_CHARS]
        yield f"{where}: {shown} is not known before a trial ends; known are {', '.join(METRICS)}"
    runs = wanted.max_iterations * wanted.repeats
    if prune.min_members >= runs:
        yield f"{where}.min_members: {prune.min_members} trials are compared with at least; there are {runs}"
    with suppress(ValueError):  # scenarios that are none are told by themselves
        count = measurements(task)
        if count == 1:
            yield f"{where}: a trial makes one measurement, and ends with it; take more loads or repeats"
        elif count > 1 and prune.after >= count:
            yield f"{where}.after: a trial makes {count} measurements; {count - 1} at most, not {prune.after}"


def _unfit(task: TaskBody, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with the values of parameters that the engine declares."""
    known = {each.name: each for each in engine.parameters}
    own = task.optimization.baseline if isinstance(task.optimization.baseline, dict) else {}
    for name, given in [*task.parameters.items(), *own.items()]:
        if isinstance(given, RangeBody) and not given.low < given.high:
            yield f"parameters.{name}: low < high, not {given.low:g} and {given.high:g}"
            continue
        if isinstance(given, RangeBody) and given.log and given.low <= 0:
            yield f"parameters.{name}: with `log`, low > 0, not {given.low:g}"
            continue
        if name not in known and engine.is_open:
            continue
        if name not in known:
            yield f"parameters: {engine.name} has no parameter {name!r}; there are {', '.join(known)}"
            continue
        ends = (given.low, given.high) if isinstance(given, RangeBody) else given
        for value in ends if isinstance(ends, list | tuple) else [ends]:
            try:
                known[name].settled(_plain(value), CORES_MAX)
            except (ValueError, PipelineError) as error:
                yield f"parameters: {error}"


def varied(task: TaskBody) -> Sequence[str]:
    """Return the names of the parameters that vary, in their order."""
    return [name for name, given in task.parameters.items() if isinstance(given, list | RangeBody)]


def run_of(task: TaskBody) -> Json:
    """Return the run that each trial varies, as a group has it: only pods that have the engine take it."""
    benchmark, limits = task.benchmark, task.benchmark.limits
    spec: Json = {
        "model": task.model.id,
        "engine": task.base_runtime,
        "parameters": {
            name: given for name, given in task.parameters.items() if not isinstance(given, list | RangeBody)
        },
        "scenarios": benchmark.traffic_scenarios,
        "concurrency": list(benchmark.num_concurrency),
        "rates": list(benchmark.rates),
        "requests": benchmark.requests,
        "warmup": benchmark.warmup,
        "repeats": benchmark.repeats,
        "shared_prefix": benchmark.shared_prefix,
        "ready_s": benchmark.ready_s,
        "measure_s": benchmark.measure_s,
        "offline": benchmark.offline,
    }
    times = {"ttft_limit_s": limits.ttft_s, "tpot_limit_s": limits.tpot_s, "e2e_limit_s": limits.e2e_s}
    bounds = {"memory_gib": benchmark.memory_gib, "cores": benchmark.cores}
    spec |= {name: each for name, each in (times | bounds).items() if each is not None}
    secrets = {
        "token_secret": benchmark.token_secret,
        "proxy_secret": benchmark.proxy_secret,
        "certificates_secret": benchmark.certificates_secret,
    }
    spec |= {name: each for name, each in secrets.items() if each}
    if benchmark.client != OWN:
        spec["client"] = benchmark.client
        # weights that have no id on the hub have no tokenizer there
        if HUB_ID.fullmatch(task.model.tokenizer):
            spec["tokenizer"] = task.model.tokenizer
    if task.optimization.prune is not None:
        spec["metrics"] = [task.optimization.objective.metric]
    if task.command.strip():
        spec["command"] = task.command.strip()
    if task.deployment_mode == DEPLOYED_BY_DOCKER:
        spec["image"] = task.runtime_image_tag.strip()
    placement = task.placement.model_dump(exclude_none=True)
    named = [*(placement.get("secrets") or ()), *filter(None, secrets.values())]
    placement["secrets"] = list(dict.fromkeys(named))
    requires = placement.get("requires") or {}
    own_way = [PROXY] if secrets["proxy_secret"] or secrets["certificates_secret"] else []
    needed = engine_labels([PROGRAM if "image" in spec else task.base_runtime, *own_way])
    placement["requires"] = {**requires, "labels": {**needed, **(requires.get("labels") or {})}}
    return {"kind": KIND.name, "spec": spec, **placement}


def plan_of_task(task: TaskBody) -> Json:
    """Return the study of a task, as a group has it."""
    wanted, baseline = task.optimization, baseline_of(task)
    goals = [wanted.objective, *([wanted.second_objective] if wanted.second_objective else [])]
    texts = [f"{DIRECTIONS[each.direction]}:{each.metric}" for each in goals]
    plan: Json = {
        "kind": "study",
        "sampler": SAMPLERS[wanted.strategy],
        "goal": texts if len(texts) > 1 else texts[0],
        "space": {f"{PREFIX}{name}": _dimension(task, name) for name in varied(task)},
        "max_runs": runs_max(task),
        "parallel": wanted.parallel,
        "repeats": wanted.repeats,
        "points": wanted.points,
        "seed": wanted.seed,
        "patience": wanted.patience,
        "target": wanted.target,
        "max_seconds": wanted.max_seconds,
        "max_cost_usd": wanted.max_cost_usd,
        "constraints": list(wanted.constraints) or None,
        "confirm": None if wanted.confirm is None else wanted.confirm.model_dump(),
    }
    if (prune := wanted.prune) is not None:
        rule = prune.model_dump(exclude={"after"})
        plan["prune"] = {"by": texts[0], "after_step": prune.after, **rule}
    if baseline is not None:
        plan["baseline"] = {f"{PREFIX}{name}": value for name, value in baseline.items()}
        plan["baseline_every"] = wanted.baseline_every
    return {name: each for name, each in plan.items() if each is not None}


def runs_max(task: TaskBody) -> int:
    """Return how many runs a round has at most: of its experiments, and of what runs again."""
    wanted, has_baseline = task.optimization, baseline_of(task) is not None
    again = wanted.max_iterations // wanted.baseline_every if has_baseline and wanted.baseline_every else 0
    confirming = 0 if wanted.confirm is None else (wanted.confirm.top + has_baseline) * wanted.confirm.repeats
    return wanted.max_iterations * wanted.repeats + again + confirming


def baseline_of(task: TaskBody) -> Json | None:
    """Return the values that are tried first; None without any."""
    wanted = task.optimization.baseline
    if isinstance(wanted, dict):
        return {name: wanted[name] for name in varied(task)}
    engine = ENGINES.get(task.base_runtime)
    known = {each.name: each for each in engine.parameters} if engine else {}
    if not wanted or any(name not in known for name in varied(task)):
        return None
    found = {name: _default(known[name]) for name in varied(task)}
    return None if None in found.values() else found


def trials_max(study: Study) -> int:
    """Return how many configurations a study tries at most, without what runs again."""
    every = study.reruns.every
    most = study.search_slots // study.repeats
    while every is not None and most * study.repeats + most // every > study.search_slots:
        most -= 1
    if study.sampler != "grid" and not all(isinstance(each, Choice) for each in study.space.values()):
        return most
    points = {name: each.points(study.points) for name, each in study.space.items()}
    baseline = study.baseline or {}
    is_apart = any(value not in points[name] for name, value in baseline.items())
    different = (len({repr(value) for value in each}) for each in points.values())
    return min(most, math.prod(different) + is_apart)


def measurements(task: TaskBody) -> int:
    """Return how many measurements one trial makes."""
    loads = len(task.benchmark.num_concurrency) + len(task.benchmark.rates)
    return len(read_scenarios(task.benchmark.traffic_scenarios)) * loads * task.benchmark.repeats


def _dimension(task: TaskBody, name: str) -> Json:
    given = task.parameters[name]
    if isinstance(given, list):
        return {"type": "values", "values": list(given)}
    assert isinstance(given, RangeBody)
    low, high = _plain(given.low), _plain(given.high)
    is_whole = isinstance(low, int) and isinstance(high, int) and not _is_fraction(task, name)
    if is_whole and given.log and low > 0:
        return {"type": "values", "values": _doubled(low, high)}
    form = "int" if is_whole else "log" if given.log else "uniform"
    return {"type": form, "low": low, "high": high}


def _is_fraction(task: TaskBody, name: str) -> bool:
    engine = ENGINES.get(task.base_runtime)
    known = engine.parameters if engine is not None else ()
    return any(each.name == name and each.type == "number" for each in known)


def _doubled(low: int, high: int) -> list[int]:
    """Return whole numbers from `low` to `high`, each twice the one before it, and `high`."""
    found = [low * 2**power for power in range(math.ceil(math.log2(high / low)) + 1)]
    return sorted({each for each in found if each < high} | {high})


def _default(parameter: Parameter) -> Any:
    return parameter.usual if parameter.default is None else parameter.default


def _plain(value: Any) -> Any:
    """Return 3 for 3.0: an engine takes whole numbers as such."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
