"""Trials: serve a model with launch parameters, measure it under each load, and end the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from events.kinds.results import TEXT_BYTES_MAX, Value
from events.kinds.trial import OWN, SCENARIOS, TrialSpec
from events.models.engines import chosen, engine_named
from events.runtime.clock import SystemIds
from events.runtime.errors import Canceled, PipelineError
from stages.context import Context, Stage
from stages.engines.environment import engine_environment
from stages.engines.failure import EngineFailed
from stages.engines.hub_access import Own, with_own
from stages.engines.load.measurement import Measurement
from stages.engines.load.measuring import measure
from stages.engines.load.outside import found_outside
from stages.engines.load.plan import Limits, Load, Target
from stages.engines.running import GIB, LOG, ServingLimits, log_kept
from stages.engines.serving import Served, serve
from stages.engines.weights import model_of
from stages.kinds.trial.points import Point, in_order, points_of
from stages.kinds.trial.pressure import Machine
from stages.kinds.trial.tally import Measured, Tally, failures_in_words

DEPLOY: Final = "deploy"
MEASURE: Final = "measure"
OUTSIDE: Final = "genai-bench"  # the folder of another client
# The outcome of a trial by the code of its failure.
FAILED: Final[Mapping[str, str]] = {
    "DEPLOY_FAILED": "deploy_failed",
    "BENCHMARK_FAILED": "benchmark_failed",
    "TRIAL_TIMEOUT": "timeout",
    "ENGINE_OUT_OF_MEMORY": "oom",
}


def run(context: Context) -> str:
    """Run a trial. Raises `PipelineError` where the engine did not start, or answered nothing."""
    assert isinstance(context.spec, TrialSpec)
    return _Trial(context, context.spec).run()


class Client(Protocol):
    """Measures a load."""

    def __call__(self, target: Target, load: Load, *, canceled: Callable[[], bool]) -> Measurement:
        """Return its figures. Raises `Canceled` soon after `canceled`, and `PipelineError`."""
        ...


@dataclass(slots=True)
class _Trial:
    """One attempt at a trial: it measures everything, whatever an earlier attempt has measured."""

    context: Context
    spec: TrialSpec
    tally: Tally = field(init=False)
    client: Client = field(init=False)
    variables: Mapping[str, str] = field(init=False, repr=False)
    begun_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(self.spec)
        self.begun_s = self.context.clock.monotonic_s()

    def run(self) -> str:
        """Measure, and return the line that sums the trial up."""
        folder = self.context.workspace / "engine"
        folder.mkdir()
        self.variables = with_own(_own(self.spec), self.context.tools.variables, folder)
        try:
            with log_kept(folder, self.context.keep), ExitStack() as stack:
                self.client = self._client(stack)
                with self.context.stage(DEPLOY, index=1, total=2):
                    served = self._deployed(stack, folder)
                self.context.wait_for_start()
                with self.context.stage(MEASURE, index=2, total=2) as stage:
                    self._measure(stage, served)
        except EngineFailed as error:
            raise self._failed(*_cause(error, self.context.where.stage)) from error
        self._summarize("noisy" if self.tally.is_noisy else "success")
        return self._line()

    def _client(self, stack: ExitStack) -> Client:
        """Return who measures; the log of a program of others is handed over at the end."""
        context, spec = self.context, self.spec
        if spec.client == OWN:
            return partial(measure, clock=context.clock)
        found = found_outside(
            self.variables,
            tokenizer=spec.tokenizer,
            is_offline=spec.offline,
            folder=context.workspace / OUTSIDE,
            clock=context.clock,
            say=context.log,
        )
        stack.callback(lambda: context.keep(found.log, f"{OUTSIDE}/{LOG}") if found.runs else None)
        return found.measure

    def _deployed(self, stack: ExitStack, folder: Path) -> Served:
        spec, variables = self.spec, self.variables
        engine = chosen(spec.engine, variables, command=spec.command, image=spec.image)
        model = model_of(engine, self.spec.model, variables)
        served = stack.enter_context(
            serve(
                engine,
                model,
                self.spec.parameters,
                name=self.spec.model,
                folder=folder,
                clock=self.context.clock,
                ids=SystemIds(),
                gpus=self.context.tools.gpus,
                environment=engine_environment(variables, is_offline=self.spec.offline),
                image=self.spec.image,
                pod=self.context.pod,
                say=self.context.log,
                limits=_limits(spec),
            )
        )
        start_s = self.context.clock.monotonic_s() - self.begun_s
        self.context.log(f"{engine.name} is ready after {start_s:.1f} s: {' '.join(served.command)}")
        command = engine.command_line(str(model), self.spec.model, served.parameters)
        is_short = len(command.encode()) <= TEXT_BYTES_MAX  # a part of it would be another command
        self.context.summarize({"start_s": start_s, "command": command if is_short else None})
        return served

    def _measure(self, stage: Stage, served: Served) -> None:
        points = points_of(self.spec)
        total = len(points) * self.spec.repeats
        for done, (repeat, point) in enumerate(in_order(points, self.spec.repeats)):
            stage.progress(done / total, point.says)
            self._point(served, point, repeat)
            if done + 1 < total:  # after the last one nothing is left to end early
                self._tell(stage)
        for _ in range(self.spec.again):
            for repeat, point in in_order(self.tally.wide, self.spec.repeats):
                stage.progress(1.0, f"{point.says}, again: its repeats lie apart")
                self._point(served, point, repeat)
        together = self.tally.together
        if together.errors == together.requests:
            raise self._failed(*_unanswered(together))

    def _point(self, served: Served, point: Point, repeat: int) -> None:
        """Make one measurement, again where something disturbed it; the last one counts."""
        for _ in range(self.spec.again + 1):
            if not self._once(served, point, repeat).is_disturbed:
                break
        self._summarize()

    def _tell(self, stage: Stage) -> None:
        """Say the numbers of all measurements so far; the step is how many, in the order of every trial."""
        values = self.tally.headline()
        for name in dict.fromkeys(self.spec.metrics):
            if isinstance(value := values.get(name), float):
                stage.metric(name, value, step=len(self.tally.found))

    def _once(self, served: Served, point: Point, repeat: int) -> Measured:
        before = self.tally.found.get((point, repeat))
        attempt = 1 if before is None else before.attempt + 1
        machine = Machine(session=served.pid, clock=self.context.clock)
        start = machine.used()
        try:
            measurement = self.client(
                self._target(served), self._load(point, repeat, attempt), canceled=partial(_has_ended, served)
            )
        except Canceled as error:
            raise EngineFailed(served.ended() or "the engine ended", served.log) from error
        pressure = machine.until_now(start)
        if (words := served.ended()) is not None:
            raise EngineFailed(words, served.log)
        measured = Measured(
            measurement=measurement,
            pressure=pressure,
            attempt=attempt,
            is_disturbed=pressure.is_above(self.spec.noise_max),
        )
        self.tally.add(point, repeat, measured)
        status = "disturbed" if measured.is_disturbed else "done"
        self.context.result(SCENARIOS.name, point.key(repeat), self.tally.row(point, repeat), status)
        return measured

    def _target(self, served: Served) -> Target:
        return Target(
            base_url=served.url,
            model=served.name,
            takes_ignore_eos=engine_named(self.spec.engine, self.spec.command).takes_ignore_eos,
        )

    def _load(self, point: Point, repeat: int, attempt: int) -> Load:
        spec = self.spec
        return Load(
            scenario=point.scenario,
            concurrency=point.concurrency,
            rate_per_s=point.rate_per_s,
            arrivals=spec.arrivals,
            requests=spec.requests,
            limit_s=spec.measure_s,
            request_s=spec.measure_s,
            warmup=spec.warmup,
            # the same in every trial of a study, another one in each measurement
            seed=spec.seed + 1_000 * repeat + attempt,
            shared_prefix_tokens=spec.shared_prefix,
            limits=Limits(ttft_s=spec.ttft_limit_s, tpot_s=spec.tpot_limit_s, e2e_s=spec.e2e_limit_s),
        )

    def _summarize(self, outcome: str | None = None) -> None:
        seconds = self.context.clock.monotonic_s() - self.begun_s
        values: dict[str, Value] = {**self.tally.headline(), "seconds": seconds}
        if (price := self.context.tools.pod_usd_per_hour) is not None:
            values["cost_usd"] = price * seconds / 3600
        if outcome is not None:
            values["outcome"] = outcome
        self.context.summarize(values)

    def _failed(self, code: str, message: str, is_elsewhere: bool) -> PipelineError:
        self._summarize(FAILED[code])
        return PipelineError(code, message, retryable=is_elsewhere)

    def _line(self) -> str:
        values = self.tally.headline()
        speed, first = values.get("tokens_out_per_s"), values.get("ttft_p50_s")
        said = [f"{speed:,.1f} tokens/s"] if isinstance(speed, float) else []
        said += [f"first token after {first * 1000:,.0f} ms"] if isinstance(first, float) else []
        noisy = "; noisy: see what disturbed it in the rows" if self.tally.is_noisy else ""
        return f"{self.spec.model} by {self.spec.engine}: {', '.join(said) or 'measured'}{noisy}"


def _own(spec: TrialSpec) -> Own:
    return Own(token=spec.token_secret, proxy=spec.proxy_secret, certificates=spec.certificates_secret)


def _limits(spec: TrialSpec) -> ServingLimits:
    memory = None if spec.memory_gib is None else round(spec.memory_gib * GIB)
    return ServingLimits(ready_s=spec.ready_s, memory_bytes=memory, cores=spec.cores)


def _has_ended(served: Served) -> bool:
    """Return whether the engine has; meanwhile its new lines are passed on."""
    served.look()
    return served.ended() is not None


def _cause(error: EngineFailed, stage: str) -> tuple[str, str, bool]:
    """Return the code of a failure, its words, and whether it may be otherwise on another pod."""
    advice = error.advice.code if error.advice else ""
    if advice == "OUT_OF_MEMORY":
        return "ENGINE_OUT_OF_MEMORY", error.message, False
    code = "DEPLOY_FAILED" if stage == DEPLOY else "BENCHMARK_FAILED"
    if error.is_late:
        return "TRIAL_TIMEOUT", error.message, error.is_elsewhere
    return code, error.message, error.is_elsewhere or error.is_killed


def _unanswered(together: Measurement) -> tuple[str, str, bool]:
    """Return the failure of a trial none of whose requests was answered, as `_cause` does."""
    is_late = set(together.failures) <= {"timeout", "unfinished"}
    code = "TRIAL_TIMEOUT" if is_late else "BENCHMARK_FAILED"
    return code, f"no request was answered: {failures_in_words(together)}", False
