"""Queries on `cordons`, one document a pod's name, and on `quarantines`, one document for the fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from control_plane.model.quarantine.decision import Quarantine
from control_plane.model.quarantine.evidence import Failure, Identity
from control_plane.store.database import Database, Document, answers, moment
from events.queue.journal import ServerTime, expression
from events.queue.rules import FLEET, Rules, cordon_at

CORDONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RuleStore:
    """Reads and writes the rules that keep pods from claiming."""

    db: Database

    async def now(self) -> datetime:
        """Return the moment by the store's clock. Raises `Transient`."""
        return await moment(self.db)

    @answers()
    async def in_force(self) -> Rules:
        """Return every rule in force by the store's clock; of cordons `CORDONS_MAX`."""
        now = await self.now()
        cordons = await self.db.cordons.find().sort("_id", 1).limit(CORDONS_MAX).to_list()
        standing = {each["_id"]: rule for each in cordons if (rule := cordon_at(each, now)) is not None}
        return Rules(standing, await self.db.quarantines.find_one({"_id": FLEET}))

    @answers()
    async def cordon(
        self, pod: str, reason: str, by: str, until: datetime | None, for_s: float | None
    ) -> None:
        """Keep a pod from claiming, until a moment, for some seconds, or until somebody lifts it."""
        ends: Any = until if for_s is None else expression(ServerTime(for_s))
        words = {"reason": {"$literal": reason}, "by": {"$literal": by}}
        fields = {**words, "since": "$$NOW", "until": ends}
        await self.db.cordons.update_one({"_id": pod}, [{"$set": fields}], upsert=True)

    @answers()
    async def uncordon(self, pod: str) -> bool:
        """Lift a cordon; False where there was none."""
        return bool((await self.db.cordons.delete_one({"_id": pod})).deleted_count)

    @answers()
    async def quarantines(self) -> tuple[int, list[Quarantine]]:
        """Return the quarantines, those of pods on trial included, and their revision."""
        stored = await self.db.quarantines.find_one({"_id": FLEET}) or {"revision": 0, "pods": []}
        return stored["revision"], [_quarantine(each) for each in stored["pods"]]

    @answers()
    async def keep(self, revision: int, pods: Sequence[Quarantine]) -> bool:
        """Store the quarantines; False if somebody has changed them since this revision was read."""
        fields = {"pods": [_document(each) for each in pods], "revision": revision + 1}
        if revision == 0:
            try:
                await self.db.quarantines.insert_one({"_id": FLEET, **fields})
            except DuplicateKeyError:
                return False
            return True
        result = await self.db.quarantines.update_one({"_id": FLEET, "revision": revision}, {"$set": fields})
        return bool(result.matched_count)


def _document(each: Quarantine) -> Document:
    return {
        "pod": each.pod.name,
        "keyId": each.pod.key_id,
        "reason": each.reason,
        "evidence": [
            {"code": one.code, "at": one.at, "runId": one.run_id, "attempt": one.attempt}
            for one in each.evidence
        ],
        "since": each.since,
        "tryAt": each.try_at,
        "spellS": each.spell_s,
        "trialAt": each.trial_at,
        "clearedBy": each.cleared_by,
    }


def _quarantine(stored: Mapping[str, Any]) -> Quarantine:
    return Quarantine(
        pod=Identity(stored["pod"], stored["keyId"]),
        reason=stored["reason"],
        evidence=tuple(
            Failure(each["code"], each["at"], each["runId"], each["attempt"]) for each in stored["evidence"]
        ),
        since=stored["since"],
        try_at=stored["tryAt"],
        spell_s=stored["spellS"],
        trial_at=stored["trialAt"],
        cleared_by=stored["clearedBy"],
    )
