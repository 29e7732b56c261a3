"""Trials: an engine serves a model with some launch parameters, and a load measures it; pure.

The headline numbers are those of all measurements of the run together; its rows are those of each one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

import msgspec

from events.kinds.declaring.spec import TITLE_MAX, Seconds, Spec
from events.kinds.kind import Index, Kind, Noun
from events.kinds.results import Column, ResultSet
from events.models.engines import ENGINES, engine_named
from events.models.parameter import Given
from events.runtime.errors import PipelineError
from events.text.traffic import Embedding, Scenario, TextScenario, read_scenarios

DEFAULT_ENGINE: Final = "xllamacpp"
CONCURRENCY_MAX: Final = 1_024
OWN: Final = "own"
GENAI_BENCH: Final = "genai-bench"
LOADS_MAX: Final = 16
MEMORY_GIB_MIN: Final = 1 / 16  # less holds no engine
MEMORY_GIB_MAX: Final = 65_536
CORES_MAX: Final = 1 << 16  # how many a pod has is not known here
MEASUREMENTS_MAX: Final = 256
REPEATS_MAX: Final = 20
METRICS_MAX: Final = 4

# A noisy trial measured something, beside what disturbed it.
OUTCOMES: Final = ("success", "deploy_failed", "benchmark_failed", "timeout", "oom", "noisy")

Limit = Annotated[float, msgspec.Meta(gt=0, le=24 * 3600)]
Text = Annotated[str, msgspec.Meta(max_length=2_000)]
Concurrency = Annotated[int, msgspec.Meta(ge=1, le=CONCURRENCY_MAX)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=10_000)]


class TrialSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model, an engine with its launch parameters, and the traffic that it is measured with."""

    model: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=500,
            description="Weights of the pod (`smollm2` come along), or an id that the engine loads.",
        ),
    ]
    engine: Annotated[
        str, msgspec.Meta(max_length=40, description=f"What serves it: {', '.join(ENGINES)}.")
    ] = DEFAULT_ENGINE
    parameters: Given = {}
    command: Annotated[
        Text, msgspec.Meta(description="Of the engine `command`: what is run, with {model} and {port}.")
    ] = ""
    image: Annotated[
        Annotated[str, msgspec.Meta(max_length=500)],
        msgspec.Meta(description="A Docker image that has the engine; without it the pod's own program."),
    ] = ""
    scenarios: Annotated[
        Text | Annotated[list[Text], msgspec.Meta(max_length=64)],
        msgspec.Meta(description="Traffic, such as `D(100,20), N(200,50)/(40,10)`."),
    ] = "D(100,20)"
    concurrency: Annotated[
        list[Concurrency],
        msgspec.Meta(max_length=LOADS_MAX, description="Requests at once: each is measured by itself."),
    ] = msgspec.field(default_factory=lambda: [1, 4])
    rates: Annotated[
        list[Rate],
        msgspec.Meta(
            max_length=LOADS_MAX, description="Requests that come each second, however many are answered."
        ),
    ] = []
    arrivals: Annotated[
        Literal["poisson", "constant"], msgspec.Meta(description="How the requests of a rate come.")
    ] = "poisson"
    requests: Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Requests of a measurement.")] = 32
    warmup: Annotated[
        int, msgspec.Meta(ge=0, le=1_000, description="Requests before a measurement, which do not count.")
    ] = 2
    repeats: Annotated[
        int, msgspec.Meta(ge=1, le=REPEATS_MAX, description="How often each measurement is made, in turn.")
    ] = 1
    shared_prefix: Annotated[
        int, msgspec.Meta(ge=0, le=1_000_000, description="Tokens with which every prompt begins alike.")
    ] = 0
    ttft_limit_s: Annotated[
        Limit | None, msgspec.Meta(description="Longest time to the first token that counts as good.")
    ] = None
    tpot_limit_s: Annotated[
        Limit | None, msgspec.Meta(description="Longest time per token after it that counts as good.")
    ] = None
    e2e_limit_s: Annotated[
        Limit | None, msgspec.Meta(description="Longest time of a request that counts as good.")
    ] = None
    ready_s: Annotated[Seconds, msgspec.Meta(description="Most seconds until the engine is ready.")] = 600.0
    measure_s: Annotated[Seconds, msgspec.Meta(description="Most seconds of a measurement.")] = 300.0
    noise_max: Annotated[
        float,
        msgspec.Meta(gt=0, le=1, description="Share of the cores that others may use beside a measurement."),
    ] = 0.25
    spread_max: Annotated[
        float, msgspec.Meta(gt=0, le=10, description="How far repeats may lie apart, of their mean.")
    ] = 0.5
    again: Annotated[
        int, msgspec.Meta(ge=0, le=2, description="How often a disturbed measurement is made again.")
    ] = 1
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="Chooses prompts and arrivals.")] = 0
    offline: Annotated[
        bool, msgspec.Meta(description="Whether the engine may load only what is on the pod.")
    ] = False
    memory_gib: Annotated[
        Annotated[float, msgspec.Meta(ge=MEMORY_GIB_MIN, le=MEMORY_GIB_MAX)] | None,
        msgspec.Meta(description="Most memory of the engine, without that of GPUs; above it, it is ended."),
    ] = None
    cores: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=CORES_MAX)] | None,
        msgspec.Meta(description="Most cores of the engine; without it, all of the pod."),
    ] = None
    token_secret: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\A(HF_TOKEN_[A-Za-z0-9_]{1,80})?\Z",
            description="The secret of the run that is the engine's HF_TOKEN, such as HF_TOKEN_META.",
        ),
    ] = ""
    proxy_secret: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\A(PROXY_[A-Za-z0-9_]{1,80})?\Z",
            description="The secret of the run that is the address of the engine's proxy, such as PROXY_LAB.",
        ),
    ] = ""
    certificates_secret: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\A(CERTIFICATES_[A-Za-z0-9_]{1,80})?\Z",
            description="The secret of the run with the certificates (PEM) that the engine trusts.",
        ),
    ] = ""
    client: Annotated[
        Literal["own", "genai-bench"],
        msgspec.Meta(description="Who measures: podfleet itself, or genai-bench of the pod."),
    ] = "own"
    tokenizer: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\A([A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?)?\Z",
            description="Of the client genai-bench: an id of the hub; without it a word is a token.",
        ),
    ] = ""
    metrics: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=40)]],
        msgspec.Meta(
            max_length=METRICS_MAX,
            description="Headline numbers of all until then, said after each measurement but the last.",
        ),
    ] = msgspec.field(default_factory=lambda: ["tokens_out_per_s"])
    start_limit_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds until the first event.")] = (
        300.0
    )


