"""Keys as the HTTP interface shows them: without their text, except once, at their creation."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Moment


class Key(Answer, frozen=True, kw_only=True):
    """A key: its kind and its scopes; `successor` is the id of the key that it was rotated to.

    A key with `pod` is valid only for the pod of this name, one with `projects` submits runs of these alone.
    Without `ends_at` it never expires.
    """

    id: str
    kind: str
    name: str
    scopes: list[str]
    created_by: str
    created_at: Moment
    ends_at: Moment | None
    last_used_at: Moment | None
    revoked_at: Moment | None
    revoked_by: str | None
    successor: str | None
    pod: str | UnsetType | None = UNSET
    projects: list[str] | UnsetType = UNSET


class MadeKey(Key, frozen=True, kw_only=True):
    """A new key, with its text in `key`: it is shown this once, and stored nowhere."""

    key: str
