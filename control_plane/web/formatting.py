"""Stored values in words for people, pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup, escape

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400
SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
SIZE_STEP: Final = 1024

# A sign beside the colour, so that no status is told by colour alone.
SIGNS: Final = {
    "QUEUED": "○",
    "DELAYED": "◔",
    "SCHEDULED": "◑",
    "RUNNING": "▶",
    "AUTO_VALIDATING": "▶",
    "CANCELING": "◐",
    "AWAITING_HUMAN": "?",
    "COMPLETED": "✓",
    "HUMAN_VALIDATED": "✓",
    "HUMAN_REJECTED": "✗",
    "FAILED": "✗",
    "CANCELED": "–",
}

NEXT_STEPS: Final = {
    "OUT_OF_MEMORY": "Use a smaller model or batch, or ask for a pod with more memory (requires.gpu_gib).",
    "TIMEOUT": "Raise time_limit_s, or lower the number of nodes.",
    "KILLED": "Something outside the run ended it; retry.",
    "POD_LOST": "The pod went away; retry, and look at the pod's own log.",
    "ARTIFACT_UPLOAD_FAILED": "Check that the pod reaches the object storage, then retry.",
    "CUDA_UNSUPPORTED_ARCH": "Install a PyTorch build that knows this GPU on the pod.",
    "ALL_NODES_BUGGY": "Every try diverged; see the nodes' errors, and give the idea another data set.",
    "CONFIG": "The message says what can be run; submit again with that.",
    "QUEUE_TIMEOUT": "Start a pod that serves this class, then retry.",
}


def status(name: str) -> Markup:
    """Return a status as a badge with sign, word and colour."""
    return Markup('<span class="badge s-{0}"><span aria-hidden="true">{1}</span> {0}</span>').format(
        name, SIGNS.get(name, "·")
    )


def moment(text: str | None) -> Markup:
    """Return a moment (RFC 3339 text) as a time element that scripts turn into relative words."""
    if not text:
        return Markup("–")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(text, text[:19].replace("T", " "))


def seconds(value: float | None) -> str:
    """Return a duration given in seconds."""
    if value is None:
        return "–"
    if value < MINUTE_S:
        return f"{value:.1f} s"
    if value < HOUR_S:
        return f"{value // MINUTE_S:.0f} min {value % MINUTE_S:.0f} s"
    if value < DAY_S:
        return f"{value // HOUR_S:.0f} h {value % HOUR_S // MINUTE_S:.0f} min"
    return f"{value // DAY_S:.0f} d {value % DAY_S // HOUR_S:.0f} h"


def between(start: str | None, end: str | None) -> str:
    """Return the time between two moments."""
    if not start or not end:
        return "–"
    return seconds((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def size(value: float | None) -> str:
    """Return a number of bytes in the largest fitting unit."""
    if value is None:
        return "–"
    for unit in SIZES:
        if value < SIZE_STEP or unit == SIZES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= SIZE_STEP
    raise AssertionError("the last unit fits everything")


def number(value: Any) -> str:
    """Return a measured number with four significant digits."""
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def percent(value: float | None) -> str:
    """Return a fraction of one as a percentage."""
    return "–" if value is None else f"{value:.0%}"


def says(event: Mapping[str, Any]) -> str:
    """Return an event's data in one line."""
    data = event["data"]
    match event["type"]:
        case "ai.run.status_changed":
            return f"{data['from'] or 'new'} → {data['to']} ({data['cause']}, by {data['by']})"
        case "ai.run.stage_progress":
            return f"{data['stage']} {percent(data['progress'])} {data.get('activity') or ''}"
        case "ai.run.stage_metric":
            return f"{data['stage']}: {data['name']} = {number(data['value'])}"
        case "ai.node.completed":
            return f"{data['node']}: {data.get('error') or number(data.get('metric'))}"
    for name in ("message", "summary", "plan", "name", "node", "stage", "verdict"):
        if data.get(name):
            return str(data[name])
    return ""


def lines(text: str) -> Markup:
    """Return text with its line breaks."""
    return Markup("<br>").join(escape(line) for line in text.splitlines())


FILTERS: Final = {
    "says": says,
    "status": status,
    "moment": moment,
    "seconds": seconds,
    "size": size,
    "number": number,
    "percent": percent,
    "lines": lines,
}
