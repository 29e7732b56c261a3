"""Experiments: an idea tried on a data set by a search over programs, pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from events.kinds.declaring.fact import Fact, Name
from events.kinds.declaring.spec import TITLE_MAX, Positive, Review, Seconds, Spec
from events.kinds.idea import Idea, idea_of
from events.kinds.kind import DocumentSet, Index, Kind, Position, Projected
from events.kinds.space.measuring import measured, names_file
from events.kinds.space.result_sets import HEADLINE, RESULT_SETS
from events.runtime.errors import NotMeasurable

PROGRAM_LIMIT_S: Final = 600.0
SEEDS: Final = 2**31
LOOKS_MAX: Final = 3
LOOKS: Final = {"quick": 1, "standard": 2}
Column = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
# In their order; each leaves a checkpoint of its name, after which a retry can begin.
STAGES: Final = ("Stage_1", "Stage_2", "Stage_3", "Stage_4", "validation", "plots", "paper", "review")
# A checkpoint that goes with those of all stages: what hides the data from programs.
JUDGE: Final = "judge"
DATA_USES: Final = "data_uses"  # the collection: each verdict on rows of a data set
BY_MODEL: Final = (
    "What the pod's language model binds every word of the idea to; nothing, if a word stays unbound."
)


# How a program is run: with its switch off, or on.
Arm = Literal["baseline", "intervention"]
ABLATED: Final = "Stage_4"  # of which no node goes on


def best_of(stage: str, arm: str | None) -> str:
    """Return as what the best node of a stage is the best one."""
    without, with_it = ("best baseline", "best with the intervention")
    if stage == ABLATED:
        without, with_it = ("best ablation, without the intervention", "best ablation, with the intervention")
    return {"baseline": without, "intervention": with_it}.get(arm or "", "best")


class NodeLimits(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """The maximum number of nodes of a stage of the search; the preset gives the default.

    `Stage_3` has none: the intervention is tried as often as the baseline was.
    """

    Stage_1: Positive | None = None
    Stage_2: Positive | None = None
    Stage_4: Annotated[
        Positive | None,
        msgspec.Meta(
            description="The first two run the chosen program again, with and without the intervention: "
            "from 4 on a choice is varied."
        ),
    ] = None


class ExperimentSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One experiment: an idea tried on a data set by a bounded search.

    A program of the search that runs for longer than `program_limit_s` from one seed is ended.
    """

    idea: Annotated[
        str | Idea, msgspec.Meta(description="The idea to test: text, or an object with seven fields.")
    ]
    dataset: Annotated[
        str | None,
        msgspec.Meta(
            description="Name of a shipped data set, or path of a file; by default as named in the idea."
        ),
    ] = None
    group: Annotated[
        Column | None,
        msgspec.Meta(
            description="Column of the file, such as `patient`, whose rows stay on one side of each split."
        ),
    ] = None
    time: Annotated[
        Column | None,
        msgspec.Meta(
            description="Column of the file with dates or numbers: later rows judge than are learnt from."
        ),
    ] = None
    researcher: Annotated[
        Literal["built_in", "model"] | None,
        msgspec.Meta(
            description="Who does it: without a choice the pod's language model where it has one. "
            "Only `model` takes an idea that is not read as a claim here."
        ),
    ] = None
    seed: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=SEEDS - 1, description="Seed of all random choices; by default from the run's id."
        ),
    ] = msgspec.field(default_factory=int)  # 0 is that of older runs, and no default that a form may show
    nodes: NodeLimits = NodeLimits()
    review: Review = "human"
    max_cost_usd: Annotated[
        Annotated[float, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(description="Budget of model calls, in US dollars."),
    ] = None
    max_tokens: Annotated[Positive | None, msgspec.Meta(description="Budget of model calls, in tokens.")] = (
        None
    )
    preset: Annotated[Literal["quick", "standard"], msgspec.Meta(description="Size of the search.")] = (
        "standard"
    )
    looks: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=LOOKS_MAX)] | None,
        msgspec.Meta(
            description="How often the claim may be judged, after 10, 20 and 40 units, until one decides it. "
            "By default 1 for `quick`, 2 for `standard`."
        ),
    ] = None
    program_limit_s: Annotated[
        Seconds, msgspec.Meta(description="Maximum seconds of one program for one seed.")
    ] = PROGRAM_LIMIT_S


def looks_of(spec: ExperimentSpec) -> int:
    """Return how often its claim may be judged."""
    return spec.looks or LOOKS[spec.preset]


class DataWarned(Fact, frozen=True):
    """What may spoil a result on this table: rows that belong together, a leak, a rare class."""

    says: str


