"""The looks by which a pod finds the classes that wait, bounded however many there are.

A whole look skips along the claim index, from one class to the next: those without a pin, and those pinned to
the pod. Where it met many, the pod looks for a moment only at those that it served among them, so that a
claim does not pay for what others serve.
Law: a run of a class that is new to a busy pod waits for at most `BELIEVED_S` longer; none is passed over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from events.kinds.declaring.queues import collections
from events.lifecycle import Status
from events.queue.claims import CLAIM_ORDER
from events.queue.matching import Seeker, WaitingClass
from events.queue.requirements import PIN

Document = dict[str, Any]

LOOKED_MAX: Final = 500  # classes in one look; the next one goes on behind them
BATCH: Final = 2 * LOOKED_MAX  # all of a look in its first answer
FEW: Final = 16  # so many are looked at whenever a pod claims
BELIEVED_S: Final = 1.0
PODS_MAX: Final = 2_000  # of which one process knows what they served
_WAITS: Final[Document] = {"status": Status.QUEUED.value}


def heads(collection: str, pod: str | None = None, *, after: str = "") -> list[Document]:
    """Return the pipeline that finds the classes behind `after`, and those of a pod's pins.

    The index is skipped along, two of its keys looked at for each class.
    """
    whole = _heads({"$gt": after, "$lt": PIN})
    if pod is None:
        return whole
    return [*whole, {"$unionWith": {"coll": collection, "pipeline": heads_pinned_to(pod)}}]


def heads_pinned_to(pod: str) -> list[Document]:
    """Return the pipeline that finds the classes of a pod's pins alone."""
    return _heads({"$gte": f"{PIN}{pod}/", "$lt": f"{PIN}{pod}0"})  # the sign behind the slash


def heads_of(class_keys: Iterable[str]) -> list[Document]:
    """Return the pipeline that finds these classes, as far as a run waits in them."""
    return _heads({"$in": list(class_keys)})


def _heads(wanted: Document) -> list[Document]:
    return [
        {"$match": {**_WAITS, "classKey": wanted}},
        {"$sort": {"status": 1, "classKey": 1, **dict(CLAIM_ORDER)}},
        {"$group": {"_id": "$classKey", "priority": {"$first": "$priority"}}},
        {"$limit": LOOKED_MAX},
    ]


def classes_of(collection: str, found: Iterable[Document]) -> list[WaitingClass]:
    """Return the waiting classes of a queue, from what a pipeline found."""
    return sorted(
        (WaitingClass(collection, each["_id"], each["priority"]) for each in found),
        key=lambda each: each.class_key,
    )


@dataclass(slots=True)
class Looks:
    """What one process remembers of its looks: where each goes on, and what each pod served."""

    _after: dict[str, str] = field(default_factory=dict)
    _served: OrderedDict[str, tuple[float, Mapping[str, list[str]]]] = field(default_factory=OrderedDict)

    def whole(self, collection: str, pod: str | None) -> list[Document]:
        """Return the pipeline of a whole look at a queue."""
        return heads(collection, pod, after=self._after.get(collection, ""))

    def note(self, collection: str, found: Sequence[WaitingClass]) -> None:
        """Note what a whole look found: one that was cut is gone on with."""
        plain = [each.class_key for each in found if not each.class_key.startswith(PIN)]
        self._after[collection] = plain[-1] if len(plain) >= LOOKED_MAX else ""

    def remember(self, seeker: Seeker, waiting: Sequence[WaitingClass], now_s: float) -> None:
        """Remember what of `waiting`, a whole look at all queues, a pod serves."""
        self._served.pop(seeker.pod, None)
        if len(waiting) <= FEW:
            return
        served: dict[str, list[str]] = {}
        for each in waiting:
            if seeker.serves(each.collection, each.class_key):
                served.setdefault(each.collection, []).append(each.class_key)
        self._served[seeker.pod] = (now_s, served)
        while len(self._served) > PODS_MAX:
            self._served.popitem(last=False)

    def narrow(self, seeker: Seeker, now_s: float) -> list[tuple[str, list[Document]]]:
        """Return the pipelines that look at what the pod served a moment ago; none if that is not known."""
        noted_s, served = self._served.get(seeker.pod, (float("-inf"), {}))
        if now_s - noted_s > BELIEVED_S:
            return []
        return [(name, heads_of(served[name])) for name in collections(seeker.mode) if name in served]
