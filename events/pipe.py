"""What parent and child say to each other over the inherited pipes, one JSON frame a line.

The child gives no ids, times or sequences: it says what happened, the parent makes an
event of it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

LINE_MAX_BYTES: Final = 200 * 1024


class Ready(msgspec.Struct, frozen=True, tag_field="frame", tag="ready"):
    """Child: everything heavy is imported; `kinds` can start at once. `device` is for people."""

    kinds: list[str]
    device: str | None = None


class Said(msgspec.Struct, frozen=True, tag_field="frame", tag="said"):
    """Child: a fact, by its public type."""

    type: str
    data: dict[str, Any]


class Made(msgspec.Struct, frozen=True, tag_field="frame", tag="made"):
    """Child: a finished file that shall be kept under `name`; nobody writes to `path` any more."""

    path: str
    name: str
    content_type: str
    stage: str | None = None


class Start(msgspec.Struct, frozen=True, tag_field="frame", tag="start"):
    """Parent: run this now."""

    run_id: str
    attempt: int
    kind: str
    spec: dict[str, Any]
    workspace: str
    hypothesis_id: str | None = None


FromChild = Ready | Said | Made
_child_decoder: Final = msgspec.json.Decoder(FromChild)
_start_decoder: Final = msgspec.json.Decoder(Start)


def encode(frame: FromChild | Start) -> bytes:
    """Return one line, with its end."""
    return msgspec.json.encode(frame) + b"\n"


def decode_child(line: bytes) -> FromChild:
    """Read a line of the child. Raises `msgspec.MsgspecError` on anything else."""
    frame: FromChild = _child_decoder.decode(line)
    return frame


def decode_start(line: bytes) -> Start:
    """Read the parent's order. Raises `msgspec.MsgspecError` on anything else."""
    return _start_decoder.decode(line)
