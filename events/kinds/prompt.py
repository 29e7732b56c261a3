"""Prompts: an engine, or a server of the pod, answers one prompt some times, and is timed as it does; pure.

The headline numbers are the means of the laps. What decides a race of prompts is the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from events.kinds.declaring.spec import TITLE_MAX, Seconds, Spec
from events.kinds.kind import Kind
from events.kinds.results import Column, ResultSet
from events.models.endpoints import NAME
from events.models.engine import Engine
from events.models.engines import ENGINES, engine_named
from events.models.parameter import Given, Value
from events.runtime.errors import PipelineError

DEFAULT_ENGINE: Final = "xllamacpp"
PROMPT_CHARS_MAX: Final = 65_536
TOKENS_MAX: Final = 32_768
REPEATS_MAX: Final = 100
SHOWN_CHARS: Final = 60


class PromptSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prompt, the model that answers it, and how often."""

    model: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=500,
            description="Weights of the pod (`smollm2` come along), or a name that the engine loads.",
        ),
    ]
    prompt: Annotated[
        str, msgspec.Meta(min_length=1, max_length=PROMPT_CHARS_MAX, description="What is asked.")
    ]
    engine: Annotated[
        Annotated[str, msgspec.Meta(max_length=40)] | None,
        msgspec.Meta(description=f"What serves the model: {', '.join(ENGINES)}."),
    ] = DEFAULT_ENGINE
    endpoint: Annotated[
        Annotated[str, msgspec.Meta(pattern=rf"\A{NAME}\Z")] | None,
        msgspec.Meta(description="In the place of an engine: a server of the pod, by its operator's name."),
    ] = None
    parameters: Given = {}
    command: Annotated[
        str,
        msgspec.Meta(
            max_length=2_000, description="Of the engine `command`: what is run, with {model} and {port}."
        ),
    ] = ""
    image: Annotated[
        str,
        msgspec.Meta(
            max_length=500,
            description="A Docker image that has the engine; without it the pod's own program.",
        ),
    ] = ""
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=TOKENS_MAX, description="Most tokens of an answer.")] = (
        256
    )
    temperature: Annotated[
        float, msgspec.Meta(ge=0, le=2, description="0 takes the likeliest token each time.")
    ] = 0.2
    context: Annotated[
        int, msgspec.Meta(ge=256, le=1 << 20, description="Tokens of prompt and answer together.")
    ] = 4_096
    repeats: Annotated[
        int, msgspec.Meta(ge=1, le=REPEATS_MAX, description="Laps: how often it is answered.")
    ] = 1
    seed: Annotated[
        int, msgspec.Meta(ge=0, le=2**31 - 1, description="Of the drawn tokens, in each lap.")
    ] = 0
    ignore_eos: Annotated[
        bool, msgspec.Meta(description="Whether answers go on to their most tokens, where the engine can.")
    ] = False
    offline: Annotated[
        bool, msgspec.Meta(description="Whether the engine may load only what is on the pod.")
    ] = False
    ready_s: Annotated[Seconds, msgspec.Meta(description="Most seconds until the engine is ready.")] = 600.0
    pull_s: Annotated[Seconds, msgspec.Meta(description="Most seconds to pull a missing model.")] = 3_600.0
    answer_s: Annotated[Seconds, msgspec.Meta(description="Most seconds of a lap.")] = 300.0
    start_limit_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds until the first event.")] = (
        300.0
    )


def parameters_of(spec: PromptSpec, engine: Engine) -> dict[str, Value]:
    """Return launch parameters: room for one answer at a time, no prompt that is kept, and those given."""
    at_once = spec.parameters.get(engine.requests_in, 1)
    count = at_once if isinstance(at_once, int) and not isinstance(at_once, bool) else 1
    return {**engine.sized(max(1, count), spec.context), **dict(engine.uncached), **spec.parameters}


