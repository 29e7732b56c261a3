"""What a ComfyUI server answers, read strictly; pure.

Law: an answer is JSON of a known shape within bounds, or it is a `BadAnswer`. Names of files that a server
gives are asked of it again, and are a name of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from stages.kinds.image.workflow import CHECKPOINT, LOADER, SAMPLER

SAID_CHARS: Final = 500
NAMES_SHOWN: Final = 20
NAME_CHARS: Final = 255
REFERENCES_MAX: Final = 256
FOLDERS: Final = frozenset({"output", "temp"})
ID_CHARS: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_")


class BadAnswer(ValueError):
    """An answer that is not what the interface says; its text says in which way."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that the server made, as it is asked for."""

    filename: str
    subfolder: str
    type: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the history has of a workflow: its pictures, and how it ended, as far as it has.

    `error` are the server's words, `is_interrupted` whether somebody stopped it, and `is_cached` whether its
    pictures were there before it began.
    """

    pictures: Sequence[Reference] = ()
    is_done: bool = False
    error: str = ""
    is_interrupted: bool = False
    is_cached: bool = False


def decoded(data: bytes) -> Any:
    """Return an answer as JSON. Raises `BadAnswer`."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadAnswer(f"no JSON: {said(str(error))}") from error


def said(value: Any) -> str:
    """Return what a server said as one short line."""
    text = value if isinstance(value, str) else str(value)[: 4 * SAID_CHARS]
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * SAID_CHARS]).split())
    return line if len(line) <= SAID_CHARS else f"{line[: SAID_CHARS - 1]}…"


def checkpoints(answer: Any) -> Sequence[str]:
    """Return the checkpoints that the loader's description lists. Raises `BadAnswer`."""
    listed = at(answer, LOADER, "input", "required", CHECKPOINT)
    names = listed[0] if isinstance(listed, list) and listed else None
    if isinstance(names, str):  # newer servers name the type, and list beside it
        names = at(listed[1], "options") if len(listed) > 1 else None
    if not isinstance(names, list):
        raise BadAnswer(f"no list of checkpoints under {LOADER}")
    return [each for each in names if isinstance(each, str)]


def shown_names(names: Sequence[str]) -> str:
    """Return names for people, the first of many."""
    first = ", ".join(said(each)[:NAME_CHARS] for each in sorted(names)[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return (first or "none") + (f", and {more} more" if more > 0 else "")


def prompt_id(answer: Any) -> str:
    """Return the id of a workflow that was taken. Raises `BadAnswer`."""
    found = at(answer, "prompt_id")
    if not isinstance(found, str) or not 0 < len(found) <= 64 or not ID_CHARS.issuperset(found):
        raise BadAnswer(f"no id of the workflow, but {said(found)!r}")
    return found


def refusal(answer: Any) -> tuple[str, bool]:
    """Return why a workflow was not taken, and whether for the name of its checkpoint."""
    nodes = at(answer, "node_errors")
    errors = [
        (each, at(node, "class_type"))
        for node in (nodes.values() if isinstance(nodes, dict) else ())
        for each in _listed(at(node, "errors"))
    ]
    words = [
        ": ".join(filter(None, (said(at(each, "message") or ""), said(at(each, "details") or ""))))
        for each, _ in errors[:NAMES_SHOWN]
    ]
    is_name = any(
        at(each, "extra_info", "input_name") == CHECKPOINT
        or (kind == LOADER and CHECKPOINT in str(each)[:2_000])
        for each, kind in errors[:NAMES_SHOWN]
    )
    general = at(answer, "error", "message") or at(answer, "error") or answer
    return said("; ".join(filter(None, words)) or general), is_name


def outcome(answer: Any, id: str) -> Outcome | None:
    """Return what the history has of a workflow, None as long as it has nothing. Raises `BadAnswer`."""
    entry = at(answer, id)
    if entry is None:
        if not isinstance(answer, dict):
            raise BadAnswer("a history that is no object")
        return None
    status = at(entry, "status")
    found = Outcome(
        pictures=tuple(_references(at(entry, "outputs"))),
        is_done=at(status, "completed") is True or at(status, "status_str") in ("success", "error"),
        error="the workflow failed" if at(status, "status_str") == "error" else "",
    )
    for message in _listed(at(status, "messages"))[:REFERENCES_MAX]:
        kind, data = message if isinstance(message, list) and len(message) == 2 else (None, None)
        if kind == "execution_error":
            words = (at(data, each) for each in ("node_type", "exception_type", "exception_message"))
            found = replace(found, error=said(": ".join(said(each or "?") for each in words)))
        elif kind == "execution_interrupted":
            found = replace(found, error=found.error or "it was interrupted", is_interrupted=True)
        elif kind == "execution_cached":
            found = replace(found, is_cached=SAMPLER in _listed(at(data, "nodes")))
    return found


def queued(answer: Any, client: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the ids of the workflows of a client that run, and of those that wait. Raises `BadAnswer`."""
    if not isinstance(answer, dict):
        raise BadAnswer("a queue that is no object")
    running, waiting = (
        [
            each[1]
            for each in _listed(answer.get(name))
            if isinstance(each, list)
            and len(each) > 3
            and isinstance(each[1], str)
            and at(each[3], "client_id") == client
        ]
        for name in ("queue_running", "queue_pending")
    )
    return running, waiting


def at(answer: Any, *path: str) -> Any:
    """Return what stands in an answer at a path; None where nothing does."""
    for name in path:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _references(outputs: Any) -> Iterator[Reference]:
    for node in outputs.values() if isinstance(outputs, dict) else ():
        for each in _listed(at(node, "images"))[:REFERENCES_MAX]:
            found = Reference(
                filename=str(at(each, "filename") or ""),
                subfolder=str(at(each, "subfolder") or ""),
                type=str(at(each, "type") or "output"),
            )
            if problem := _problem(found):
                raise BadAnswer(f"{problem}: {said(found.subfolder)[:100]!r}, {said(found.filename)[:100]!r}")
            yield found


def _problem(found: Reference) -> str:
    if found.type not in FOLDERS:
        return "a picture in none of its folders of outputs"
    if not 0 < len(found.filename) <= NAME_CHARS or len(found.subfolder) > NAME_CHARS:
        return "a picture without a name, or with one that is too long"
    parts = [*found.subfolder.replace("\\", "/").split("/"), found.filename]
    if "/" in found.filename or "\\" in found.filename or found.subfolder.startswith(("/", "\\")):
        return "a picture outside of its folder"
    if {".", ".."} & {*parts} or ":" in found.subfolder or not "".join(parts).isprintable():
        return "a picture outside of its folder"
    return ""