def unfit_for_genai_bench(
    scenarios: Sequence[Scenario], concurrency: Sequence[int], rates: Sequence[float]
) -> str | None:
    """Say what of a load genai-bench cannot ask for; None where it can."""
    if rates:
        return "genai-bench has no rates: it asks in closed loops alone, `concurrency` at once"
    if max(concurrency, default=1) > 1 and any(isinstance(each, Embedding) for each in scenarios):
        return "genai-bench asks for one embedding at a time: take a concurrency of 1"
    return None


def _problems(spec: TrialSpec) -> Iterator[str]:
    try:
        yield from engine_named(spec.engine, spec.command).problems(spec.parameters)
    except PipelineError as error:
        yield error.message
    if strange := [each for each in spec.metrics if each not in METRICS]:
        yield f"metrics: {strange[0]!r} is not said after each measurement; take one of {', '.join(METRICS)}"
    if not spec.concurrency and not spec.rates:
        yield "`concurrency` and `rates` are both empty; name a load"
    try:
        scenarios = read_scenarios(spec.scenarios)
        count = len(scenarios) * (len(spec.concurrency) + len(spec.rates)) * spec.repeats
    except ValueError as error:
        yield f"scenarios: {error}"
    else:
        if unasked := [each for each in scenarios if not isinstance(each, TextScenario)]:
            yield f"{unasked[0]} asks for {unasked[0].asks}, which no client here speaks: take D, N, U or E"
        if spec.client == GENAI_BENCH:
            found = unfit_for_genai_bench(scenarios, spec.concurrency, spec.rates)
            yield from [found] if found else []
        if count > MEASUREMENTS_MAX:
            yield f"{count:,} measurements are more than {MEASUREMENTS_MAX}; take fewer scenarios or loads"


def _check(spec: TrialSpec) -> str | None:
    return next(_problems(spec), None)


def _weights(spec: TrialSpec) -> str:
    return spec.model


def _title(spec: TrialSpec) -> str:
    varied = ", ".join(f"{name}={value}" for name, value in spec.parameters.items())
    return f"{spec.model} by {spec.engine}{f': {varied}' if varied else ''}"[:TITLE_MAX]


def _latency(name: str) -> Column:
    return Column(name, unit="s", direction="lower", format=".4g")


def _speed(name: str, unit: str) -> Column:
    return Column(name, unit=unit, direction="higher", format=",.4g")


TOKENS_PER_S: Final = _speed("tokens_out_per_s", "1/s")
REQUESTS_PER_S: Final = _speed("requests_per_s", "1/s")
GOODPUT: Final = _speed("goodput_per_s", "1/s")
ERROR_RATE: Final = Column("error_rate", direction="lower", format=".1%")
TIMES: Final = ("ttft", "tpot", "itl", "e2e")
STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99", "max")
LATENCIES: Final = tuple(_latency(f"{time}_{each}_s") for time in TIMES for each in STATISTICS)

