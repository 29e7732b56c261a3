"""Queries on the roster of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from control_plane.store.queue.run_counts import COUNT_MAX
from events.queue.roster import SPANS_PER_HOUR, span_of
from events.queue.rules import TO_LEAVE

HOURS_MAX: Final = 24

SPANS_MAX: Final = (HOURS_MAX + 1) * SPANS_PER_HOUR

LIVE_MAX: Final = 2_000
STARTS_MAX: Final = 5_000  # that one look folds; rows of a week, after which they go

_NEWEST: Final[Order] = (("startedAt", -1), ("_id", -1))


def _list(field: str, otherwise: Sequence[Any]) -> Document:
    """Return the expression of a field that is a list, or of what stands for anything else."""
    return {"$cond": [{"$isArray": [field]}, field, list(otherwise)]}


# The kinds of a pod but those that a failing check keeps it from.
_KEEPS: Final[Document] = {
    "$and": [
        {"$not": ["$$check.ok"]},
        {"$in": ["$$kind", _list("$$check.kinds", ["$$kind"])]},
    ]
}
_CHECKS: Final[Document] = {"$map": {"input": _list("$checks", []), "as": "check", "in": _KEEPS}}
_CLAIMED: Final[Document] = {
    "$filter": {
        "input": _list("$kinds", []), "as": "kind", "cond": {"$not": [{"$anyElementTrue": [_CHECKS]}]}
    }
}  # fmt: skip
_CLOCK: Final[Document] = {"$cond": [{"$isNumber": "$clockOffsetS"}, {"$abs": "$clockOffsetS"}, 0]}


@dataclass(frozen=True, slots=True)
class Pods:
    """Reads of pods, and the orders to them."""

    db: Database

    async def page(
        self,
        after: Sequence[Any] | None,
        limit: int,
        reported_since: datetime | None,
        region: str | None = None,
    ) -> Slice:
        """Return a page of pods, the last started first; of a region, and reported since, where asked.

        Those that said goodbye have not reported since any moment.
        """
        residual: Document = {}
        if reported_since is not None:
            residual = {"reportedAt": {"$gte": reported_since}, "state": {"$ne": "stopped"}}
        if region is not None:
            residual["region"] = region
        wanted = Wanted(
            collection="pods", residual=residual, order=_NEWEST, after=after, limit=limit, index="by_start"
        )
        return await read_page(self.db, wanted)

    async def starts(self, region: str | None) -> list[Document]:
        """Return id, state and last report of the last `STARTS_MAX` starts of workers, the last first."""
        fields = dict.fromkeys(("state", "reportedAt"), 1)
        async with answers():
            cursor = self.db.pods.find({} if region is None else {"region": region}, fields)
            return await cursor.sort(list(_NEWEST)).limit(STARTS_MAX).to_list()

    async def of_ids(self, pods: Sequence[str]) -> list[Document]:
        """Return the pods of these ids, in no order."""
        async with answers():
            return await self.db.pods.find({"_id": {"$in": list(pods)}}).limit(len(pods)).to_list()

    async def find(self, pod_id: str) -> Document | None:
        """Return one pod."""
        async with answers():
            return await self.db.pods.find_one({"_id": pod_id})

    async def samples(self, pod_id: str, since: datetime) -> list[Document]:
        """Return the telemetry samples of a pod since then, the earliest first."""
        first = f"{pod_id}/{since:%Y-%m-%dT%H}"
        query = {"_id": {"$gte": first, "$lt": f"{pod_id}/9999"}, "podId": pod_id}
        async with answers():
            cursor = self.db.pod_telemetry.find(query).sort("_id", 1).limit(SPANS_MAX)
            spans = await cursor.to_list()
        return [sample for span in spans for sample in _samples(span, since)]

    async def samples_of(self, pods: Sequence[str], since: datetime) -> dict[str, list[Document]]:
        """Return the telemetry samples of these workers since then, by their ids, the earliest first."""
        hour, first = f"{since:%Y-%m-%dT%H}", f"{span_of(since):%Y-%m-%dT%H:%M}"
        spans: list[Document] = [{"_id": {"$gte": f"{pod}/{first}", "$lt": f"{pod}/9999"}} for pod in pods]
        spans += [{"_id": f"{pod}/{hour}"} for pod in pods]  # earlier releases keep a document an hour
        found: dict[str, list[Document]] = {pod: [] for pod in pods}
        if not spans:
            return found
        async with answers():
            cursor = self.db.pod_telemetry.find({"$or": spans}).sort("_id", 1).limit(len(pods) * SPANS_MAX)
            for span in await cursor.to_list():
                pod = span.get("podId")
                if isinstance(pod, str) and (known := found.get(pod)) is not None:
                    known += _samples(span, since)
        return {pod: sorted(samples, key=lambda each: each["at"]) for pod, samples in found.items()}

    async def look(self, pods: Sequence[str], *, for_s: float, unless_s: float) -> None:
        """Mark live pods, by their names or ids, as looked at for so long from the store's now.

        One that is marked for `unless_s` or longer stays as it is.
        """
        now, epoch = "$$NOW", datetime.fromtimestamp(0, UTC)
        is_due = {"$lt": [{"$ifNull": ["$lookedUntil", epoch]}, {"$add": [now, int(unless_s * 1000)]}]}
        wanted = {"$or": [part for pod in pods for part in _workers(pod)]}
        lives = {"state": {"$ne": "stopped"}, "$expr": is_due}
        until = {"$add": [now, int(for_s * 1000)]}
        async with answers():
            await self.db.pods.update_many({**wanted, **lives}, [{"$set": {"lookedUntil": until}}])

    async def attempts(self, pod_id: str, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of the attempts that a pod has made, those of the newest runs first."""
        wanted = Wanted(collection="attempts", leading={"pod": pod_id}, after=after, limit=limit)
        return await read_page(self.db, wanted)

    async def live(self, since: datetime) -> list[Document]:
        """Return pods that reported since then, the latest first, at most `LIVE_MAX`."""
        fields = (
            "state", "kinds", "region", "capabilities", "labels", "orders", "keyId", "telemetry", "checks",
            "usdPerHour",
        )  # fmt: skip
        async with answers():
            cursor = self.db.pods.find(
                {"reportedAt": {"$gte": since}, "state": {"$ne": "stopped"}}, dict.fromkeys(fields, 1)
            )
            return await cursor.sort("reportedAt", -1).limit(LIVE_MAX).to_list()

    async def live_by_state(self, since: datetime) -> Mapping[str, int]:
        """Return how many pods that reported since then are in each state."""
        pipeline: list[Document] = [
            {"$match": {"reportedAt": {"$gte": since}}},
            {"$limit": COUNT_MAX},
            {"$group": {"_id": "$state", "count": {"$sum": 1}}},
        ]
        return await self._counts(pipeline)

    async def worst_clock_s(self, since: datetime) -> float:
        """Return the greatest distance of a clock from the store's, of pods that reported since then."""
        pipeline: list[Document] = [
            {"$match": {"reportedAt": {"$gte": since}, "state": {"$ne": "stopped"}}},
            {"$limit": COUNT_MAX},
            {"$group": {"_id": None, "worst": {"$max": _CLOCK}}},
        ]
        async with answers():
            cursor = await self.db.pods.aggregate(pipeline)
            return max((float(group["worst"]) for group in await cursor.to_list()), default=0.0)

    async def takers_by_kind(self, since: datetime, barred: Sequence[str]) -> Mapping[str, int]:
        """Return how many pods that reported since then take runs of each kind; those named take none."""
        pipeline: list[Document] = [
            {"$match": {"reportedAt": {"$gte": since}}},
            {"$limit": COUNT_MAX},
            {"$match": {"state": {"$nin": ["stopped", "draining"]}}},
            {"$match": {f"orders.{each}": {"$ne": True} for each in TO_LEAVE}},
            {"$match": {"pod": {"$nin": list(barred)}}},
            {"$set": {"kinds": _CLAIMED}},
            {"$unwind": "$kinds"},
            {"$group": {"_id": "$kinds", "count": {"$sum": 1}}},
        ]
        return await self._counts(pipeline)

    async def _counts(self, pipeline: Sequence[Document]) -> Mapping[str, int]:
        """Return the counts of groups by their names; what is no text names nothing."""
        async with answers():
            cursor = await self.db.pods.aggregate(pipeline)
            groups = await cursor.to_list()
        return {each["_id"]: each["count"] for each in groups if isinstance(each["_id"], str)}

    async def failing(self, since: datetime) -> list[Document]:
        """Return the checks of pods that reported a failing one since then, the latest first."""
        async with answers():
            cursor = self.db.pods.find(
                {"checks.ok": False, "reportedAt": {"$gte": since}, "state": {"$ne": "stopped"}},
                {"checks": 1},
            )
            return await cursor.sort("reportedAt", -1).limit(LIVE_MAX).to_list()

    async def silent(self, before: datetime, since: datetime) -> int:
        """Return how many pods fell silent in this stretch of time without having said goodbye."""
        query = {"reportedAt": {"$gte": since, "$lt": before}, "state": {"$ne": "stopped"}}
        async with answers():
            return await self.db.pods.count_documents(query, limit=COUNT_MAX)

    async def order(self, boot: str, **orders: bool) -> None:
        """Set orders of `TO_LEAVE` for a worker and all slots of its start; they hear it when they report."""
        async with answers():
            wanted = {"$or": _workers(boot)} if "/" in boot else {"_id": boot}
            await self.db.pods.update_many(wanted, _ordering(orders))

    async def order_resets(self, pod_id: str, before: Any, orders: Sequence[Document]) -> bool:
        """Keep the orders to reset services; False if they are others than `before`."""
        async with answers():
            wanted = {"_id": pod_id, "orders.resets": before}
            result = await self.db.pods.update_one(wanted, _ordering({"resets": list(orders)}))
        return bool(result.matched_count)

    async def with_open_resets(self, since: datetime) -> list[Document]:
        """Return the resets of workers that reported since then, and have one that is not recorded."""
        async with answers():
            wanted = {"reportedAt": {"$gte": since}, "orders.resets.isRecorded": False}
            cursor = self.db.pods.find(wanted, {"orders": 1, "resets": 1})
            return await cursor.sort("reportedAt", -1).limit(LIVE_MAX).to_list()

    async def mark_recorded(self, pod_id: str, reset_id: str) -> None:
        """Note that the outcome of a reset stands in the audit log."""
        async with answers():
            wanted = {"_id": pod_id, "orders.resets.id": reset_id}
            await self.db.pods.update_one(wanted, {"$set": {"orders.resets.$.isRecorded": True}})

    async def any_named(self, name: str) -> Document | None:
        """Return the newest of a pod's workers, by the pod's name."""
        async with answers():
            cursor = self.db.pods.find({"$or": _workers(name)}, {"keyId": 1, "reportedAt": 1})
            found = await cursor.sort("reportedAt", -1).limit(1).to_list()
        return found[0] if found else None


def _samples(span: Document, since: datetime) -> list[Document]:
    """Return the samples of a stored span since then; what is none is left out."""
    samples = span.get("samples")
    return [
        each
        for each in (samples if isinstance(samples, list) else ())
        if isinstance(each, dict) and isinstance(each.get("at"), datetime) and each["at"] >= since
    ]


def _ordering(orders: Mapping[str, Any]) -> list[Document]:
    """Return the update that sets orders beside those that there are, whatever is in their place."""
    known = {"$cond": [{"$eq": [{"$type": "$orders"}, "object"]}, "$orders", {}]}
    return [{"$set": {"orders": {"$mergeObjects": [known, {"$literal": {**orders}}]}}}]


def _workers(pod: str) -> list[Document]:
    """Return the conditions of which every worker of a pod meets one, by its name or by the worker's id."""
    return [{"_id": pod}, {"_id": {"$gte": f"{pod}/", "$lt": f"{pod}0"}}]  # the sign behind the slash
