"""The options of a run: everything beside its kind and specification that its submitter may say of it, pure.

Law: each door through which work comes has these fields, with these names and defaults, and hands them on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, UnsetType

from events.queue.fair.shares import DEFAULT

QUEUE_LIMIT_S: Final = 7 * 24 * 3600
LABELS_MAX: Final = 32
LABEL_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a run waits, which pods may take it, its secrets and project; `queue_limit_s` bounds each wait."""

    priority: int = 0
    requires: Mapping[str, Any] = field(default_factory=dict)
    max_attempts: int = 3
    queue_limit_s: int = QUEUE_LIMIT_S
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    project: str = DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions(Options):
    """The options of one run, with the time before which it may not start."""

    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionChanges:
    """Options that shall be others: those of a run that waits, or of a retry against its parent's.

    What is given replaces what was there, whole, but labels: these are set one by one, and null removes one.
    """

    priority: int | UnsetType = UNSET
    requires: Mapping[str, Any] | UnsetType = UNSET
    max_attempts: int | UnsetType = UNSET
    queue_limit_s: int | UnsetType = UNSET
    labels: Mapping[str, str | None] | UnsetType = UNSET
    not_before: datetime | UnsetType | None = UNSET

    @property
    def given(self) -> dict[str, Any]:
        """The options that shall change, by name."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if value is not UNSET}

    def over(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options by name with these changes."""
        changed = {**options, **self.given}
        if self.labels is not UNSET:
            changed["labels"] = labels_with(options["labels"], self.labels)
        return changed


NO_CHANGES: Final = OptionChanges()


def options_of(wanted: Options) -> dict[str, Any]:
    """Return the options in a submission of any kind of work, by name."""
    kind = StartOptions if isinstance(wanted, StartOptions) else Options
    return {each.name: getattr(wanted, each.name) for each in fields(kind)}


def labels_with(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return labels after their changes."""
    return {name: value for name, value in {**labels, **changes}.items() if value is not None}
