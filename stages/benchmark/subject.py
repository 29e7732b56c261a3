"""The model that a benchmark asks: one of the catalogue, one that this pod serves, or the pod's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from events.catalog import Price
from events.kinds.benchmark import BenchmarkSpec
from events.runtime.clock import SystemIds
from events.runtime.errors import PipelineError
from stages.adapters.models.opening import open_endpoint, served_endpoint
from stages.context import Context
from stages.engines.rows import XLLAMACPP
from stages.engines.serving import serve
from stages.engines.weights import WEIGHTS, located
from stages.models.model import Model
from stages.models.prices import Prices

NO_MODEL: Final = "NO_MODEL"
PROMPT_TOKENS: Final = 2_048  # of context, beside those of an answer
CONTEXT_TOKENS_MAX: Final = 8_192  # of one request
FREE: Final = Price(input_usd_per_mtok=0.0, output_usd_per_mtok=0.0)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model, and what its tokens cost."""

    model: Model
    prices: Prices


@contextmanager
def opened(context: Context, spec: BenchmarkSpec, tokens_max: int) -> Iterator[Subject]:
    """Open the model that a specification names; a served one lives as long as the block.

    Raises `PipelineError`, with the code NO_MODEL where there is none of this name.
    """
    tools = context.tools
    if spec.model in WEIGHTS:
        with _served(context, spec, tokens_max) as subject:
            yield subject
    elif tools.model is not None and tools.model.name == spec.model:
        yield Subject(tools.model, Prices.load(tools.prices))
    else:
        own = "none" if tools.model is None else repr(tools.model.name)
        raise PipelineError(
            NO_MODEL,
            f"there is no model {spec.model!r}: the catalogue has none of this name, "
            f"{', '.join(WEIGHTS)} can be served here, and this pod's own is {own}",
        )


@contextmanager
def _served(context: Context, spec: BenchmarkSpec, tokens_max: int) -> Iterator[Subject]:
    each = min(CONTEXT_TOKENS_MAX, tokens_max + PROMPT_TOKENS)
    parameters = {"n_parallel": spec.concurrency, "n_ctx": spec.concurrency * each}
    folder = context.workspace / "engine"
    folder.mkdir()
    ids = SystemIds()
    with serve(
        XLLAMACPP, located(spec.model), parameters, name=spec.model, folder=folder, clock=context.clock, ids=ids
    ) as served:
        context.log(f"{spec.model} is served by {XLLAMACPP.name}, with {served.parameters}")
        model = open_endpoint(
            served_endpoint(spec.model, served.url),
            clock=context.clock,
            ids=ids,
            request_max_s=spec.item_timeout_s,
            total_max_s=spec.item_timeout_s,
        )
        yield Subject(model, Prices({spec.model: FREE}))
