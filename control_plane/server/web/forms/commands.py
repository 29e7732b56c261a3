"""A submission as a command line and as a request of curl, to be copied from a page; pure.

Law: a character that steers the terminal into which it is pasted is written by its number.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from control_plane.runs.change import own_labels
from control_plane.runs.options import Options
from control_plane.server.api.contract.bodies import NewRun
from events.answers.runs import Run
from events.queue.fair.shares import DEFAULT
from events.queue.requirements import read_class
from events.text.escaping import STEERING


def submission_of(body: NewRun) -> dict[str, Any]:
    """Return what is sent to submit a run; what has its default is left out."""
    found = body.model_dump(mode="json", exclude_defaults=True)
    return {name: value for name, value in found.items() if (name, value) != ("project", DEFAULT)}


def submission_like(run: Run) -> dict[str, Any]:
    """Return what is sent to submit a run like this one; what has its default is left out."""
    usual, asked = Options(), (run.requires or {}).items()
    wanted = {
        "kind": run.kind,
        "spec": run.spec,
        "requires": {name: value for name, value in asked if value not in (None, {})},
        "labels": own_labels(run.kind, run.labels),
        "secrets": [] if run.secrets is UNSET else run.secrets,
        "priority": run.priority,
        "max_attempts": run.max_attempts,
        "queue_limit_s": run.queue_limit_s,
        "project": read_class(run.class_key).project,
        "after": [] if run.after is UNSET else run.after,
    }
    return {name: value for name, value in wanted.items() if value and value != getattr(usual, name, None)}


def cli_command(sent: Mapping[str, Any]) -> str:
    """Return the command that submits a run."""
    return " ".join(map(_quoted, ["podfleet", "submit", "--kind", sent["kind"], *_words(sent)]))


def curl_command(sent: Mapping[str, Any]) -> str:
    """Return the request that submits a run; address and key are in the environment, as for the command."""
    data = shlex.quote(_in_json(sent))
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
    for name in sent.get("after", ()):
        yield from ("--after", name)
    for name in sent.get("secrets", ()):
        yield from ("--secret", name)
    options = {"priority": "--priority", "max_attempts": "--max-attempts", "queue_limit_s": "--queue-limit"}
    options["project"] = "--project"
    for name, option in {**options, "not_before": "--not-before"}.items():
        if sent.get(name) is not None:
            yield from (option, str(sent[name]))


def _text(value: Any) -> str:
    """Return a value as the command line reads it: JSON, or text that is none."""
    if isinstance(value, str) and not _is_json(value) and not STEERING.search(value):
        return value
    return _in_json(value)


def _in_json(value: Any) -> str:
    return STEERING.sub(_number, json.dumps(value, ensure_ascii=False))


def _number(found: re.Match[str]) -> str:
    """Return a character by its number, as JSON and the shell's $'' both read it."""
    return f"\\u{ord(found[0]):04x}"


def _quoted(word: str) -> str:
    """Return a word for a shell."""
    if not STEERING.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{STEERING.sub(_number, plain)}'"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
