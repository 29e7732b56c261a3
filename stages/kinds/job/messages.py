"""What a program says by `podfleet.run`: lines of JSON in a named pipe, each a message; pure.

Law: a program may write anything into the pipe. What is no message within these bounds is `BadMessage`, and
costs the run a line in its log.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from events.kinds.results import KEY_BYTES_MAX, STATUS_CHARS_MAX, SetName, Values

LINE_BYTES_MAX: Final = 128 * 1024
METRICS_MAX: Final = 64  # of one message
STEP_MAX: Final = 2**53

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Metrics = Annotated[dict[Name, float | str], msgspec.Meta(max_length=METRICS_MAX)]
AbsolutePath = Annotated[str, msgspec.Meta(max_length=4_096, pattern=r"\A/[^\x00]*\Z")]


class BadMessage(ValueError):
    """A line is no message; the text says why."""


class Logged(msgspec.Struct, frozen=True, tag_field="do", tag="log", forbid_unknown_fields=True):
    """Numbers of a step; a text such as `nan` stands for what is not finite."""

    values: Metrics
    step: Annotated[int, msgspec.Meta(ge=-STEP_MAX, le=STEP_MAX)] | None = None


class Summarized(msgspec.Struct, frozen=True, tag_field="do", tag="summary", forbid_unknown_fields=True):
    """Headline numbers and texts."""

    values: Values


class Row(msgspec.Struct, frozen=True, tag_field="do", tag="result", forbid_unknown_fields=True):
    """A row of a table."""

    set: SetName
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_BYTES_MAX)]
    values: Values
    status: Annotated[str, msgspec.Meta(max_length=STATUS_CHARS_MAX)] | None = None
    detail: Name | None = None


class Progressed(msgspec.Struct, frozen=True, tag_field="do", tag="progress", forbid_unknown_fields=True):
    """How far the stage is, and what it does."""

    fraction: float | str
    activity: Annotated[str, msgspec.Meta(max_length=500)] = ""


class Staged(msgspec.Struct, frozen=True, tag_field="do", tag="stage", forbid_unknown_fields=True):
    """A stage begins; without a name the last one ends."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None


class Saved(msgspec.Struct, frozen=True, tag_field="do", tag="save", forbid_unknown_fields=True):
    """A file is finished."""

    path: AbsolutePath
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=1_024)]


class Checkpointed(msgspec.Struct, frozen=True, tag_field="do", tag="checkpoint", forbid_unknown_fields=True):
    """A folder below that of the checkpoints has a copy, from which a later attempt may go on."""

    path: AbsolutePath


class Dropped(msgspec.Struct, frozen=True, tag_field="do", tag="dropped", forbid_unknown_fields=True):
    """So many calls came faster than they were written."""

    count: Annotated[int, msgspec.Meta(ge=1)]


class Wrong(msgspec.Struct, frozen=True, tag_field="do", tag="wrong", forbid_unknown_fields=True):
    """A call had what nobody can write."""

    why: Annotated[str, msgspec.Meta(max_length=1_000)]


Message = Logged | Summarized | Row | Progressed | Staged | Saved | Checkpointed | Dropped | Wrong
_decoder: Final = msgspec.json.Decoder(Message)


def read_message(line: bytes) -> Message:
    """Return the message in a line. Raises `BadMessage`."""
    if len(line) > LINE_BYTES_MAX:
        raise BadMessage(f"{len(line):,} bytes in one line, and {LINE_BYTES_MAX:,} are allowed")
    try:
        message: Message = _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessage(str(error)[:500]) from error
    return message
