"""The checkpoints that a run may continue from: its own, and those of the runs that it repeats.

Law: a run that begins at a stage takes from its parent the checkpoints of the stages before that stage, and
nothing else. A parent that was such a run itself passes on what it took.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.model.checkpoints import Candidate, candidates, finished
from control_plane.store.reads import RunReads
from events.kinds import BESIDE_STAGES, stages_before

LINE_MAX: Final = 20  # runs that are looked at, one behind the other
_BY_ATTEMPT: Final = (("attempt", 1),)


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A run of a lineage, and the names of its checkpoints that may be used."""

    run_id: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Reads the parents of a run, the nearest first."""

    reads: RunReads

    async def offered(self, run_id: str, before: int) -> list[Candidate]:
        """Return the checkpoints that attempt `before` may use; per name, nearest and latest first."""
        found = candidates(await self.reads.checkpoints(run_id, before))
        async for ancestor in self._ancestors(run_id):
            left = candidates(await self.reads.checkpoints(ancestor.run_id, None))
            found += [each for each in left if each.name in ancestor.names]
        return found

    async def first_missing(self, run_id: str, kind: str, stage: str) -> str | None:
        """Return the first stage before `stage` without a checkpoint in the lineage, or None."""
        wanted = stages_before(kind, stage)
        left = candidates(await self.reads.checkpoints(run_id, None))
        kept, hidden = await self._finished(run_id, kind, left), _emptied(left)
        async for ancestor in self._ancestors(run_id):
            left = candidates(await self.reads.checkpoints(ancestor.run_id, None))
            kept |= await self._finished(ancestor.run_id, kind, left) & ancestor.names - hidden
            hidden |= _emptied(left)
        return next((each for each in wanted if each not in kept), None)

    async def _finished(self, run_id: str, kind: str, left: Sequence[Candidate]) -> set[str]:
        documents = (await self.reads.beside("stages", [run_id], _BY_ATTEMPT)).documents
        return finished(kind, documents, left)

    async def _ancestors(self, run_id: str) -> AsyncIterator[Ancestor]:
        names: frozenset[str] | None = None
        for _ in range(LINE_MAX):
            spec, run = await self.reads.spec(run_id), await self.reads.find(run_id)
            stage = None if spec is None else spec.get("fromStage")
            if spec is None or run is None or stage is None:
                return
            before = frozenset(stages_before(spec["kind"], stage)) | BESIDE_STAGES
            names = before if names is None else names & before
            run_id = run["parentRunId"]
            yield Ancestor(run_id, names)


def _emptied(left: Sequence[Candidate]) -> set[str]:
    """Return the names under which a run has set aside what its ancestors left, too."""
    return {each.name for each in left if each.is_emptied}
