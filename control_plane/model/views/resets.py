"""The resets of a pod's services: the orders, and what the pod says became of them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from control_plane.model.views.document_mapping import from_document
from events.answers.pods import Reset


def resets_of(document: Mapping[str, Any], now: datetime) -> list[Reset]:
    """Return the resets that a worker was ordered, the last first, by what it says of each."""
    said = {each.get("id"): each for each in document.get("resets") or () if isinstance(each, Mapping)}
    orders = (document.get("orders") or {}).get("resets") or ()
    return [_reset(order, said.get(order["id"]), now) for order in reversed(orders)]


def _reset(order: Mapping[str, Any], said: Mapping[str, Any] | None, now: datetime) -> Reset:
    fields = {name: order[name] for name in ("id", "service", "force", "by", "at")}
    if said is None:
        state: Literal["ordered", "unanswered"] = "ordered" if order["until"] > now else "unanswered"
        return from_document(
            Reset, {**fields, "code": None, "message": "", "endedAt": None}, id=order["id"], state=state
        )
    told = {"code": said.get("code"), "message": said.get("message") or "", "endedAt": said.get("at")}
    return from_document(
        Reset, {**fields, **told}, id=order["id"], state="done" if said.get("ok") is True else "failed"
    )
