"""Keys as the HTTP interface shows them: never their text, but once, where one is made."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Moment


class Key(Answer, frozen=True, kw_only=True):
    """A key: its kind, and the scopes that it opens; `successor` is the id of the key that it was rotated to.

    One with `pod` serves the pod of this name alone. Without `ends_at` it never ends.
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


class MadeKey(Key, frozen=True, kw_only=True):
    """A key that was just made, with its text in `key`: it is told this once, and kept nowhere."""

    key: str
