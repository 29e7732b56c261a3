"""A pod as an answer, pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.resets import resets_of
from events.answers.pods import Pod
from events.kinds.results import is_measured
from events.queue.abilities import Abilities
from events.queue.rules import TO_LEAVE, Rules, pod_name, wanted
from events.text.truncation import brief_fields

MIB_A_GIB: Final = 1024
GPUS_MAX: Final = 1_024  # of one worker


class _Check(msgspec.Struct):
    name: str
    ok: bool
    message: str = ""
    kinds: list[str] | None = None


class _Reported(msgspec.Struct, rename="camel"):
    """What a worker's line has to be, so that runs can be placed by it."""

    id: str = msgspec.field(name="_id")
    state: str
    kinds: list[str]
    region: str | None = None
    key_id: str | None = None
    labels: dict[str, str] | None = None
    checks: list[_Check] | None = None
    orders: dict[str, Any] | None = None


def require_form(document: Mapping[str, Any]) -> None:
    """Require of a worker's line what placing runs reads of it. Raises `msgspec.ValidationError`."""
    said = {name: document[name] for name in _Reported.__struct_encode_fields__ if name in document}
    msgspec.convert(said, _Reported)


def abilities_of(document: Mapping[str, Any]) -> Abilities:
    """Return the abilities that a pod reported."""
    said = document.get("capabilities")
    gpus = said.get("gpus") if isinstance(said, Mapping) else None
    named = gpus if isinstance(gpus, list) else []
    sizes = [gpu.get("memoryMib") for gpu in named if isinstance(gpu, Mapping)]
    gib = max((size / MIB_A_GIB for size in sizes if is_measured(size)), default=0.0)
    labels, name = document.get("labels") or {}, pod_name(document["_id"])
    region, cards = document.get("region"), cards_of(document)
    return Abilities(frozenset(document["kinds"]), gib, region, labels, name, cards)


def cards_of(document: Mapping[str, Any]) -> int:
    """Return how many GPUs a worker has told that it owns."""
    said = document.get("capabilities")
    gpus = said.get("gpus") if isinstance(said, Mapping) else None
    return min(GPUS_MAX, len(gpus)) if isinstance(gpus, list) else 0


def is_leaving(document: Mapping[str, Any]) -> bool:
    """Say whether a worker claims nothing more, by its own word or by the fleet's order."""
    return document["state"] == "draining" or any(wanted(document, each) for each in TO_LEAVE)


def pod(
    document: Mapping[str, Any], silent_since: datetime, rules: Rules, now: datetime | None = None
) -> Pod:
    """Return a pod with its orders; one that has not reported since then, nor said goodbye, is gone."""
    found = brief_fields(document)
    is_gone = document["reportedAt"] < silent_since and found["state"] != "stopped"
    found["orders"] = rules.orders(document["_id"], document.get("keyId"), document)
    found.pop("resets", None)
    resets = resets_of(document, now or document["reportedAt"])
    return from_document(Pod, found, resets=resets, state="gone" if is_gone else found["state"])
