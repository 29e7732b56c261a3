"""The request bodies of groups."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, StringConstraints

from control_plane.model.groups.constraints import CONSTRAINT, CONSTRAINTS_MAX
from control_plane.model.groups.matrix import NODES_MAX, SLOTS_MAX
from control_plane.model.groups.pruning import METRIC, PEERS_MAX
from control_plane.model.groups.races.race import LANES_MAX, LANES_MIN
from control_plane.model.groups.study import RUNS_MAX
from control_plane.runs.groups.service import NOTE_CHARS_MAX
from control_plane.server.api.contract.bodies import FEW, GROUP_ID, WHOLE, After, Body, RunBody, Storable
from events.kinds.declaring.spec import FIELD_NAME
from events.kinds.results import COLUMN_NAME, WHOLE_MAX
from events.queue.requirements import POD_NAME

PARAMETERS_MAX: Final = 20
CHOICES_MAX: Final = 1_000  # of a parameter of a study
SECONDS_MAX: Final = 365 * 24 * 3600.0
GOAL: Final = f"(min|max):({COLUMN_NAME})"

GroupId = Annotated[str, StringConstraints(pattern=GROUP_ID)]
ParameterName = Annotated[str, StringConstraints(pattern=f"^{FIELD_NAME}$")]
ParameterValues = Annotated[list[Any], Field(min_length=1, max_length=SLOTS_MAX), Storable]
Row = Annotated[
    dict[ParameterName, Any],
    Field(min_length=1, max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
    FEW,
    Storable,
]
Limit = Annotated[int, Field(ge=1, le=SLOTS_MAX), WHOLE]


class MatrixPlan(Body):
    """A run for each combination of `values`, or for each of `rows`; names lead by dots into mappings.

    At most `parallel` wait for a pod or have one at once. Nothing more is submitted after
    `stop_after_failures` members failed. Or so many `nodes` of one job: all start together, or none. They
    wait for each other for `ready_s`, then they give their pods back, and try again later.
    """

    kind: Literal["matrix"]
    values: (
        Annotated[
            dict[ParameterName, ParameterValues],
            Field(min_length=1, max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
            FEW,
        ]
        | None
    ) = None
    rows: Annotated[list[Row], Field(min_length=1, max_length=SLOTS_MAX)] | None = None
    parallel: Limit = 10
    stop_after_failures: Limit | None = None
    nodes: Annotated[int, Field(ge=2, le=NODES_MAX), WHOLE] | None = None
    ready_s: Annotated[float, Field(ge=1, le=24 * 3600, allow_inf_nan=False)] | None = None


Number = Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)]


class ChoiceBody(Body):
    """A parameter that takes one of `values`."""

    type: Literal["values"]
    values: Annotated[list[Any], Field(min_length=1, max_length=CHOICES_MAX), Storable]


class RangeBody(Body):
    """A parameter that takes numbers from `low` to `high`: whole ones, evenly, or by their logarithm."""

    type: Literal["int", "uniform", "log"]
    low: Number
    high: Number


class PruneBody(Body):
    """When a member is ended before its time: by the median stopping rule, with any percentile.

    `by` is `min:NAME` or `max:NAME` of a metric that members log. A member is canceled at a step,
    `after_step` at the earliest, where its best value so far is worse than the means up to that step of the
    best `keep_percent` of the members that have succeeded; of these there are `min_members` at least.
    """

    by: Annotated[str, StringConstraints(pattern=METRIC)]
    keep_percent: Annotated[float, Field(ge=1, le=99, allow_inf_nan=False)] = 50.0
    after_step: Annotated[int, Field(ge=0, le=WHOLE_MAX), WHOLE] = 0
    min_members: Annotated[int, Field(ge=1, le=PEERS_MAX), WHOLE] = 5


class ConfirmBody(Body):
    """How the best are confirmed when the search is over: the `top` best trials, and the baseline.

    They run `repeats` more times each, in turn. Then the best is the one with the best end of the 95 % t
    interval of its mean that is the worse one for the goal.
    """

    top: Annotated[int, Field(ge=1, le=20), WHOLE] = 3
    repeats: Annotated[int, Field(ge=1, le=50), WHOLE] = 3


GoalText = Annotated[str, StringConstraints(pattern=f"^{GOAL}$")]


class StudyPlan(Body):
    """Runs whose values are proposed from what was measured: by `grid`, at `random`, or by `tpe`.

    `goal` is `min:NAME` or `max:NAME` of a headline number, or two of these: then the best are the Pareto
    front. The study ends after `max_runs`, when `target` is reached, when `patience` trials were no better,
    `max_seconds` after its round began, or when the `cost_usd` of its members is `max_cost_usd`. A trial runs
    `repeats` times and counts by its mean. `baseline` is tried first, and again after every `baseline_every`
    trials. The runs of `confirm` are among `max_runs`. `points` is how many values of a range a grid tries.
    `constraints` are texts such as `seconds <= 3` about headline numbers: a member that breaks one is never
    the best. `prune` ends members early. What the kind of the runs refuses is not tried.
    """

    kind: Literal["study"]
    sampler: Literal["grid", "random", "tpe"]
    goal: GoalText | Annotated[list[GoalText], Field(min_length=2, max_length=2)]
    space: Annotated[
        dict[ParameterName, Annotated[ChoiceBody | RangeBody, Field(discriminator="type")]],
        Field(min_length=1, max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
        FEW,
    ]
    max_runs: Annotated[int, Field(ge=1, le=RUNS_MAX), WHOLE]
    parallel: Limit = 4
    repeats: Annotated[int, Field(ge=1, le=20), WHOLE] = 1
    target: Number | None = None
    patience: Annotated[int, Field(ge=1, le=RUNS_MAX), WHOLE] | None = None
    baseline: Row | None = None
    baseline_every: Annotated[int, Field(ge=1, le=RUNS_MAX), WHOLE] | None = None
    confirm: ConfirmBody | None = None
    max_seconds: Annotated[float, Field(ge=1, le=SECONDS_MAX, allow_inf_nan=False)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    points: Annotated[int, Field(ge=2, le=100), WHOLE] = 5
    seed: Annotated[int, Field(ge=0, lt=2**31), WHOLE] = 0
    stop_after_failures: Limit | None = None
    constraints: (
        Annotated[
            list[Annotated[str, StringConstraints(pattern=CONSTRAINT, max_length=200)]],
            Field(min_length=1, max_length=CONSTRAINTS_MAX),
        ]
        | None
    ) = None
    prune: PruneBody | None = None


class LaneBody(Body):
    """A lane: the pod that runs it, and parameters of its own."""

    pod: Annotated[str, StringConstraints(pattern=f"^{POD_NAME}$"), Storable]
    parameters: Row | None = None


class RacePlan(Body):
    """A run for each of `lanes`, on its pod, all started at one moment.

    It is decided when every lane is ready, at the latest `ready_s` after they were submitted; what is not
    ready then starts late. Lanes that run `limit_s` after the moment are canceled. `measure` is `min:NAME` or
    `max:NAME` of the headline number that decides it; by default the first of the kind that has a direction.
    """

    kind: Literal["race"]
    lanes: Annotated[list[LaneBody], Field(min_length=LANES_MIN, max_length=LANES_MAX)]
    ready_s: Annotated[float, Field(ge=1, le=24 * 3600, allow_inf_nan=False)] = 60.0
    limit_s: Annotated[float, Field(ge=1, le=30 * 24 * 3600, allow_inf_nan=False)] = 24 * 3600.0
    measure: GoalText | None = None


PlanBody = Annotated[MatrixPlan | StudyPlan | RacePlan, Field(discriminator="kind")]


class GroupRun(RunBody):
    """What each slot runs; its runs wait until the runs and groups in `after` have completed."""

    after: After | None = None


class GroupEdit(Body):
    """What is to be changed of a group; the plan as a whole, and the run as a whole."""

    run: GroupRun | None = None
    plan: PlanBody | None = None


class NewGroup(Body):
    """A group with its name: the run that each slot varies, and the plan."""

    id: GroupId
    run: GroupRun
    plan: PlanBody
    paused: bool = False


class GroupPause(Body):
    """Why a group is paused."""

    note: Annotated[str, StringConstraints(max_length=NOTE_CHARS_MAX), Storable] = ""


def posted(body: BaseModel) -> dict[str, Any]:
    """Return a part of a body as it is kept: with its defaults, without what it leaves out."""
    return body.model_dump(exclude_none=True)
