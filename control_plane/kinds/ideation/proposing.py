"""Creates hypotheses: each queues a run of its idea, or first a request for ideas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

import msgspec
from ulid import ULID

from control_plane.kinds.ideation.ideas import earlier_ideas, ideas_of
from control_plane.kinds.ideation.store import Hypotheses
from control_plane.runs.options import StartOptions, options_of
from control_plane.runs.submission import Order, Submission, Submitter, check, read
from control_plane.store.database import Document
from control_plane.store.queue.submissions import Submitted
from events.kinds import experiment, ideation, read_spec
from events.lifecycle import Status
from events.runtime.clock import Ids
from events.runtime.errors import NotFound, Rejected

MOMENT_CHARS: Final = 10  # of a ULID
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHypothesis(StartOptions):
    """A hypothesis as its author submitted it, with the options of what it queues.

    `pressed` names the page whose button was pressed: one page makes one hypothesis of what it says.
    """

    title: str
    idea: str | Mapping[str, Any]
    by: str
    pressed: str = ""
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
    """Another run of a hypothesis; `idea_index` makes that idea the hypothesis' choice first.

    `pressed` names the page whose button was pressed: one page makes one run of what it says.
    """

    hypothesis_id: str
    by: str
    spec: Mapping[str, Any]
    pressed: str = ""
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
        hypothesis_id, request_id = self.ids.ulid(), self.ids.ulid()
        if wanted.pressed:
            hypothesis_id = _named(wanted, "hypothesis", hypothesis_id)
            request_id = _named(wanted, "request", request_id)
        work = await self._work_for(wanted, hypothesis_id)
        # nothing is stored of what could never run, ideas that ideation shall start from included
        if wanted.enable_ideation:
            read_spec(experiment.KIND.name, {"idea": wanted.idea, **wanted.spec})
        order = read(work)
        await self.submitter.require_permitted(order)
        await self.store.insert(hypothesis_document(wanted, hypothesis_id, request_id))
        if not wanted.enable_ideation:
            key = f"propose/{hypothesis_id}" if wanted.pressed else None
            return hypothesis_id, (await self.submitter.submit_order(_once(order, key))).run_id
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
        ideas = ideas_of(hypothesis)
        if wanted.idea_index is not None and ideas.found:
            idea = ideas.found[wanted.idea_index]
            await self.store.choose(wanted.hypothesis_id, wanted.idea_index, idea)
        key = f"launch/{wanted.hypothesis_id}/{wanted.pressed}/{order.digest}" if wanted.pressed else None
        return await self.submitter.submit_order(_once(order, key))

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


def _named(wanted: NewHypothesis, what: str, fresh: str) -> str:
    """Return the id of what a page makes of what it says; the same every time that its button is pressed.

    It begins with the moment of the page, which a browser sends back: in the place of one that is none, or
    lies in the future, it is `fresh`.
    """
    moment = wanted.pressed[:MOMENT_CHARS]
    if not _ULID.fullmatch(wanted.pressed) or moment > fresh[:MOMENT_CHARS]:
        return fresh
    said = msgspec.json.encode([what, asdict(wanted)], order="deterministic")
    return str(ULID.from_bytes(ULID.from_str(wanted.pressed).bytes[:6] + sha256(said).digest()[:10]))


def _once(order: Order, key: str | None) -> Order:
    return order if key is None else replace(order, wanted=replace(order.wanted, idempotency_key=key))


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
        "isOver": False,
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