# What is known after each measurement: a study may end a trial by it.
METRICS: Final = (
    "tokens_out_per_s",
    "peak_tokens_out_per_s",
    "requests_per_s",
    "goodput_per_s",
    "error_rate",
    "success_rate",
    *(each.name for each in LATENCIES),
)

# Columns are sorted by an index up to the eighth.
SCENARIOS: Final = ResultSet(
    "scenarios",
    "Scenarios",
    (
        Column("scenario", type="text"),
        Column("concurrency", format=",d"),
        Column("rate_per_s", unit="1/s", format=".4g"),
        TOKENS_PER_S,
        _latency("ttft_p50_s"),
        _latency("tpot_p50_s"),
        _latency("e2e_p50_s"),
        ERROR_RATE,
        REQUESTS_PER_S,
        GOODPUT,
        *(each for each in LATENCIES if each.name not in ("ttft_p50_s", "tpot_p50_s", "e2e_p50_s")),
        Column("repeat", format="d"),
        Column("requests", format=",d"),
        Column("errors", direction="lower", format=",d"),
        Column("says", type="text"),  # the errors by their codes
        Column("tokens_in", format=",d"),
        Column("tokens_out", format=",d"),
        _speed("tokens_in_per_s", "1/s"),
        Column("tokens_from", type="text"),
        Column("seconds", unit="s", format=",.1f"),
        Column("others_cores", direction="lower", format=".2f"),  # that others used meanwhile
        Column("stalled", direction="lower", format=".1%"),  # of the time, somebody waited for a processor
        Column("clock_mhz", format=",.0f"),
        Column("temperature_c", direction="lower", format=".1f"),
        Column("gpu_processes", direction="lower", format="d"),  # of others
        Column("is_disturbed", type="bool"),
        Column("try", format="d"),
        Column("tokens_in_off", format="+.1%"),  # how far prompts are from the tokens that were wanted
        Column("client_cores", direction="lower", format=".2f"),
        _latency("late_p99_s"),  # how late requests were sent
        Column("good_rate", direction="higher", format=".1%"),
        Column("warmup_errors", direction="lower", format=",d"),
    ),
)
HEADLINE: Final = (
    TOKENS_PER_S,
    _speed("peak_tokens_out_per_s", "1/s"),
    REQUESTS_PER_S,
    GOODPUT,
    *LATENCIES,
    ERROR_RATE,
    Column("success_rate", direction="higher", format=".1%"),
    Column("requests", format=",d"),
    Column("errors", direction="lower", format=",d"),
    Column("tokens_in", format=",d"),
    Column("tokens_out", format=",d"),
    Column("start_s", unit="s", direction="lower", format=".1f"),
    Column("seconds", unit="s", direction="lower", format=",.1f"),
    Column("spread", direction="lower", format=".1%"),
    Column("others_cores", direction="lower", format=".2f"),
    Column("cost_usd", unit="USD", direction="lower", format=".4g"),
    Column("outcome", type="text"),
    Column("command", type="text"),  # by which the model is served like that
)

KIND: Final = Kind(
    name="trial",
    says="Serves a model with launch parameters of an engine, and measures it under a load.",
    spec=TrialSpec,
    example={"model": "smollm2", "parameters": {"n_parallel": 4}, "scenarios": "D(50,10)", "requests": 8},
    pipeline="stages.kinds.trial.pipeline",
    package="control_plane.kinds.trial",
    title=_title,
    check=_check,
    weights=_weights,
    needs=("aiohttp", "ddsketch"),
    uses=frozenset({"gpu"}),
    codes={
        "DEPLOY_FAILED": "See the engine's log among the files: it did not start with these parameters.",
        "BENCHMARK_FAILED": "See the errors of the scenarios: the engine ended, or answered none of them.",
        "TRIAL_TIMEOUT": "Give the engine more time (ready_s, measure_s), or less to do.",
        "ENGINE_OUT_OF_MEMORY": "Lower what needs memory: context, requests at once, batch; or a larger pod.",
    },
    results=(SCENARIOS,),
    headline=HEADLINE,
    labels={"model": "model", "engine": "engine"},
    nouns=(
        Noun(
            collection="tasks",
            singular="task",
            says="Tune an engine: create tasks, start them, see their best configuration.",
            writers={
                "create": ("createdBy", "createdAt"),
                "create, edit": (
                    "name",
                    "description",
                    "model",
                    "baseRuntime",
                    "runtimeImageTag",
                    "deploymentMode",
                    "command",
                    "parameters",
                    "optimization",
                    "benchmark",
                    "placement",
                    "updatedBy",
                    "updatedAt",
                ),
                "create, edit, start": ("revision",),
                "start": ("begun",),
            },
            indexes=(
                Index("by_name", (("name", 1),), unique=True),
                Index("by_time", (("createdAt", -1), ("_id", -1))),
            ),
            command="podfleet.kinds.trial",
        ),
    ),
)
