"""Words a notification for its receiver: the signed JSON, a line of chat, or a mail; pure.

Law: what runs and people wrote is data in each of them: it pings nobody in a chat, and begins no header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

LINE_CHARS_MAX: Final = 300  # of what a person wrote
CONTENT_CHARS_MAX: Final = 1_900  # Discord takes 2,000
# What steers: control characters, and marks that turn the direction of writing.
_STEERING: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+"
)
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Worded:
    """What is posted: its media type, and its bytes."""

    content_type: str
    content: bytes


def worded(form: str, body: str) -> Worded:
    """Return what a webhook of this format is sent for a stored body."""
    if form == "standard":
        return Worded(_JSON, body.encode())
    lines = text_of(body)
    match form:
        case "slack":
            escaped = lines.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return Worded(_JSON, msgspec.json.encode({"text": escaped}))
        case "discord":
            told = {"content": lines[:CONTENT_CHARS_MAX], "allowed_mentions": {"parse": []}}
            return Worded(_JSON, msgspec.json.encode(told))
        case _:
            return Worded("text/plain; charset=utf-8", lines.encode())


def subject_of(body: str) -> str:
    """Return a stored body in one line."""
    told = msgspec.json.decode(body)
    data: Mapping[str, Any] = told["data"]
    named = _line(data.get("title")) or _line(data.get("id"))
    family, _, what = str(told["type"]).partition(".")
    match told["type"]:
        case "run.review_wanted":
            return f"Review wanted: {_line(data.get('kind'))} {named}"
        case "run.failed":
            error = data.get("error") or {}
            return f"Run failed: {_line(data.get('kind'))} {named} ({_line(error.get('code')) or 'no code'})"
        case "pod.quarantined":
            return f"Pod in quarantine: {named} ({_line(data.get('reason'))})"
        case "project.quota_neared" | "project.quota_reached":
            unit = "GPU hours" if data.get("measure") == "gpuHours" else "USD"
            return f"Project {named} has used {_share(data)} of its {unit} of this month"
        case "pod.disk_filling" | "pod.disk_full":
            return f"Pod {named}: {_share(data)} of the disk {_line(data.get('path'))} is in use"
        case "webhook.test":
            return "Test: podfleet can reach this receiver"
        case _:
            return f"{family.capitalize()} {what}: {_line(data.get('kind'))} {named}".replace("  ", " ")


def _share(data: Mapping[str, Any]) -> str:
    used, most = data.get("used"), data.get("limit")
    if not isinstance(used, int | float) or not isinstance(most, int | float) or most <= 0:
        return "all"
    return f"{used / most:.0%}"


def text_of(body: str) -> str:
    """Return a stored body in a few lines for people."""
    told = msgspec.json.decode(body)
    data, lines = told["data"], [subject_of(body)]
    error = data.get("error")
    if isinstance(error, Mapping):
        fault = f" (fault of the {_line(error['fault'])})" if error.get("fault") else ""
        lines.append(f"{_line(error.get('message'))}{fault}")
    if isinstance(summary := data.get("summary"), Mapping) and summary:
        lines.append(", ".join(f"{_line(name)}: {value}" for name, value in [*summary.items()][:8]))
    if data.get("project"):
        lines.append(f"Project {_line(data['project'])}, submitted by {_line(data.get('submittedBy'))}")
    if data.get("url"):
        lines.append(str(data["url"]))
    return "\n".join(each for each in lines if each)


def _line(text: Any) -> str:
    return _STEERING.sub(" ", str(text))[:LINE_CHARS_MAX].strip() if text is not None else ""