class NodeCreated(Fact, frozen=True):
    """A node of the search tree: its plan, its parent, and the arm that it runs as."""

    stage: Name
    node: Name
    plan: str
    parent: str | None = None
    params: dict[str, Any] = {}
    arm: Arm | None = None


class NodeCodeGenerated(Fact, frozen=True):
    """The program of a node was written, as it will be executed."""

    stage: Name
    node: Name
    code: str = ""
    language: str = "python"


class NodeExecuting(Fact, frozen=True):
    """The execution of a node has started."""

    stage: Name
    node: Name


class NodeCompleted(Fact, frozen=True):
    """The execution of a node ended: its validation scores or its error, and the end of its output."""

    stage: Name
    node: Name
    buggy: bool
    seconds: float
    metric: float | None = None
    metric_name: str | None = None
    scores: dict[str, float] = {}
    error: str | None = None
    log_tail: str | None = None


class NodeRestored(Fact, frozen=True):
    """A node of an earlier attempt; its result was restored from the checkpoint."""

    stage: Name
    node: Name
    from_attempt: int
    plan: str
    buggy: bool
    seconds: float
    parent: str | None = None
    params: dict[str, Any] = {}
    code: str = ""
    metric: float | None = None
    metric_name: str | None = None
    scores: dict[str, float] = {}
    error: str | None = None
    log_tail: str | None = None
    arm: Arm | None = None


class NodeSelectedBest(Fact, frozen=True):
    """The node that a stage selected, its arm, and why; mean and standard error of its re-evaluation."""

    stage: Name
    node: Name
    metric: float | None = None
    reason: str | None = None
    mean: float | None = None
    standard_error: float | None = None
    seeds: list[int] = []
    arm: Arm | None = None


class ClaimRegistered(Fact, frozen=True):
    """How the claim will be judged, before its intervention is tried.

    The claim holds for effects above `above` and below `below`, where there is such a bound: `claimed` says
    whether that is superiority, non-inferiority or equivalence. So many `units` are measured, each of the
    kind `unit` and judged by `test_rows` of `rows`; `level` is the error of a side. Four in five such runs
    would show an effect that lies so far from a bound: `seen_at_best` if only the chance in training moves
    the difference, `seen_at_worst` if both programs err on rows of their own. Each claim of a hypothesis has
    an event of its own. It is judged after each number of units in `looks`, at the level of a side in
    `levels`, until one decides; without those once, after `units`.
    """

    metric: str
    direction: str
    unit: str
    units: int
    rows: int
    test_rows: int
    estimator: str
    test: str
    level: float
    stopping: str
    above: float | None = None
    below: float | None = None
    claimed: str = "superior"
    is_default_margin: bool = False
    looks: Annotated[tuple[int, ...], msgspec.Meta(max_length=LOOKS_MAX)] = ()
    levels: Annotated[tuple[float, ...], msgspec.Meta(max_length=LOOKS_MAX)] = ()
    seen_at_best: float | None = None
    seen_at_worst: float | None = None


class ClaimJudged(Fact, frozen=True):
    """Rows of a data set were used for a verdict.

    `data` is the name of a shipped data set or the digest of a user's table, `part` which of its rows judged,
    and `measurement` a digest of all that was measured: told again, it is no further verdict. `earlier`
    verdicts on these rows were known when the attempt began. `p_beside` is what the p-value of the conclusion
    is worth beside those, and `says` is all of it in words.
    """

    data: Name
    name: Name
    part: Literal["test", "reserve"]
    measurement: Name
    conclusion: Literal["supported", "contradicted", "inconclusive"]
    says: Annotated[str, msgspec.Meta(max_length=2_000)]
    rows: Annotated[int, msgspec.Meta(ge=0)] = 0
    earlier: Annotated[int, msgspec.Meta(ge=0)] | None = None
    p_value: float | None = None
    p_beside: float | None = None


class PaperStarted(Fact, frozen=True):
    """The generation of the paper has started."""


class PaperGenerated(Fact, frozen=True):
    """The paper was generated, as the artifact of this name."""

    name: Name
    title: str | None = None
    pages: int | None = None


def _seed(run_id: str) -> int:
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:4], "big") % SEEDS


def _title(spec: ExperimentSpec) -> str:
    idea = idea_of(spec.idea)
    return (idea.title or idea.name or idea.short_hypothesis).strip()[:TITLE_MAX]


def _check(spec: ExperimentSpec) -> str | None:
    idea = idea_of(spec.idea)
    if not idea.short_hypothesis.strip():
        return "`idea` is empty; say what shall be tested"
    if spec.group is not None and spec.time is not None:
        return "`group` and `time` split the rows in two ways; name one of them"
    key = "group" if spec.group is not None else "time" if spec.time is not None else None
    if key is not None and not names_file(idea, spec.dataset):
        return f"`{key}` is a column of your own table; name its file as `dataset`, such as visits.csv#ill"
    target = (spec.dataset or "").partition("#")[2]
    if key is not None and target and target == (spec.group or spec.time):
        return f"`{key}` names what is predicted; name another column"
    return None


