"""The catalogue of models: set, read and removed under a name, and synced from a listing."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from control_plane.runs.models.listing import SLUG, TOKENS_MAX, URL_CHARS_MAX, USD_MAX, fault_of_address
from control_plane.server.api.contract.bodies import FEW, WHOLE, Body, SecretName, ShortText, Storable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import THE_SAME, MayRead, Page
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.kinds.models import CatalogueModel, SyncedModels

PARAMETERS_MAX: Final = 50
CONCURRENCY_MAX: Final = 10_000


def _address(text: str) -> str:
    if fault := fault_of_address(text):
        raise ValueError(fault)
    return text.rstrip("/")


ModelId = Annotated[str, StringConstraints(pattern=f"^{SLUG.pattern}$")]
Address = Annotated[str, StringConstraints(min_length=1, max_length=URL_CHARS_MAX), AfterValidator(_address)]
Tokens = Annotated[int, Field(ge=1, le=TOKENS_MAX), WHOLE]
Usd = Annotated[float, Field(ge=0, le=USD_MAX, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9._-]{0,99}$")]
Weights = Annotated[
    str,
    StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}([/:][A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,2}$"),
]


class EndpointBody(Body):
    """A model behind the API of a provider, called `model` there; `secret` names its key."""

    provider: Literal["openai", "anthropic"] = "openai"
    model: Annotated[ShortText, Storable]
    base_url: Address
    secret: SecretName | None = None


class ServedBody(Body):
    """A model that a pod serves: its engine, its weights by their name on the pod or at the hub."""

    engine: Name
    weights: Weights
    parameters: Annotated[
        dict[
            Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]{0,49}$")],
            Annotated[
                bool
                | int
                | Annotated[float, Field(allow_inf_nan=False)]
                | Annotated[str, StringConstraints(max_length=200)],
                Storable,
            ],
        ],
        Field(max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
        FEW,
    ] = Field(default_factory=dict)


class ModelBody(Body):
    """A model: its `endpoint`, or how it is `served`. Prices are dollars for a million tokens."""

    title: Annotated[str, StringConstraints(max_length=200), Storable] = ""
    endpoint: EndpointBody | None = None
    served: ServedBody | None = None
    input_usd_per_mtok: Usd | None = None
    output_usd_per_mtok: Usd | None = None
    context_tokens: Tokens | None = None
    answer_tokens_max: Tokens | None = None
    concurrency_max: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX), WHOLE] | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> ModelBody:
        if (self.endpoint is None) == (self.served is None):
            raise ValueError("a model has an `endpoint` or is `served`: give one of them")
        return self

    def stored(self) -> dict[str, object]:
        """Return it as its document has it."""
        parts = {"endpoint": self.endpoint, "served": self.served}
        fields = {to_camel(name): value for name, value in self.model_dump(exclude={*parts}).items()}
        for name, part in parts.items():
            values = part.model_dump() if part else None
            fields[name] = values and {to_camel(each): value for each, value in values.items()}
        return fields


class SyncBody(Body):
    """The address of an API, or of its listing of models, that needs no key."""

    url: Address


def router(deps: Deps) -> APIRouter:
    """Return the routes of models."""
    routes = Routes(tags=["models"])
    catalogue = deps.catalogue

    @routes.get("/api/models")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[CatalogueModel]:
        return await catalogue.page(wanted.limit, wanted.after)

    @routes.post("/api/model-syncs")
    async def sync(body: SyncBody, principal: MaySteer) -> SyncedModels:
        return await catalogue.sync(body.url, by=principal.name)

    @routes.get("/api/models/{model_id}")
    async def one(model_id: str, _: MayRead) -> CatalogueModel:
        return await catalogue.find(model_id)

    @routes.put("/api/models/{model_id}", status_code=201, responses=THE_SAME)
    async def put(
        model_id: ModelId, body: ModelBody, principal: MaySteer, response: Response
    ) -> CatalogueModel:
        found = await catalogue.set(model_id, body.stored(), by=principal.name)
        response.status_code = 201 if found.revision == 1 else 200
        response.headers["Location"] = f"/api/models/{model_id}"
        return found

    @routes.delete("/api/models/{model_id}", status_code=204)
    async def remove(model_id: str, _: MaySteer) -> None:
        await catalogue.remove(model_id)

    return routes
