"""A pod as an answer, pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from control_plane.model.views.document_mapping import from_document
from events.answers.pods import Pod
from events.queue.rules import Rules
from events.text.truncation import brief_fields


def pod(document: Mapping[str, Any], silent_since: datetime, rules: Rules) -> Pod:
    """Return a pod with its orders; one that has not reported since then, nor said goodbye, is gone."""
    found = brief_fields(document)
    is_gone = document["reportedAt"] < silent_since and found["state"] != "stopped"
    drain = bool((document.get("orders") or {}).get("drain"))
    found["orders"] = rules.orders(document["_id"], document.get("keyId"), drain=drain)
    return from_document(Pod, found, state="gone" if is_gone else found["state"])