def _measures(spec: ExperimentSpec) -> str:
    try:
        split = ""
        if spec.group is not None:
            split = f" Rows of one {spec.group} stay on one side of each split."
        elif spec.time is not None:
            split = f" Rows that judge have a later {spec.time} than those that are learnt from."
        return measured(idea_of(spec.idea), spec.dataset, looks_of(spec)) + split
    except NotMeasurable:
        if spec.researcher != "model":
            raise
        return BY_MODEL


def _judged(fact: ClaimJudged, position: Position) -> Iterable[Projected]:
    """Return the entry of an attempt: its last word on these rows counts."""
    fields = {
        "data": fact.data, "name": fact.name, "part": fact.part, "measurement": fact.measurement,
        "conclusion": fact.conclusion, "says": fact.says, "rows": fact.rows, "earlier": fact.earlier,
        "pValue": fact.p_value, "pBeside": fact.p_beside, "judgedAt": position.at,
    }  # fmt: skip
    return (Projected(DATA_USES, fact.part, fields),)


def _outcome(data: Mapping[str, Any]) -> str:
    metric = data.get("metric")
    measured = "–" if metric is None else f"{metric:.4g}" if isinstance(metric, float) else str(metric)
    return f"{data['node']}: {data.get('error') or measured}"


def _warned(data: Mapping[str, Any]) -> str:
    return str(data["says"])


def _registered(data: Mapping[str, Any]) -> str:
    ends = [f"{word} {data[word]:+g}" for word in ("above", "below") if data.get(word)]
    known = {"best": data.get("seen_at_best"), "worst": data.get("seen_at_worst")}
    seen = " and ".join(f"{effect:.2g} at {name}" for name, effect in known.items() if effect)
    power = [f"4 of 5 such runs show an effect of {seen}"] if seen else []
    units = f"{data['units']} units, {data['test_rows']} of {data['rows']} rows judge each"
    return "; ".join((units, " and ".join((data["metric"], *ends)), *power))


KIND: Final = Kind(
    name="experiment",
    says="Tests an idea on a data set: search over programs, validation on fresh splits, plots, a paper.",
    spec=ExperimentSpec,
    example={"idea": "Does momentum help on digits?", "preset": "quick"},
    pipeline="stages.kinds.experiment.pipeline",
    package="control_plane.kinds.experiment",
    title=_title,
    check=_check,
    measures=_measures,
    stages=STAGES,
    beside=frozenset({JUDGE}),
    needs=("torch", "sklearn", "matplotlib", "typst", "pypandoc"),
    uses=frozenset({"model", "tools", "gpu", "sandbox"}),
    facts={
        "ai.data.warned": DataWarned,
        "ai.node.created": NodeCreated,
        "ai.node.code_generated": NodeCodeGenerated,
        "ai.node.executing": NodeExecuting,
        "ai.node.completed": NodeCompleted,
        "ai.node.restored": NodeRestored,
        "ai.node.selected_best": NodeSelectedBest,
        "ai.claim.registered": ClaimRegistered,
        "ai.claim.judged": ClaimJudged,
        "ai.paper.started": PaperStarted,
        "ai.paper.generated": PaperGenerated,
    },
    documents=(
        DocumentSet(
            DATA_USES,
            "the verdicts on each data set: which rows judged, how many were known before",
            (
                "data",
                "name",
                "part",
                "measurement",
                "conclusion",
                "says",
                "rows",
                "earlier",
                "pValue",
                "pBeside",
                "judgedAt",
            ),
            (
                Index("by_data", (("data", 1), ("_id", -1))),
                Index(
                    "by_rows", (("data", 1), ("part", 1), ("runId", 1), ("attempt", 1), ("measurement", 1))
                ),
            ),
        ),
    ),
    projections={ClaimJudged: _judged},
    lines={
        "ai.data.warned": _warned,
        "ai.node.completed": _outcome,
        "ai.claim.registered": _registered,
        "ai.claim.judged": lambda data: str(data["says"]),
    },
    results=RESULT_SETS,
    headline=HEADLINE,
    tells=True,
    drawn={"seed": _seed},
    codes={
        "NO_MODEL": "Start a pod with a language model, or let the built-in researcher read another wording.",
        "NOT_MEASURABLE": "Say it as one of the nearest claims, or as `podfleet submit --dry-run` reads it.",
        "MACHINE_LOST": "Pods lost its programs (memory, disk); see the log, and start a larger pod.",
        "ALL_NODES_BUGGY": "Every node failed; see the errors of the nodes, and try another data set.",
    },
)
