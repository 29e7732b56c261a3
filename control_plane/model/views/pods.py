"""A pod as an answer, pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from control_plane.model.views.document_mapping import from_document
from events.answers.pods import Pod
from events.text.truncation import brief_fields


def pod(document: Mapping[str, Any], silent_since: datetime) -> Pod:
    """Return a pod; one that has not reported since then, nor said goodbye, is gone."""
    found = brief_fields(document)
    is_gone = document["reportedAt"] < silent_since and found["state"] != "stopped"
    return from_document(Pod, found, state="gone" if is_gone else found["state"])
