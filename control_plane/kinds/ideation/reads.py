"""Hypotheses as people and programs see them, with their ideas, runs and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from control_plane.kinds.ideation.ideas import ideas_of
from control_plane.kinds.ideation.store import Hypotheses
from control_plane.model.presentation import shown, usage
from control_plane.reads import paging
from control_plane.reads.reading import Reading, RunFilters, page_of, required
from control_plane.store.reads import USAGE_EVENTS_MAX

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HypothesisReads:
    """Bounded reads of hypotheses."""

    reading: Reading
    store: Hypotheses

    async def page(self, limit: int = paging.LIMIT_DEFAULT, after: str | None = None) -> Json:
        """Return a page of hypotheses, newest first."""
        key = None if after is None else paging.decode("hypotheses", after, str)
        return page_of("hypotheses", await self.store.page(key, paging.limited(limit)), shown)

    async def one(self, hypothesis_id: str) -> Json:
        """Return a hypothesis with its newest runs. Raises `NotFound`."""
        document = await self.store.find(hypothesis_id)
        hypothesis = shown(required(document, "hypothesis", hypothesis_id))
        ideas = ideas_of(hypothesis)
        runs = await self.reading.runs(RunFilters(hypothesis=hypothesis_id), paging.LIMIT_MAX)
        spenders = [run["id"] for run in runs["items"]]
        if hypothesis["ideation"] is not None:
            spenders.append(hypothesis["ideation"]["requestId"])
        return {
            **hypothesis,
            "usage": usage(await self.reading.run_reads.usage(spenders), USAGE_EVENTS_MAX),
            "ideaIndex": ideas.index,
            "ideaJson": hypothesis["ideaJson"] if ideas.index is None else ideas.chosen,
            "runs": runs["items"],
            "moreRuns": runs["next"],
        }
