"""A submission as a command line and as a request of curl, to be copied from a page; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from control_plane.server.api.contract.bodies import NewRun


def cli_command(body: NewRun) -> str:
    """Return the command that submits a run."""
    return shlex.join(["podfleet", "submit", "--kind", body.kind, *_words(_sent(body))])


def curl_command(body: NewRun) -> str:
    """Return the request that submits a run; address and key are in the environment, as for the command."""
    data = shlex.quote(json.dumps(_sent(body), ensure_ascii=False))
    return (
        'curl -X POST "$CONTROL_PLANE_URL/api/runs" -H "Authorization: Bearer $PODFLEET_API_KEY" '
        f"-H 'Content-Type: application/json' -d {data}"
    )


def _sent(body: NewRun) -> dict[str, Any]:
    return body.model_dump(mode="json", exclude_defaults=True)


def _words(sent: Mapping[str, Any]) -> Iterator[str]:
    for name, value in sent.get("spec", {}).items():
        yield from ("-p", f"{name}={_text(value)}")
    for name, value in sent.get("requires", {}).items():
        yield from ("--requires", f"{name}={_text(value)}")
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
