"""A submission as a command line and as a request of curl, to be copied from a page; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from control_plane.runs.change import own_labels
from control_plane.runs.options import Options
from control_plane.server.api.contract.bodies import NewRun
from events.answers.runs import Run


def submission_of(body: NewRun) -> dict[str, Any]:
    """Return what is sent to submit a run; what has its default is left out."""
    return body.model_dump(mode="json", exclude_defaults=True)


def submission_like(run: Run) -> dict[str, Any]:
    """Return what is sent to submit a run like this one; what has its default is left out."""
    usual, asked = Options(), (run.requires or {}).items()
    wanted = {
        "kind": run.kind,
        "spec": run.spec,
        "requires": {name: value for name, value in asked if value not in (None, {})},
        "labels": own_labels(run.kind, run.labels),
        "priority": run.priority,
        "max_attempts": run.max_attempts,
        "queue_limit_s": run.queue_limit_s,
    }
    return {name: value for name, value in wanted.items() if value and value != getattr(usual, name, None)}


def cli_command(sent: Mapping[str, Any]) -> str:
    """Return the command that submits a run."""
    return shlex.join(["podfleet", "submit", "--kind", sent["kind"], *_words(sent)])


def curl_command(sent: Mapping[str, Any]) -> str:
    """Return the request that submits a run; address and key are in the environment, as for the command."""
    data = shlex.quote(json.dumps(sent, ensure_ascii=False))
    return (
        'curl -X POST "$CONTROL_PLANE_URL/api/runs" -H "Authorization: Bearer $PODFLEET_API_KEY" '
        f"-H 'Content-Type: application/json' -d {data}"
    )


def _words(sent: Mapping[str, Any]) -> Iterator[str]:
    for name, value in sent.get("spec", {}).items():
        yield from ("-p", f"{name}={_text(value)}")
    for name, value in sent.get("requires", {}).items():
        if name == "labels":
            for label, asked in value.items():
                yield from ("--requires", f"labels.{label}={asked}")
        else:
            yield from ("--requires", f"{name}={value if name == 'pod' else _text(value)}")
    for name, value in sent.get("labels", {}).items():
        yield from ("--label", f"{name}={value}")
    options = {"priority": "--priority", "max_attempts": "--max-attempts", "queue_limit_s": "--queue-limit"}
    for name, option in {**options, "not_before": "--not-before"}.items():
        if sent.get(name) is not None:
            yield from (option, str(sent[name]))


def _text(value: Any) -> str:
    """Return a value as the command line reads it: JSON, or text that is none."""
    if isinstance(value, str) and not _is_json(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
