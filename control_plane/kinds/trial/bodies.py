"""The request bodies of tasks, in the words of their configuration."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from control_plane.model.groups.constraints import CONSTRAINT, CONSTRAINTS_MAX
from control_plane.model.groups.pruning import PEERS_MAX
from control_plane.model.groups.study import RUNS_MAX
from control_plane.server.api.contract.bodies import FEW, WHOLE, Body, OptionsBody, ShortText, Storable
from control_plane.server.api.contract.group_bodies import ConfirmBody, Number
from events.kinds.results import COLUMN_NAME
from events.kinds.trial import (
    CONCURRENCY_MAX,
    CORES_MAX,
    LOADS_MAX,
    MEASUREMENTS_MAX,
    MEMORY_GIB_MAX,
    MEMORY_GIB_MIN,
    REPEATS_MAX,
)
from events.models.engines import ENGINES
from events.text.traffic import SCENARIOS_MAX

PARAMETERS_MAX: Final = 20
VALUES_MAX: Final = 100  # of a parameter
DESCRIPTION_CHARS_MAX: Final = 2_000
CANCELLED: Final = "CANCELLED"


def _one_line(text: str) -> str:
    if not text.strip() or any(letter < " " for letter in text):
        raise ValueError("a name is text in one line")
    return text.strip()


TaskName = Annotated[ShortText, Storable, AfterValidator(_one_line)]
Description = Annotated[str, StringConstraints(max_length=DESCRIPTION_CHARS_MAX), Storable]
LongName = Annotated[str, StringConstraints(max_length=500), Storable]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2_000), Storable]
ParameterName = Annotated[str, StringConstraints(pattern="^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
Value = Annotated[
    bool | int | Number | Annotated[str, StringConstraints(min_length=1, max_length=200)], Storable
]
Seconds = Annotated[float, Field(gt=0, le=24 * 3600, allow_inf_nan=False)]
Requests = Annotated[int, Field(ge=1, le=100_000), WHOLE]
Concurrency = Annotated[int, Field(ge=1, le=CONCURRENCY_MAX), WHOLE]
Rate = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class TaskModelBody(Body):
    """The model: weights of the pod, or an id that the engine loads.

    `name` is what it is served as, by default the last part of the id; `tokenizer` is by default the id.
    """

    id: Annotated[LongName, StringConstraints(min_length=1)]
    name: LongName = ""
    tokenizer: LongName = ""

    @model_validator(mode="after")
    def _has_names(self) -> TaskModelBody:
        self.name = self.name.strip() or name_of_model(self.id)
        self.tokenizer = self.tokenizer.strip() or self.id
        return self


def name_of_model(model_id: str) -> str:
    """Return the last part of the id of a model."""
    return model_id.rstrip("/").rpartition("/")[2] or model_id


class RangeBody(Body):
    """Numbers from `low` to `high`: whole ones where both are, by their logarithm with `log`."""

    low: Number
    high: Number
    log: bool = False


class ObjectiveBody(Body):
    """A headline number of a trial, and which of its values are better."""

    metric: Annotated[str, StringConstraints(pattern=f"^{COLUMN_NAME}$")] = "tokens_out_per_s"
    direction: Literal["minimize", "maximize"] = "maximize"


Baseline = Annotated[
    dict[ParameterName, Value],
    Field(min_length=1, max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
    FEW,
]


class PruneTrialsBody(Body):
    """When a trial is ended early: by the median stopping rule, with any percentile.

    After each measurement, from the one with the number `after` on, its objective so far is compared with
    those that the experiments before it had: a trial whose best is worse than the means of the best
    `keep_percent` of these is canceled. `min_members` of them have to have succeeded.
    """

    after: Annotated[int, Field(ge=1, le=MEASUREMENTS_MAX), WHOLE] = 1
    keep_percent: Annotated[float, Field(ge=1, le=99, allow_inf_nan=False)] = 50.0
    min_members: Annotated[int, Field(ge=1, le=PEERS_MAX), WHOLE] = 5


class OptimizationBody(Body):
    """How configurations are tried: at most `max_iterations`, each `repeats` times, `parallel` at once.

    With `second_objective` the best are the Pareto front of both. `baseline` is tried first, and again after
    every `baseline_every` experiments: the engine's defaults with true, nothing with false, or other values.
    `confirm` runs the best, and the baseline, more often when the search is over. `prune` ends trials early,
    but none of the baseline or of what runs again. `constraints` are texts such as `ttft_p99_s <= 0.5`.
    `max_seconds` and `max_cost_usd` are the budgets of a round.
    """

    strategy: Literal["grid", "random", "bayesian"] = "bayesian"
    objective: ObjectiveBody = Field(default_factory=ObjectiveBody)
    second_objective: ObjectiveBody | None = None
    constraints: Annotated[
        list[Annotated[str, StringConstraints(pattern=CONSTRAINT, max_length=200)]],
        Field(max_length=CONSTRAINTS_MAX),
    ] = Field(default_factory=list)
    max_iterations: Annotated[int, Field(ge=1, le=RUNS_MAX), WHOLE] = 20
    repeats: Annotated[int, Field(ge=1, le=REPEATS_MAX), WHOLE] = 1
    parallel: Annotated[int, Field(ge=1, le=1_000), WHOLE] = 1
    patience: Annotated[int, Field(ge=1, le=RUNS_MAX), WHOLE] | None = None
    target: Number | None = None
    baseline: bool | Baseline = True
    baseline_every: Annotated[int, Field(ge=1, le=RUNS_MAX), WHOLE] | None = None
    confirm: ConfirmBody | None = None
    prune: PruneTrialsBody | None = None
    max_seconds: Annotated[float, Field(ge=1, le=30 * 24 * 3600, allow_inf_nan=False)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    points: Annotated[int, Field(ge=2, le=100), WHOLE] = 5
    seed: Annotated[int, Field(ge=0, lt=2**31), WHOLE] = 0


Scenarios = Text | Annotated[list[Text], Field(min_length=1, max_length=SCENARIOS_MAX)]


class LimitsBody(Body):
    """The longest times of a request that counts as good."""

    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    e2e_s: Seconds | None = None


class BenchmarkBody(Body):
    """The traffic of each trial: every scenario with every number of requests at once, and every rate.

    Scenarios are a list, or one text such as `D(100,20), N(200,50)/(40,10)`. `client` is who measures them:
    podfleet itself, or the program genai-bench of the pod, which has no rates. `memory_gib` and `cores` bound
    the engine. `token_secret`, `proxy_secret` and `certificates_secret` are names of secrets by which it
    fetches the model.
    """

    traffic_scenarios: Scenarios = Field(default_factory=lambda: ["D(100,20)"])
    num_concurrency: Annotated[list[Concurrency], Field(max_length=LOADS_MAX)] = Field(
        default_factory=lambda: [1, 4]
    )
    rates: Annotated[list[Rate], Field(max_length=LOADS_MAX)] = Field(default_factory=list)
    requests: Requests = 32
    warmup: Annotated[int, Field(ge=0, le=1_000), WHOLE] = 2
    repeats: Annotated[int, Field(ge=1, le=REPEATS_MAX), WHOLE] = 1
    shared_prefix: Annotated[int, Field(ge=0, le=1_000_000), WHOLE] = 0
    limits: LimitsBody = Field(default_factory=LimitsBody)
    ready_s: Seconds = 600.0
    measure_s: Seconds = 300.0
    memory_gib: Annotated[float, Field(ge=MEMORY_GIB_MIN, le=MEMORY_GIB_MAX, allow_inf_nan=False)] | None = (
        None
    )
    cores: Annotated[int, Field(ge=1, le=CORES_MAX), WHOLE] | None = None
    offline: bool = False
    token_secret: Annotated[str, StringConstraints(pattern="^(HF_TOKEN_[A-Za-z0-9_]{1,80})?$")] = ""
    proxy_secret: Annotated[str, StringConstraints(pattern="^(PROXY_[A-Za-z0-9_]{1,80})?$")] = ""
    certificates_secret: Annotated[str, StringConstraints(pattern="^(CERTIFICATES_[A-Za-z0-9_]{1,80})?$")] = (
        ""
    )
    client: Literal["own", "genai-bench"] = "own"


class TaskBody(Body):
    """A task: a model, an engine with the parameters to vary, how they are tried, and the traffic.

    A parameter has one value, a list of values to try, or a range. The options in `placement` are those of
    each trial, the pods that may take it among them.
    """

    name: TaskName
    description: Description = ""
    model: TaskModelBody
    base_runtime: Annotated[str, Field(json_schema_extra={"enum": [*ENGINES]})] = "xllamacpp"
    runtime_image_tag: LongName = ""
    deployment_mode: Literal["process", "docker"] = "process"
    command: Annotated[str, StringConstraints(max_length=2_000), Storable] = ""
    parameters: Annotated[
        dict[
            ParameterName,
            Value | Annotated[list[Value], Field(min_length=1, max_length=VALUES_MAX)] | RangeBody,
        ],
        Field(max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
        FEW,
    ]
    optimization: OptimizationBody = Field(default_factory=OptimizationBody)
    benchmark: BenchmarkBody = Field(default_factory=BenchmarkBody)
    placement: OptionsBody = Field(default_factory=lambda: OptionsBody(max_attempts=2))


class TaskPatch(Body):
    """What is to be changed of a task; the status `CANCELLED` cancels it."""

    description: Description | None = None
    status: Literal["CANCELLED"] | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> TaskPatch:
        if self.description is None and self.status is None:
            raise ValueError("give a `description`, or the `status` CANCELLED")
        return self


class TaskClone(Body):
    """The name of a copy; without it, the name of the task with a number."""

    name: TaskName | None = None


class TaskImport(Body):
    """A task as it was exported: the text of a file, as JSON or YAML."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=65_536)]
    name: TaskName | None = None


def stored(body: TaskBody) -> dict[str, Any]:
    """Return the configuration of a task by the names of its fields, with its defaults."""
    return body.model_dump(exclude_none=True)
