"""How much each parameter of a study decides: asked of the process of proposals, and kept.

Law: of a group one question is under way at a time. An answer stands until more trials are known, and for
`FRESH_S` at least: whoever looks at a page again and again asks nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from control_plane.concurrency.loops import end
from control_plane.concurrency.singleflight import seen
from control_plane.model.groups.trials import Outcome
from control_plane.reads.studies import StudyView
from control_plane.runs.groups.proposer import Proposer
from events.answers.groups import Group
from events.answers.plans.studies import ParameterImportance, StudyImportance
from events.runtime.clock import Clock

FRESH_S: Final = 30.0
KEPT_MAX: Final = 200  # groups
TRIALS_MIN: Final = 10  # fewer say nothing
PAGE_S: Final = 0.5  # so long a page waits
TOO_FEW: Final = f"it takes {TRIALS_MIN} trials with a number, all constraints held and inside of the space"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: which round of a group, with how many trials, since when."""

    round: int
    trials: int
    since_s: float
    task: asyncio.Task[StudyImportance]


@dataclass(slots=True)
class Importances:
    """The answers that were asked for lately, by group. Raises what the proposer raises."""

    proposer: Proposer
    clock: Clock
    asked: OrderedDict[str, Asked] = field(default_factory=OrderedDict)

    async def of(self, group: Group, view: StudyView) -> StudyImportance:
        """Return the importance of each parameter of a study, the largest first."""
        return await asyncio.shield(self._task(group, view))

    async def soon(self, group: Group, view: StudyView) -> StudyImportance | None:
        """Return the same for a page: None where it takes longer, or cannot be told."""
        task = self._task(group, view)
        await asyncio.wait([task], timeout=PAGE_S)
        return None if not task.done() or task.cancelled() or task.exception() else task.result()

    def _task(self, group: Group, view: StudyView) -> asyncio.Task[StudyImportance]:
        known = [each for each in view.outcomes if each.best is not None]
        kept = self.asked.get(group.id)
        now_s = self.clock.monotonic_s()
        if kept is not None and kept.round == group.round:
            is_fresh = kept.trials == len(known) or now_s < kept.since_s + FRESH_S
            if not kept.task.done() or (is_fresh and not kept.task.cancelled() and not kept.task.exception()):
                return kept.task
        task = asyncio.create_task(self._ask(view, known))
        task.add_done_callback(seen)
        self.asked[group.id] = Asked(group.round, len(known), now_s, task)
        self.asked.move_to_end(group.id)
        while len(self.asked) > KEPT_MAX:
            _, oldest = self.asked.popitem(last=False)
            oldest.task.cancel()
        return task

    async def _ask(self, view: StudyView, known: list[Outcome]) -> StudyImportance:
        if len(known) < TRIALS_MIN:
            return StudyImportance(trials=len(known), parameters=[], reason=TOO_FEW)
        shares = await self.proposer.importance(view.study, known)
        ordered = sorted(shares.items(), key=lambda each: (-each[1], each[0]))
        return StudyImportance(
            trials=len(known),
            parameters=[ParameterImportance(name=name, share=share) for name, share in ordered],
            reason=None if shares else TOO_FEW,
        )

    async def close(self) -> None:
        """End what is under way."""
        for each in self.asked.values():
            await end([each.task])
        self.asked.clear()
