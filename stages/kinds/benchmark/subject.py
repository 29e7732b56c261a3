"""The model that a benchmark asks: one of the catalogue, one that this pod serves, or the pod's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from events.catalog import Price
from events.kinds.benchmark import BenchmarkSpec
from events.models.engines import ENGINES, XLLAMACPP, chosen
from events.models.providers import NO_KEY, PROVIDERS
from events.runtime.clock import SystemIds
from events.runtime.errors import PipelineError
from stages.adapters.models.opening import Endpoint, egress_policy_of, open_endpoint, served_endpoint
from stages.context import Context
from stages.engines.environment import engine_environment
from stages.engines.serving import serve
from stages.engines.weights import WEIGHTS, model_of
from stages.models.model import Model
from stages.models.prices import Prices
from stages.models.retrying import TOTAL_MAX_S

UNKNOWN: Final = "UNKNOWN_MODEL"  # the fault of the run, which no other pod mends
PROMPT_TOKENS: Final = 2_048  # of context, beside those of an answer
CONTEXT_TOKENS_MAX: Final = 8_192  # of one request
FREE: Final = Price(input_usd_per_mtok=0.0, output_usd_per_mtok=0.0)


Text = Annotated[str, msgspec.Meta(max_length=2_000)]
Usd = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class AtEndpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a model of the catalogue is asked."""

    provider: Text
    model: Text
    base_url: Text
    secret: Text | None = None


class ServedHere(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a model of the catalogue is served by a pod."""

    engine: Text
    weights: Text
    parameters: Annotated[dict[str, bool | int | float | str], msgspec.Meta(max_length=100)] = {}


class Catalogued(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the catalogue says of a model: it has an endpoint, or is served."""

    endpoint: AtEndpoint | None = None
    served: ServedHere | None = None
    input_usd_per_mtok: Usd | None = None
    output_usd_per_mtok: Usd | None = None

    @property
    def price(self) -> Price | None:
        """Return its price; None where a side of it is not known."""
        if self.input_usd_per_mtok is None or self.output_usd_per_mtok is None:
            return None
        return Price(input_usd_per_mtok=self.input_usd_per_mtok, output_usd_per_mtok=self.output_usd_per_mtok)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model, and what its tokens cost."""

    model: Model
    prices: Prices


@contextmanager
def opened(context: Context, spec: BenchmarkSpec, tokens_max: int) -> Iterator[Subject]:
    """Open the model that a specification names; a served one lives as long as the block.

    Raises `PipelineError`, with the code UNKNOWN_MODEL where there is none of this name.
    """
    tools = context.tools
    found = _catalogued(context)
    if found is not None and found.endpoint is not None:
        with _at_endpoint(context, spec, found.endpoint, found.price) as subject:
            yield subject
    elif found is not None and found.served is not None:
        with _served(context, spec, tokens_max, found.served) as subject:
            yield subject
    elif spec.model in WEIGHTS:
        with _served(
            context, spec, tokens_max, ServedHere(engine=XLLAMACPP.name, weights=spec.model)
        ) as subject:
            yield subject
    elif tools.model is not None and tools.model.name == spec.model:
        yield Subject(tools.model, Prices.load(tools.prices))
    else:
        own = "none" if tools.model is None else repr(tools.model.name)
        raise PipelineError(
            UNKNOWN,
            f"there is no model {spec.model!r}: the catalogue has none of this name, "
            f"{', '.join(WEIGHTS)} can be served here, and this pod's own is {own}",
        )


def _catalogued(context: Context) -> Catalogued | None:
    told = context.told.get("model")
    if told is None:
        return None
    try:
        return msgspec.convert(told, Catalogued)
    except msgspec.ValidationError as error:
        raise PipelineError(UNKNOWN, f"the catalogue's entry of the model cannot be used: {error}") from error


@contextmanager
def _at_endpoint(
    context: Context, spec: BenchmarkSpec, at: AtEndpoint, price: Price | None
) -> Iterator[Subject]:
    provider = next((each for each in PROVIDERS if each.name == at.provider), None)
    if provider is None:
        known = ", ".join(each.name for each in PROVIDERS)
        raise PipelineError(UNKNOWN, f"there is no provider {at.provider!r}; there are {known}")
    variables, secret = context.tools.variables, at.secret

    def key() -> str:
        return NO_KEY if secret is None else variables.get(secret, "")

    if not key():
        raise PipelineError(
            "CONFIG",
            f"{spec.model} needs the secret {at.secret}: submit the run with --secret {at.secret}",
        )
    endpoint = Endpoint(
        provider=provider,
        model=at.model,
        base_url=at.base_url,
        api_key=key,
        egress=egress_policy_of(context.tools.variables),
        address_in="the address in the catalogue",
        key_in=f"the secret {at.secret}",
    )
    model = open_endpoint(
        endpoint, clock=context.clock, ids=SystemIds(), total_max_s=max(TOTAL_MAX_S, spec.item_timeout_s)
    )
    known_prices = Prices.load(context.tools.prices)
    with closing(model):
        yield Subject(model, Prices({**known_prices.rows, at.model: price}) if price else known_prices)


@contextmanager
def _served(context: Context, spec: BenchmarkSpec, tokens_max: int, served: ServedHere) -> Iterator[Subject]:
    """Serve weights on this pod; what the catalogue says of parameters goes before what the run needs."""
    if served.engine not in ENGINES:
        raise PipelineError(UNKNOWN, f"there is no engine {served.engine!r}; there are {', '.join(ENGINES)}")
    each = min(CONTEXT_TOKENS_MAX, tokens_max + PROMPT_TOKENS)
    row = chosen(served.engine, context.tools.variables)
    parameters = {**row.sized(spec.concurrency, each), **served.parameters}
    folder = context.workspace / "engine"
    folder.mkdir()
    ids = SystemIds()
    variables = context.tools.variables
    with serve(
        row,
        model_of(row, served.weights, variables),
        parameters,
        name=spec.model,
        folder=folder,
        clock=context.clock,
        ids=ids,
        gpus=context.tools.gpus,
        environment=engine_environment(variables),
        pod=context.pod,
        say=context.log,
    ) as engine:
        context.log(f"{spec.model} is served by {served.engine}, with {dict(engine.parameters)}")
        model = open_endpoint(
            served_endpoint(engine.name, engine.url),
            clock=context.clock,
            ids=ids,
            request_max_s=spec.item_timeout_s,
            total_max_s=spec.item_timeout_s,
        )
        with closing(model):
            yield Subject(model, Prices({engine.name: FREE}))
