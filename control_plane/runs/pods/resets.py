"""Orders to reset a service of a pod, and the entry of each outcome in the audit log.

Law: an order names a service that the pod has said its operator allows, and carries nothing to execute. One
at a time for a service; an order that nobody has answered in `ORDERED_FOR` is not given any more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from control_plane.model.views.readable import reading_of, those_readable, typed
from control_plane.model.views.resets import resets_of
from control_plane.reads.reading import Reading, required
from control_plane.store.access.audit_log import AuditLog
from control_plane.store.pods import Pods
from control_plane.store.queue.pod_rules import RuleStore
from events.answers.pods import Pod, Reset
from events.runtime.clock import Ids
from events.runtime.errors import Conflict, Rejected, Transient

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
TRIES_MAX: Final = 5
ORDERED_FOR: Final = timedelta(minutes=10)
KEPT_MAX: Final = 20  # orders of a worker
LOOKED_BACK: Final = timedelta(hours=1)
ENTRIES: Final = {"done": 200, "failed": 500, "unanswered": 504}  # as the status of a request


@dataclass(frozen=True, slots=True)
class PodResets:
    """Gives the orders of people, and records what became of them."""

    pods: Pods
    rules: RuleStore
    reading: Reading
    audit_log: AuditLog
    ids: Ids

    async def order(self, pod_id: str, service: str, *, by: str, force: bool = False) -> Pod:
        """Order a worker to reset a service; one that has a run only with `force`.

        Raises `NotFound`, `Rejected` for a service that it does not name, `Conflict` for a worker that has
        left, one that has a run, a service that is being reset, and more orders than can be recorded.
        """
        for _ in range(TRIES_MAX):
            stored = required(await self.pods.find(pod_id), "pod", pod_id)
            pod, now = await self.reading.pod(pod_id), await self.rules.now()
            _require_possible(pod, service, force=force)
            if any(each.service == service and each.state == "ordered" for each in resets_of(stored, now)):
                raise Conflict(
                    "reset_under_way", f"{service} of {pod_id} is being reset; wait for its outcome"
                )
            before = (stored.get("orders") or {}).get("resets")
            with reading_of("pod", pod_id):
                kept = _with_room(pod_id, before or ())
            order = {
                "id": self.ids.ulid(), "service": service, "force": force, "by": by, "at": now,
                "until": now + ORDERED_FOR, "entry": self.ids.ulid(), "isRecorded": False,
            }  # fmt: skip
            if await self.pods.order_resets(pod_id, before, [*kept, order]):
                return await self.reading.pod(pod_id)
        raise Transient("contended", "the orders to this pod are changing concurrently; try again")

    async def run_once(self) -> int:
        """Record the outcomes that pods have told, and the orders that nobody answered; return how many."""
        now = await self.rules.now()
        recorded = 0
        found = await self.pods.with_open_resets(now - LOOKED_BACK)
        for pod_id, reset_id, entry in chain(*those_readable("pod", found, lambda each: _due(each, now))):
            await self.audit_log.add_once(entry)
            await self.pods.mark_recorded(pod_id, reset_id)
            recorded += 1
        return recorded


def _due(stored: Mapping[str, Any], now: datetime) -> list[tuple[str, str, dict[str, Any]]]:
    """Return worker, id and entry of each reset that is over and not recorded."""
    entries = {each["id"]: each for each in stored["orders"]["resets"] if not each["isRecorded"]}
    return [
        (stored["_id"], reset.id, _entry(stored["_id"], reset, entries[reset.id], now))
        for reset in map(typed, resets_of(stored, now))
        if reset.id in entries and reset.state != "ordered"
    ]


def _with_room(pod_id: str, orders: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the orders without the oldest ones in the audit log, so that there is room for another."""
    kept, recorded = list(orders), [each for each in orders if each["isRecorded"]]
    for each in recorded[: max(0, len(orders) + 1 - KEPT_MAX)]:
        kept.remove(each)
    if len(kept) >= KEPT_MAX:
        why = (
            f"the outcomes of {len(kept)} resets of {pod_id} are still being recorded; try again in a minute"
        )
        raise Conflict("too_many_resets", why)
    return kept


def _require_possible(pod: Pod, service: str, *, force: bool) -> None:
    if pod.state in ("stopped", "gone"):
        raise Conflict("pod_left", f"{pod.id} has left; order it of a worker that is there")
    named = pod.capabilities.services or []
    if service not in named:
        has = f"it names {', '.join(named)}" if named else "its operator allows none (PODFLEET_SERVICES)"
        raise Rejected("unknown_service", f"{pod.id} lets nobody reset {service[:40]!r}; {has}")
    if pod.run_id is not None and not force:
        why = "its pipeline may use the service; wait for its end, or order it with force"
        raise Conflict("pod_busy", f"{pod.id} works on run {pod.run_id}: {why}")


def _entry(pod_id: str, reset: Reset, order: dict[str, Any], now: Any) -> dict[str, Any]:
    outcome = reset.state if reset.code is None else f"{reset.state} ({reset.code})"
    return {
        "_id": order["entry"],
        "at": now,
        "by": reset.by,
        "keyId": None,
        "address": None,
        "action": f"reset of {reset.service}: {outcome}",
        "object": f"pod/{pod_id}",
        "made": None,
        "status": ENTRIES[reset.state],
    }
