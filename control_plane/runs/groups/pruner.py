"""Ends members of studies early: those that measure worse than the members before them.

Law: a member is pruned by the ordinary cancel, a compare-and-set on the run that also says why. Any number of
replicas may look at once: the first decision stands, and what has ended meanwhile stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from control_plane.concurrency.loops import serve_all
from control_plane.model.groups.plan import plan_of
from control_plane.model.groups.pruning import Curve, Pruning, Stop
from control_plane.model.groups.study import Study
from control_plane.runs.decisions import Decider
from control_plane.store.database import Document
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.pruning import STUDIES_MAX, PruneReads
from events.lifecycle import LIVE, Status
from events.runtime.errors import Conflict, NotFound
from events.text.attempt_id import AttemptId

log = logging.getLogger(__name__)

TICK_S: Final = 3.0
AT_ONCE: Final = 5
CURVES_MAX: Final = 500  # that are kept between two looks: of an attempt only what is new is read


@dataclass(slots=True)
class Pruner:
    """Looks at the metrics of the members of each study that prunes, those behind `after` next."""

    reads: PruneReads
    decider: Decider
    curves: OrderedDict[tuple[AttemptId, str], Curve] = field(default_factory=OrderedDict)
    after: str = ""

    async def run_once(self) -> int:
        """Look at the next studies; return how many members are stopped, or raise the first failure."""
        studies = await self.reads.studies(self.after)
        self.after = studies[-1]["_id"] if len(studies) == STUDIES_MAX else ""
        return sum(await serve_all(studies, self._look, at_once=AT_ONCE))

    async def _look(self, stored: Document) -> int:
        plan = plan_of(stored["plan"])
        if not isinstance(plan, Study) or plan.pruning is None:
            return 0
        rule, first = plan.pruning, stored["first"]
        working = await self._compared(stored, plan)
        others = await self.reads.succeeded(stored["_id"], first, plan.constraints) if working else []
        if len(others) < rule.min_members:
            return 0
        means = [(await self._curve(each, rule)).means for each in others]
        stopped = 0
        for each in working:
            stop = rule.stop((await self._curve(each, rule)).points, means)
            if stop is not None:
                stopped += await self._prune(each, stop, by=f"group:{stored['_id']}")
            await asyncio.sleep(0)  # others go on meanwhile
        return stopped

    async def _compared(self, stored: Document, study: Study) -> list[Document]:
        """Return the attempts that may be stopped.

        None is that runs a trial again, or the baseline: their numbers are wanted, however bad they are.
        """
        working = await self.reads.working(stored["_id"], stored["first"])
        if not working or not (study.reruns.top or study.baseline):
            return working
        trials = await Groups(self.reads.db).trials(stored["_id"], stored["first"], study)
        kept = {each.slot for values, slots in study.tried(trials) for each in study.kept(values, slots)}
        return [each for each in working if each["slot"] not in kept]

    async def _curve(self, run: Document, rule: Pruning) -> Curve:
        """Return what the attempt of a run has measured; read is what was not read before."""
        key = (AttemptId(run["_id"], run["attempt"]), rule.metric)
        curve = self.curves.pop(key, None) or Curve()
        self.curves[key] = curve
        while len(self.curves) > CURVES_MAX:
            self.curves.popitem(last=False)
        if not curve.is_whole:
            last, said = await self.reads.said(*key, after=curve.position)
            curve.is_whole = last == curve.position and not run["logOpen"] and run["status"] not in LIVE
            curve.position = last
            curve.add(said)
        return curve

    async def _prune(self, run: Document, stop: Stop, *, by: str) -> bool:
        try:
            pruned = await self.decider.prune(AttemptId(run["_id"], run["attempt"]), stop, by=by)
        except (Conflict, NotFound):  # it ended by itself
            return False
        if pruned.status is not Status.CANCELING:
            return False
        log.info("group.pruned", extra={"run": run["_id"], "by": by, "why": str(stop)})
        return True
