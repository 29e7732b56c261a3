"""The catalogue of models as the HTTP interface shows it: where each model is, its prices and limits."""

from __future__ import annotations

from events.answers.answer import Amount, Answer, Count, Moment


class ModelEndpoint(Answer, frozen=True, kw_only=True):
    """A model behind the API of `provider`, called `model` there; `secret` names the key, null is none."""

    provider: str
    model: str
    base_url: str
    secret: str | None


class ServedModel(Answer, frozen=True, kw_only=True):
    """A model that a pod serves by itself: an engine of its, weights by their name, and its parameters."""

    engine: str
    weights: str
    parameters: dict[str, bool | int | float | str]


class CatalogueModel(Answer, frozen=True, kw_only=True):
    """A model under a name: it has an `endpoint`, or is `served`; what is not known of it is null.

    Prices are dollars for a million tokens. `synced_from` is the listing that its last sync read.
    """

    id: str
    title: str
    endpoint: ModelEndpoint | None
    served: ServedModel | None
    input_usd_per_mtok: Amount | None
    output_usd_per_mtok: Amount | None
    context_tokens: Count | None
    answer_tokens_max: Count | None
    concurrency_max: Count | None
    synced_from: str | None
    synced_at: Moment | None
    created_by: str
    created_at: Moment
    updated_by: str
    updated_at: Moment
    revision: int


class SyncedModels(Answer, frozen=True, kw_only=True):
    """What a sync did with the models that a listing names.

    `kept` have a name that another endpoint has here, `unreadable` no form that can be read; `left_out` had
    no room.
    """

    url: str
    added: Count
    updated: Count
    kept: Count
    unreadable: Count
    left_out: Count
