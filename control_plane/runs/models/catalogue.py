"""The catalogue: models under names, set by people, and brought up to date from a listing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.readable import reading_of, typed
from control_plane.reads import paging
from control_plane.reads.reading import listing
from control_plane.runs.models.listing import ENDING, Listed, base_of, fault_of_address, planned, read_listing
from control_plane.store.catalogue.models import ModelEntries
from events.answers.answer import Listing
from events.answers.kinds.models import CatalogueModel, SyncedModels
from events.runtime.errors import NotFound, Rejected

MODELS_MAX: Final = 5_000  # of a fleet; a few more where several are set at once
PROVIDER: Final = "openai"  # whose form of a listing is read


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Sets models, finds them again, and reads listings. Raises `Rejected`, `NotFound`, `Transient`."""

    store: ModelEntries
    fetch: Callable[[str], Awaitable[bytes]]

    async def set(self, model_id: str, fields: Mapping[str, Any], *, by: str) -> CatalogueModel:
        """Set a model that was checked, in the place of what had its name."""
        if await self.store.find(model_id) is None and await self.store.count(MODELS_MAX) >= MODELS_MAX:
            raise Rejected("too_many_models", f"{MODELS_MAX} models are set, which is the most; remove one")
        return _shown(await self.store.put(model_id, fields, by))

    async def find(self, model_id: str) -> CatalogueModel:
        """Return a model."""
        found = await self.store.find(model_id)
        if found is None:
            raise _unknown(model_id)
        return _shown(found)

    async def page(self, limit: int, after: str | None) -> Listing[CatalogueModel]:
        """Return a page of models, in the order of their names."""
        key = None if after is None else paging.decode("models", after, str)
        return listing("models", await self.store.page(key, paging.limited(limit)), _shown)

    async def remove(self, model_id: str) -> None:
        """Remove a model; a run that names it fails at its next attempt."""
        if not await self.store.delete(model_id):
            raise _unknown(model_id)

    async def sync(self, url: str, *, by: str) -> SyncedModels:
        """Add and update the models that a listing names; what has another address stays as it is."""
        if fault := fault_of_address(url):
            raise Rejected("bad_address", f"url: {fault}")
        base = base_of(url)
        read = read_listing(await self.fetch(base + ENDING))
        bases = await self.store.bases([each.slug for each in read.models])
        plan = planned(read.models, base, bases, MODELS_MAX - await self.store.count(MODELS_MAX))
        written = await self.store.put_listed(
            {each.slug: _stored(each) for each in plan.writes}, base, base + ENDING, by
        )
        return SyncedModels(
            url=base + ENDING,
            added=written.added,
            updated=written.updated,
            kept=plan.kept + len(plan.writes) - written.added - written.updated,
            unreadable=read.unreadable,
            left_out=plan.left_out,
        )


def _stored(listed: Listed) -> dict[str, Any]:
    """Return what a listing says as its document has it: what it does not say stays as it is."""
    said = {
        "title": listed.title,
        "endpoint": {"provider": PROVIDER, "model": listed.model},
        "inputUsdPerMtok": listed.input_usd_per_mtok,
        "outputUsdPerMtok": listed.output_usd_per_mtok,
        "contextTokens": listed.context_tokens,
        "answerTokensMax": listed.answer_tokens_max,
    }
    return {name: value for name, value in said.items() if value is not None}


def _shown(document: Mapping[str, Any]) -> CatalogueModel:
    with reading_of("model", document.get("_id")):
        found = typed(from_document(CatalogueModel, document))
        if (found.endpoint is None) == (found.served is None):
            raise ValueError("it has to have an endpoint, or be served")
        return found


def _unknown(model_id: str) -> NotFound:
    return NotFound("unknown_model", f"there is no model {model_id[:100]!r}")
