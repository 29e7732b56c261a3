"""Hypotheses as people and programs see them, with their ideas, runs and costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from control_plane.kinds.ideation.ideas import ideas_of
from control_plane.kinds.ideation.store import Hypotheses
from control_plane.model.presentation import plain
from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.runs import usage
from control_plane.reads import paging
from control_plane.reads.reading import Reading, RunFilters, listing, required
from control_plane.store.reads import USAGE_EVENTS_MAX
from events.answers.answer import Listing
from events.answers.kinds.hypotheses import Hypothesis, HypothesisRow


@dataclass(frozen=True, slots=True)
class HypothesisReads:
    """Bounded reads of hypotheses."""

    reading: Reading
    store: Hypotheses

    async def page(
        self, limit: int = paging.LIMIT_DEFAULT, after: str | None = None
    ) -> Listing[HypothesisRow]:
        """Return a page of hypotheses, newest first."""
        key = None if after is None else paging.decode("hypotheses", after, str)
        found = await self.store.page(key, paging.limited(limit))
        return listing("hypotheses", found, partial(from_document, HypothesisRow))

    async def one(self, hypothesis_id: str) -> Hypothesis:
        """Return a hypothesis with its newest runs. Raises `NotFound`."""
        document = required(await self.store.find(hypothesis_id), "hypothesis", hypothesis_id)
        ideas = ideas_of(document)
        runs = await self.reading.runs(RunFilters(hypothesis=hypothesis_id), paging.LIMIT_MAX)
        spenders = [run.id for run in runs.items]
        if document["ideation"] is not None:
            spenders.append(document["ideation"]["requestId"])
        return from_document(
            Hypothesis,
            document,
            usage=usage(await self.reading.run_reads.usage(spenders), USAGE_EVENTS_MAX),
            idea_index=ideas.index,
            idea_json=plain(document["ideaJson"] if ideas.index is None else ideas.chosen),
            runs=runs.items,
            more_runs=runs.next,
        )
