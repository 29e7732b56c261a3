"""Creates hypotheses: each queues a run of its idea, or first a request for ideas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from control_plane.kinds.ideation.ideas import earlier_ideas, ideas_of
from control_plane.kinds.ideation.store import Hypotheses
from control_plane.runs.options import StartOptions, options_of
from control_plane.runs.submission import Submission, Submitter, check, read
from control_plane.store.database import Document
from control_plane.store.queue.submissions import Submitted
from events.kinds import experiment, ideation, read_spec
from events.lifecycle import Status
from events.runtime.clock import Ids
from events.runtime.errors import NotFound, Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHypothesis(StartOptions):
    """A hypothesis as its author submitted it, with the options of what it queues."""

    title: str
    idea: str | Mapping[str, Any]
    by: str
    enable_ideation: bool = False
    reflections: int = 3
    max_num_generations: int = 5
    additional_context: str = ""
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, float]:
        """The limits of its ideation that are set."""
        limits = {"max_cost_usd": self.max_cost_usd, "max_tokens": self.max_tokens}
        return {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLaunch(StartOptions):
    """Another run of a hypothesis; `idea_index` makes that idea the hypothesis' choice first."""

    hypothesis_id: str
    by: str
    spec: Mapping[str, Any]
    idea_index: int | None = None


@dataclass(frozen=True, slots=True)
class Proposer:
    """Creates hypotheses and their runs. Raises `Rejected`, `NotFound`, `Conflict`."""

    submitter: Submitter
    store: Hypotheses
    ids: Ids

    async def propose(self, wanted: NewHypothesis) -> tuple[str, str]:
        """Store a hypothesis; return its id and that of the run, or ideation request, queued for it."""
        if wanted.enable_ideation and wanted.spec:
            raise Rejected("spec_without_run", "ideation queues no run yet; give the `spec` at its launch")
        if wanted.limits and not wanted.enable_ideation:
            named = ", ".join(f"`{name}`" for name in wanted.limits)
            raise Rejected(
                "limits_without_ideation", f"{named} limits ideation; a run's limits are in `spec`"
            )
        hypothesis_id = self.ids.ulid()
        work = await self._work_for(wanted, hypothesis_id)
        # nothing is stored of what could never run, ideas that ideation shall start from included
        if wanted.enable_ideation:
            read_spec(experiment.KIND.name, {"idea": wanted.idea, **wanted.spec})
        order = read(work)
        await self.submitter.require_permitted(order)
        request_id = self.ids.ulid()
        await self.store.insert(hypothesis_document(wanted, hypothesis_id, request_id))
        if not wanted.enable_ideation:
            return hypothesis_id, (await self.submitter.submit_order(order)).run_id
        await self.submitter.enqueue(request_id, order)
        return hypothesis_id, request_id

    async def measures(self, wanted: NewHypothesis) -> str:
        """Return what the run of a hypothesis will measure; empty where it looks for ideas first.

        Raises `Rejected` where its run could not have its secrets.
        """
        order = read(await self._work_for(wanted, ""))
        await self.submitter.require_permitted(order)
        return "" if wanted.enable_ideation else order.measures

    async def launch(self, wanted: WantedLaunch) -> Submitted:
        """Queue another run of a hypothesis."""
        hypothesis, run = await self._run_of(wanted)
        order = check(run)  # before the choice: what is refused changes nothing
        await self.submitter.require_permitted(order)
        if wanted.idea_index is not None and ideas_of(hypothesis).found:
            await self.store.choose(wanted.hypothesis_id, wanted.idea_index)
        return await self.submitter.submit_order(order)

    async def launch_measures(self, wanted: WantedLaunch) -> str:
        """Return what another run of a hypothesis will measure. Raises as `measures`."""
        _, run = await self._run_of(wanted)
        order = read(run)
        await self.submitter.require_permitted(order)
        return order.measures

    async def _run_of(self, wanted: WantedLaunch) -> tuple[Document, Submission]:
        """Return a hypothesis, and its run with its chosen idea or that of `idea_index`."""
        hypothesis = await self.store.find(wanted.hypothesis_id)
        if hypothesis is None:
            raise NotFound("unknown_hypothesis", f"there is no hypothesis {wanted.hypothesis_id}")
        if wanted.idea_index is not None and "idea" in wanted.spec:
            raise Rejected("two_ideas", "give `idea_index` or an `idea` in the spec, not both")
        spec = {"idea": ideas_of(hypothesis).take(wanted.idea_index), **wanted.spec}
        return hypothesis, _work(experiment.KIND.name, spec, wanted, wanted.by, wanted.hypothesis_id)

    async def _work_for(self, wanted: NewHypothesis, hypothesis_id: str) -> Submission:
        if not wanted.enable_ideation:
            spec: dict[str, Any] = {"idea": wanted.idea, **wanted.spec}
            return _work(experiment.KIND.name, spec, wanted, wanted.by, hypothesis_id)
        spec = {
            "title": wanted.title,
            "idea": _text(wanted.idea),
            "additional_context": wanted.additional_context,
            "reflections": wanted.reflections,
            "max_num_generations": wanted.max_num_generations,
            **wanted.limits,
        }
        if earlier := earlier_ideas(await self.store.earlier(ideation.EARLIER_MAX)):
            spec["earlier"] = earlier
        return _work(ideation.KIND.name, spec, wanted, wanted.by, hypothesis_id)


def _work(
    kind: str, spec: Mapping[str, Any], options: StartOptions, by: str, hypothesis_id: str
) -> Submission:
    return Submission(
        kind=kind, spec=spec, by=by, hypothesis_id=hypothesis_id, named_by=by, **options_of(options)
    )


def hypothesis_document(wanted: NewHypothesis, hypothesis_id: str, request_id: str) -> Document:
    """Return the document of a new hypothesis; the store adds the time of its creation."""
    idea_json = None if isinstance(wanted.idea, str) else dict(wanted.idea)
    ideation = {
        "requestId": request_id,
        "status": Status.QUEUED.value,
        "reflections": wanted.reflections,
        "maxNumGenerations": wanted.max_num_generations,
    }
    return {
        "_id": hypothesis_id,
        "title": wanted.title,
        "idea": _text(wanted.idea),
        "ideaJson": idea_json,
        "ideation": ideation if wanted.enable_ideation else None,
        "additionalContext": wanted.additional_context,
        "createdBy": wanted.by,
    }


def _text(idea: str | Mapping[str, Any]) -> str:
    return idea if isinstance(idea, str) else str(idea.get("Short Hypothesis", ""))
