"""The options of a run as a client names them, and as they are sent; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict


class Options(TypedDict, total=False):
    """How a run waits, which pods may take it, the names of its secrets, and its project.

    What is left out, or None, has its default.
    """

    priority: int | None
    labels: Mapping[str, str] | None
    requires: Mapping[str, Any] | None
    max_attempts: int | None
    queue_limit_s: int | None
    secrets: Sequence[str] | None
    project: str | None


class StartOptions(Options, total=False):
    """The options of one run, with the time before which it may not start."""

    not_before: datetime | None


class OptionChanges(TypedDict, total=False):
    """Options that shall be others; what is left out stays.

    Labels are set one by one, and None removes one. A `not_before` of None means now.
    """

    priority: int
    labels: Mapping[str, str | None]
    requires: Mapping[str, Any]
    max_attempts: int
    queue_limit_s: int
    not_before: datetime | None


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a submission that are given, in JSON."""
    return {name: value for name, value in in_json(options).items() if value is not None}


def in_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in JSON, null among them."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in options.items()
    }
