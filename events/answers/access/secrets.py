"""Secrets as the HTTP interface shows them: without their values, except to the attempt that has them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Moment

RENEW_MAX_S: Final = 366 * 86_400.0


class Secret(Answer, frozen=True, kw_only=True):
    """A secret without its value; `id` is its name: who set it when, and with which key it is encrypted.

    Runs of `kinds` may have it, if keys of the names `keys` name it; an empty list allows all.
    """

    id: str
    kinds: list[str]
    keys: list[str]
    set_by: str
    set_at: Moment
    created_at: Moment
    key_id: str


class RotatedSecrets(Answer, frozen=True, kw_only=True):
    """How many secrets were encrypted anew with the key `key_id`; the key of `unreadable` is not here."""

    key_id: str
    count: int
    unreadable: list[str]


class SecretValues(Answer, frozen=True, kw_only=True):
    """The values for the attempt that holds a run; `missing` are those that it cannot have any more.

    The token of the run's user is to be asked for again after `renew_in_s`, when there is a newer one.
    """

    values: dict[str, str]
    missing: list[str]
    renew_in_s: Annotated[float, msgspec.Meta(ge=0, le=RENEW_MAX_S)] | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"SecretValues(missing={self.missing})"
