"""What can be run: the kinds, what each one's specification says, and which pods may serve it, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from events.runtime.errors import Rejected

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=30 * 24 * 3600)]
Review = Literal["none", "human"]

TITLE_MAX: Final = 200
EARLIER_MAX: Final = 200  # ideas of the fleet that a new one is held against
START_LIMIT_S: Final = 300.0
TIME_LIMIT_S: Final = 3600.0
NO_PROGRESS_S: Final = 1800.0
PROGRAM_LIMIT_S: Final = 600.0
GPU_TIERS: Final = (
    "cpu",
    "8",
    "16",
    "24",
    "40",
    "80",
)  # GiB of GPU memory, smallest first
ANY_REGION: Final = "any"


class Idea(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A research idea: the seven fields of the AI-Scientist family; plain text fills the hypothesis."""

    short_hypothesis: str = msgspec.field(name="Short Hypothesis")
    name: str = msgspec.field(name="Name", default="")
    title: str = msgspec.field(name="Title", default="")
    related_work: str = msgspec.field(name="Related Work", default="")
    abstract: str = msgspec.field(name="Abstract", default="")
    experiments: str | list[str] = msgspec.field(name="Experiments", default="")
    risks: str | list[str] = msgspec.field(name="Risk Factors and Limitations", default="")


class NodeLimits(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """How many nodes of the search tree each stage may try; None leaves it to the preset."""

    Stage_1: Positive | None = None
    Stage_2: Positive | None = None
    Stage_3: Positive | None = None
    Stage_4: Positive | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What bounds every attempt: until its first word, in all, and without a word."""

    start_limit_s: Seconds = START_LIMIT_S
    time_limit_s: Seconds = TIME_LIMIT_S
    no_progress_s: Seconds = NO_PROGRESS_S


class ExperimentSpec(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One experiment: an idea tried on a data set by a bounded search.

    A program of the search that runs for longer than `program_limit_s` from one seed is ended.
    """

    idea: str | Idea
    dataset: str | None = None
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    nodes: NodeLimits = NodeLimits()
    review: Review = "human"
    max_cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    max_tokens: Positive | None = None
    preset: Literal["quick", "standard"] = "standard"
    program_limit_s: Seconds = PROGRAM_LIMIT_S


class ProbeSpec(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The smoke test of a pod: sleeps, speaks, writes an artifact, and ends in the way it is told."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=24 * 3600)] = 1.0
    events: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 10
    artifact_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] = 1024
    end: Literal[
        "completed", "exception", "retryable", "kill", "segfault", "out_of_memory", "cuda_out_of_memory",
        "hang", "deaf", "exit",
    ] = "completed"  # fmt: skip
    review: Review = "none"


class IdeationSpec(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ideas wanted for a hypothesis; it waits in `ideation_requests`, not among the runs.

    `earlier` is what the fleet had already when the request was made, the newest first.
    """

    title: str
    idea: str
    additional_context: str = ""
    reflections: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
    max_num_generations: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    earlier: Annotated[list[Idea], msgspec.Meta(max_length=EARLIER_MAX)] = []
    max_cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    max_tokens: Positive | None = None


Spec = ExperimentSpec | ProbeSpec | IdeationSpec
IDEATION: Final = "ideation"
KINDS: Final[Mapping[str, type[Spec]]] = {
    "experiment": ExperimentSpec,
    IDEATION: IdeationSpec,
    "probe": ProbeSpec,
}
RUN_KINDS: Final = frozenset(KINDS) - {IDEATION}  # what may be submitted as a run

# The stages of a kind in their order; each leaves a checkpoint of its name, after which a retry can begin.
STAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "experiment": ("Stage_1", "Stage_2", "Stage_3", "Stage_4", "validation", "plots", "paper", "review"),
}


# Checkpoints that belong to no stage and go with those of all: what hides the data from programs.
BESIDE_STAGES: Final = frozenset({"judge"})


def stages_before(kind: str, stage: str) -> tuple[str, ...]:
    """Return the stages of a kind that come before one of them."""
    stages = STAGES[kind]
    return stages[: stages.index(stage)]


class Requirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pod must have: memory of one GPU in GiB (0: none needed), and its region."""

    gpu_gib: Annotated[float, msgspec.Meta(ge=0, le=80)] = 0
    region: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9._-]{1,64}$")] = ANY_REGION


def read_spec(kind: str, raw: Mapping[str, Any]) -> Spec:
    """Return the checked specification of a run of `kind`.

    Raises `Rejected` that names the kinds, or the field that is wrong.
    """
    if kind not in KINDS:
        raise Rejected(
            "unknown_kind",
            f"unknown kind {kind!r}; known kinds: {', '.join(sorted(KINDS))}",
        )
    try:
        spec = msgspec.convert(dict(raw), KINDS[kind])
    except msgspec.ValidationError as error:
        raise Rejected("invalid_spec", f"spec: {error}{_known(error, KINDS[kind])}") from error
    if isinstance(spec, ExperimentSpec) and not idea_of(spec.idea).short_hypothesis.strip():
        raise Rejected("invalid_spec", "spec: `idea` is empty; say what shall be tested")
    return spec


def idea_of(idea: str | Idea) -> Idea:
    """Return `idea` in its seven fields."""
    return idea if isinstance(idea, Idea) else Idea(short_hypothesis=idea)


def read_requirements(raw: Mapping[str, Any]) -> Requirements:
    """Return checked requirements. Raises `Rejected` that names the field that is wrong."""
    try:
        return msgspec.convert(dict(raw), Requirements)
    except msgspec.ValidationError as error:
        raise Rejected("invalid_requirements", f"requires: {error}{_known(error, Requirements)}") from error


def _known(error: msgspec.ValidationError, form: type[msgspec.Struct]) -> str:
    """Return the fields that there are, for whoever named another at the top."""
    if "unknown field" not in str(error) or " - at " in str(error):
        return ""
    return f"; known: {', '.join(form.__struct_fields__)}"


def title_of(kind: str, spec: Spec) -> str:
    """Return the line under which people find the run."""
    if isinstance(spec, ExperimentSpec):
        idea = idea_of(spec.idea)
        return (idea.title or idea.name or idea.short_hypothesis).strip()[:TITLE_MAX]
    return (spec.title.strip()[:TITLE_MAX] if isinstance(spec, IdeationSpec) else "") or kind


def class_key(kind: str, requirements: Requirements) -> str:
    """Return `kind/gpu tier/region`: everything by which a claim may choose among runs."""
    return f"{kind}/{gpu_tier(requirements.gpu_gib)}/{requirements.region}"


def gpu_tier(gpu_gib: float) -> str:
    """Return the smallest tier that holds `gpu_gib` GiB."""
    if gpu_gib <= 0:
        return GPU_TIERS[0]
    return next(tier for tier in GPU_TIERS[1:] if gpu_gib <= float(tier))
