"""The commands that submit a run like this one: for a shell with podfleet, and with curl alone, pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from events.answers.runs import Run


def as_cli(run: Run) -> str:
    """Return the `podfleet submit` of a run like this one."""
    words = ["podfleet", "submit", "--kind", run.kind]
    for name, value in (run.spec or {}).items():
        words += ["-p", f"{name}={_typed(value)}"]
    for option, wanted in (("--label", run.labels), ("--requires", _requires(run))):
        for name, value in wanted.items():
            words += [option, f"{name}={_typed(value) if option == '--requires' else value}"]
    if run.priority:
        words += ["--priority", str(run.priority)]
    words += ["--max-attempts", str(run.max_attempts)]
    for name in _secrets(run):
        words += ["--secret", name]
    return " ".join(_quoted(words))


def as_curl(run: Run) -> str:
    """Return the request to the API for a run like this one; address and key come from the environment."""
    body = {
        "kind": run.kind,
        "spec": run.spec or {},
        "labels": run.labels,
        "requires": _requires(run),
        "priority": run.priority,
        "max_attempts": run.max_attempts,
        "secrets": _secrets(run),
    }
    text = json.dumps(
        {name: value for name, value in body.items() if value or name == "spec"}, ensure_ascii=False
    )
    return (
        'curl -s "$CONTROL_PLANE_URL/api/runs" -H "Authorization: Bearer $PODFLEET_API_KEY" '
        f"-H 'content-type: application/json' -d {shlex.quote(text)}"
    )


def _secrets(run: Run) -> list[str]:
    return [] if run.secrets is UNSET else run.secrets


def _requires(run: Run) -> Mapping[str, Any]:
    return {name: value for name, value in (run.requires or {}).items() if value not in (None, {}, [])}


def _typed(value: Any) -> str:
    """Return a value as the command line reads it: text as it is where that is no JSON."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    try:
        json.loads(value)
    except ValueError:
        return value
    return json.dumps(value, ensure_ascii=False)


def _quoted(words: list[str]) -> Iterator[str]:
    return (shlex.quote(each) for each in words)
