"""Benchmarks: a language model is asked the items of suites, and each answer is scored; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Annotated, Any, Final, Literal

import msgspec

from events.kinds.declaring.fact import Fact
from events.kinds.declaring.spec import TITLE_MAX, Positive, Seconds, Spec
from events.kinds.kind import Kind, QuickStart
from events.kinds.results import KEY_BYTES_MAX, Column, Leaderboard, Outcome, ResultSet

# What ships, in the order in which boards have their columns, and how many items each has.
SUITE_ITEMS: Final[Mapping[str, int]] = {
    "mmlu-pro": 12_032,
    "gpqa": 198,
    "gsm8k": 1_319,
    "aime": 60,
    "ifeval": 541,
    "humaneval": 164,
    "livecodebench": 1_055,
}
SUITES: Final = tuple(SUITE_ITEMS)
# What is asked where no suite is named: those whose data set needs no agreement and is small.
DEFAULT_SUITES: Final = tuple(name for name in SUITES if name not in ("gpqa", "livecodebench"))
OWN_MAX: Final = 16
CONCURRENCY_MAX: Final = 64
EPOCHS_MAX: Final = 32
RETRIES_MAX: Final = 10
TOKENS_MAX: Final = 131_072

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_BYTES_MAX)]
FieldName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
OptionalName = Annotated[str, msgspec.Meta(max_length=200)]
SuiteName = Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9-]{0,30}\Z")]
Scorer = Literal["exact", "choice", "number", "regex", "contains", "model-graded"]
Share = Annotated[float, msgspec.Meta(gt=0, le=100)]


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The names of the fields of a record; an empty one is not there."""

    prompt: FieldName = "prompt"
    answer: FieldName = "answer"
    id: OptionalName = ""
    options: OptionalName = ""
    system: OptionalName = ""
    subject: OptionalName = ""
    difficulty: OptionalName = ""