def _problems(spec: PromptSpec) -> Iterator[str]:
    if spec.endpoint is not None:
        given = [name for name in ("parameters", "command", "image", "ignore_eos") if getattr(spec, name)]
        if given:
            yield f"`{given[0]}` is of an engine that the run starts, and `endpoint` names a server that runs"
        if spec.engine not in (None, DEFAULT_ENGINE):
            yield "`engine` and `endpoint` are both given; name one"
        return
    if spec.engine is None:
        yield "`engine` and `endpoint` are both empty; name one"
        return
    try:
        engine = engine_named(spec.engine, spec.command)
    except PipelineError as error:
        yield error.message
        return
    yield from engine.problems(parameters_of(spec, engine))
    if spec.ignore_eos and not engine.takes_ignore_eos:
        yield f"`ignore_eos` is nothing that {engine.name} takes; leave it out"


def _check(spec: PromptSpec) -> str | None:
    return next(_problems(spec), None)


def _weights(spec: PromptSpec) -> str:
    return spec.model


def _normal(spec: PromptSpec) -> PromptSpec:
    """Where an endpoint answers, no engine is started."""
    return spec if spec.endpoint is None else msgspec.structs.replace(spec, engine=None)


def _title(spec: PromptSpec) -> str:
    asked = " ".join(spec.prompt.split())
    short = asked if len(asked) <= SHOWN_CHARS else f"{asked[: SHOWN_CHARS - 1]}…"
    by = f"at {spec.endpoint}" if spec.endpoint else f"by {spec.engine}"
    return f"{spec.model} {by}: {short}"[:TITLE_MAX]


def _time(name: str) -> Column:
    return Column(name, unit="s", direction="lower", format=".4g")


def _speed(name: str) -> Column:
    return Column(name, unit="1/s", direction="higher", format=",.4g")


# Of each lap, and as a mean of the run.
MEASURED: Final = (
    _speed("tokens_per_s"),
    _time("ttft_s"),
    _time("total_s"),
    _time("itl_p50_s"),
    _time("itl_max_s"),
    Column("tokens", format=",.4g"),
    Column("prompt_tokens", format=",.4g"),
    Column("cached_tokens", format=",.4g"),  # of the prompt, which were not computed again
    _time("engine_ttft_s"),
    _speed("engine_tokens_per_s"),
    Column("ttft_off_s", unit="s", format="+.4g"),  # the pod's time to the first token less the engine's own
)
LAPS: Final = ResultSet(
    "laps",
    "Laps",
    (
        Column("lap", format="d"),
        *MEASURED,
        Column("tokens_from", type="text"),
        Column("ends", type="text"),  # why the engine ended it
        Column("chars", format=",d"),
        Column("bytes", format=",d"),
        Column("replaced", direction="lower", format=",d"),  # halves of characters that have no bytes
    ),
)
HEADLINE: Final = (
    *MEASURED,
    Column("laps", format="d"),
    Column("start_s", unit="s", direction="lower", format=".1f"),
    Column("pull_s", unit="s", direction="lower", format=".1f"),
)

KIND: Final = Kind(
    name="prompt",
    says="An engine answers a prompt: its text is shown as it comes, and each answer is timed.",
    spec=PromptSpec,
    example={"model": "smollm2", "prompt": "Say hello to everybody.", "max_tokens": 32},
    pipeline="stages.kinds.prompt.pipeline",
    title=_title,
    check=_check,
    weights=_weights,
    normal=_normal,
    prepares=True,
    needs=("aiohttp",),
    uses=frozenset({"gpu"}),
    codes={
        "MODEL_MISSING": "Put the model on the pod, or name one that it has.",
        "ENGINE_UNREACHABLE": "See whether the server runs on the pod, and what it says; then submit again.",
        "ENGINE_FAILED": "See the engine's log among the files: it did not start, or ended in an answer.",
        "ENGINE_OUT_OF_MEMORY": "Lower what needs memory: context, requests at once, batch; or a larger pod.",
        "STREAM_BROKEN": "See what the engine said: its answer came to no end, or was none.",
        "ANSWER_TIMEOUT": "Give the answer more time (answer_s), or fewer tokens (max_tokens).",
    },
    results=(LAPS,),
    headline=HEADLINE,
    labels={"model": "model", "engine": "engine", "endpoint": "endpoint"},
)
