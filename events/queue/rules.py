"""What keeps a pod from claiming: its cordon, by people, and its quarantine, by evidence; pure.

Law: both belong to the pod's name and outlive every restart. A quarantine also names the key with which the
pod reports: what is done under a name with another key is not that pod's doing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

Document = dict[str, Any]

FLEET: Final = "fleet"  # the id of the one document that holds every quarantine
TO_LEAVE: Final = ("drain", "restart")  # orders to a worker: to leave for good, or to be started again


def pod_name(pod_id: str) -> str:
    """Return the name of the pod whose worker this is: the part before the mark of its start."""
    return pod_id.partition("/")[0]


def cordon_at(stored: Mapping[str, Any] | None, now: datetime) -> Document | None:
    """Return a stored cordon that has not ended; `now` is a moment of the store's clock."""
    if stored is None or (stored["until"] is not None and stored["until"] <= now):
        return None
    return {name: stored[name] for name in ("reason", "by", "since", "until")}


def naming(pod: str) -> Document:
    """Return the filter of the document of quarantines, if it names this pod."""
    return {"_id": FLEET, "pods.pod": pod}


def quarantine_of(stored: Mapping[str, Any] | None, pod: str, key_id: str | None) -> Document | None:
    """Return the quarantine that a pod is in; one on trial claims."""
    for each in (stored or {}).get("pods", ()):
        if (each["pod"], each["keyId"], each["trialAt"]) == (pod, key_id, None):
            return {name: each[name] for name in ("reason", "since", "tryAt", "evidence")}
    return None


def wanted(line: Mapping[str, Any], order: str) -> bool:
    """Say whether a worker's line in the roster has one of the orders `TO_LEAVE`."""
    orders = line.get("orders")
    return isinstance(orders, Mapping) and bool(orders.get(order))


@dataclass(frozen=True, slots=True)
class Rules:
    """The cordons in force, by the names of pods, and the stored quarantines."""

    cordons: Mapping[str, Document] = field(default_factory=dict)
    quarantines: Document | None = None

    def orders(self, pod_id: str, key_id: str | None, line: Mapping[str, Any] | None = None) -> Document:
        """Return the orders for a worker that reports with this key; `line` is its own in the roster."""
        name = pod_name(pod_id)
        quarantine = quarantine_of(self.quarantines, name, key_id)
        own = {each: wanted(line or {}, each) for each in TO_LEAVE}
        return {**own, "cordon": self.cordons.get(name), "quarantine": quarantine}

    def bar(self, pod_id: str, key_id: str | None) -> bool:
        """Say whether a worker claims nothing by them."""
        orders = self.orders(pod_id, key_id)
        return orders["cordon"] is not None or orders["quarantine"] is not None

    def held_back(self) -> dict[str, list[str]]:
        """Return the names of the pods that claim nothing, by what keeps them from it."""
        pods = (self.quarantines or {}).get("pods", ())
        quarantined = {each["pod"] for each in pods if each["trialAt"] is None}
        return {"cordon": sorted(self.cordons), "quarantine": sorted(quarantined)}