class OwnSuite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A user's own suite; `file` is one of the operator's folders (PODFLEET_DATASETS), or a folder in one."""

    name: SuiteName
    file: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    scorer: Scorer = "exact"
    fields: Fields = Fields()
    title: Annotated[str, msgspec.Meta(max_length=100)] = ""
    tolerance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    tokens_max: Annotated[int, msgspec.Meta(ge=1, le=TOKENS_MAX)] = 4_096


class BenchmarkSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model, and the suites of questions that it is asked."""

    model: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=200,
            description="A model of the catalogue, `smollm2` (which comes along), or the pod's own.",
        ),
    ]
    suites: Annotated[
        Annotated[str, msgspec.Meta(max_length=500)]
        | Annotated[list[SuiteName], msgspec.Meta(max_length=len(SUITES))],
        msgspec.Meta(
            description=f"Names of suites, with commas between them: {', '.join(SUITES)}. Without any, and"
            f" without `own`: {', '.join(DEFAULT_SUITES)}."
        ),
    ] = ""
    own: Annotated[
        list[OwnSuite],
        msgspec.Meta(
            max_length=OWN_MAX,
            description="Suites of your own: name, file of JSON lines, scorer, and which field is what.",
        ),
    ] = []
    subset_pct: Annotated[
        Share | None, msgspec.Meta(description="Per cent of each suite; all of it without a limit.")
    ] = None
    sample_size: Annotated[Positive | None, msgspec.Meta(description="Most items of each suite.")] = None
    seed: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=2**31 - 1, description="Chooses the items: runs with one seed ask the same ones."
        ),
    ] = 0
    epochs: Annotated[int, msgspec.Meta(ge=1, le=EPOCHS_MAX, description="How often each item is asked.")] = 1
    concurrency: Annotated[
        int, msgspec.Meta(ge=1, le=CONCURRENCY_MAX, description="Items that are asked at once.")
    ] = 4
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    tokens_max: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=TOKENS_MAX)] | None,
        msgspec.Meta(description="Most tokens of an answer; by default as the suite says."),
    ] = None
    item_timeout_s: Annotated[
        Seconds, msgspec.Meta(description="Maximum seconds of an item, with its retries and its score.")
    ] = 1_200.0
    item_retries: Annotated[
        int, msgspec.Meta(ge=0, le=RETRIES_MAX, description="Most retries of an item that may cost money.")
    ] = 5
    max_cost_usd: Annotated[
        Annotated[float, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(description="Budget of model calls and the pod's time, in US dollars."),
    ] = None
    max_tokens: Annotated[Positive | None, msgspec.Meta(description="Budget of model calls, in tokens.")] = (
        None
    )


class ItemsAsked(Fact, frozen=True):
    """These items of a suite are about to be asked: what has no result afterwards may have been billed."""

    suite: SuiteName
    keys: Annotated[list[Key], msgspec.Meta(max_length=CONCURRENCY_MAX)]


def suites_of(spec: BenchmarkSpec) -> tuple[str, ...]:
    """Return the suites that a specification names, in its order, those of the user's own last.

    Where it names none of either, they are `DEFAULT_SUITES`.
    """
    named = spec.suites.split(",") if isinstance(spec.suites, str) else spec.suites
    found = [each.strip() for each in named if each.strip()]
    return (*dict.fromkeys(found), *(each.name for each in spec.own)) or DEFAULT_SUITES


def items_wanted(spec: BenchmarkSpec, suite: str) -> int | None:
    """Return how many items of a suite a run asks, each epoch counted; None of an own suite without a limit.

    A user's own suite may have fewer than `sample_size`.
    """
    count = SUITE_ITEMS.get(suite)
    if count is None:
        count = spec.sample_size
    elif spec.subset_pct is not None:
        count = subset_count(count, spec.subset_pct)
    elif spec.sample_size is not None:
        count = min(count, spec.sample_size)
    return None if count is None else count * spec.epochs


def subset_count(count: int, subset_pct: float) -> int:
    """Return how many of `count` items a share is, rounded up, so that there is one where there are any."""
    return min(count, ceil(round(count * subset_pct / 100.0, 9)))


def _title(spec: BenchmarkSpec) -> str:
    return f"{spec.model}: {', '.join(suites_of(spec))}"[:TITLE_MAX]


def _normal(spec: BenchmarkSpec) -> BenchmarkSpec:
    """Return the specification with the names of its suites as one text, those of the default set too."""
    own = {each.name for each in spec.own}
    return msgspec.structs.replace(spec, suites=",".join(each for each in suites_of(spec) if each not in own))


def _scheduled_as(spec: BenchmarkSpec) -> str:
    """Return the model and its set of suites, in any order: each such pair has one schedule."""
    return f"{spec.model}: {', '.join(sorted(suites_of(spec)))}"


def _problems(spec: BenchmarkSpec) -> Iterator[str]:
    own = [each.name for each in spec.own]
    if unknown := [name for name in suites_of(spec) if name not in (*SUITES, *own)]:
        yield f"there is no suite {unknown[0][:80]!r}; `suites` takes {', '.join(SUITES)}"
    if len(set(own)) < len(own) or set(own) & set(SUITES):
        yield "each suite in `own` needs a name of its own"
    if spec.subset_pct is not None and spec.sample_size is not None:
        yield "`subset_pct` and `sample_size` choose items in two ways; name one of them"


def _check(spec: BenchmarkSpec) -> str | None:
    return next(_problems(spec), None)


def _asked(data: Mapping[str, Any]) -> str:
    return f"{data['suite']}: {', '.join(data['keys'])}"


SECONDS: Final = Column("seconds", unit="s", direction="lower", format=",.1f")
TOKENS: Final = Column("tokens", format=",d")
COST: Final = Column("cost_usd", unit="USD", direction="lower", format=".4g")
SCORE: Final = Column("score", direction="higher", format=".1%")

# Columns are sorted by an index up to the eighth.
ITEMS: Final = ResultSet(
    "items",
    "Items",
    (
        Column("suite", type="text"),
        SCORE,
        Column("outcome", type="text"),
        SECONDS,
        COST,
        TOKENS,
        Column("subject", type="text"),
        Column("difficulty", type="text"),
        Column("item", type="text"),
        Column("epoch", format="d"),
        Column("verdict", type="text"),
        Column("parsed", type="text"),
        Column("expected", type="text"),
        Column("answer", type="text"),
        Column("why", type="text"),
        Column("note", type="text"),
        Column("is_cut_off", type="bool"),
        Column("prompt_tokens", format=",d"),
        Column("completion_tokens", format=",d"),
        Column("lost_requests", direction="lower", format="d"),
        Column("question", type="text"),  # a digest of what was asked
    ),
    outcome=Outcome(
        "outcome",
        ("right", "wrong", "unparsed", "error"),
        right="right",
        none=("error",),
        item=("suite", "item"),
        same="question",
    ),
)
OF_SUITES: Final = ResultSet(
    "suites",
    "Suites",
    (
        SCORE,
        Column("low", format=".1%"),
        Column("high", format=".1%"),
        Column("items", format=",d"),
        Column("failures", direction="lower", format=",d"),
        SECONDS,
        COST,
        TOKENS,
        Column("state", type="text"),
        Column("says", type="text"),
        Column("wanted", format=",d"),
        Column("right", format=",d"),
        Column("wrong", format=",d"),
        Column("unparsed", format=",d"),
        Column("error", format=",d"),
        Column("lost_requests", direction="lower", format=",d"),
    ),
)
FAILURES: Final = Column("failures", direction="lower", format=",d")
HEADLINE: Final = (
    Column("score", direction="higher", format=".1%", share_of="scored"),
    Column("items", format=",d"),
    FAILURES,
    SECONDS,
    TOKENS,
    COST,
    *(
        Column(f"score_{name}", direction="higher", format=".1%", share_of=f"scored_{name}")
        for name in SUITES
    ),
    *(Column(f"scored_{name}", format=",d") for name in SUITES),
    Column("scored", format=",d"),  # where one suite has a score: a mean over several is no share
)

KIND: Final = Kind(
    name="benchmark",
    says="Asks a language model the items of suites, and scores each answer.",
    spec=BenchmarkSpec,
    example={"model": "smollm2", "suites": "humaneval", "sample_size": 10},
    pipeline="stages.kinds.benchmark.pipeline",
    package="control_plane.kinds.benchmark",
    title=_title,
    check=_check,
    needs=("inspect_ai", "openai"),
    uses=frozenset({"sandbox"}),  # a pod whose own key is refused has other models
    facts={"ai.item.asked": ItemsAsked},
    lines={"ai.item.asked": _asked},
    codes={
        "UNKNOWN_MODEL": "Name a model of the catalogue (`podfleet models`), or ask for the pod that has it.",
        "NO_SUITE_READY": "Do what the suites' rows say: a suite without its data or key cannot be asked.",
        "NOTHING_SCORED": "Look at the errors of the items: the model answered none of them.",
    },
    results=(ITEMS, OF_SUITES),
    headline=HEADLINE,
    leaderboard=Leaderboard(
        "Models by suites",
        "spec.model",
        tuple(f"score_{name}" for name in SUITES),
        ("failures", "cost_usd", "seconds", "tokens"),
    ),
    labels={"model": "model"},
    tells=True,
    scheduled_as=_scheduled_as,
    normal=_normal,
    quick=QuickStart(
        words="Run benchmark",
        fields=("model", "sample_size", "suites"),
        models="model",
        scheduled=("model", "suites", "sample_size", "subset_pct", "seed"),
    ),
)
