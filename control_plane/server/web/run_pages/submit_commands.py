"""The commands that submit a run like this one: for a shell with podfleet, and with curl alone, pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from events.answers.runs import Run
from events.text.escaping import STEERING


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
    text = _in_json({name: value for name, value in body.items() if value or name == "spec"})
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
    if not isinstance(value, str) or STEERING.search(value):
        return _in_json(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return _in_json(value)


def _in_json(value: Any) -> str:
    return STEERING.sub(_number, json.dumps(value, ensure_ascii=False))


def _number(found: re.Match[str]) -> str:
    """Return a character by its number, as JSON and the shell's $'' both read it."""
    return f"\\u{ord(found[0]):04x}"


def _quoted(words: list[str]) -> Iterator[str]:
    return (_quote(each) for each in words)


def _quote(word: str) -> str:
    """Return a word for a shell; a character that steers the terminal it is pasted into, by its number."""
    if not STEERING.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{STEERING.sub(_number, plain)}'"
