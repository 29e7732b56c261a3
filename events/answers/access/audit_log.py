"""The audit log as the HTTP interface shows it: who did what to which object."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Moment


class AuditEntry(Answer, frozen=True, kw_only=True):
    """A request that could change something; `action` is its method and route, `status` that of the answer.

    `object` is such as `run/<id>`, `made` the path of what came into being, `address` the client's;
    `details` what a deletion took along.
    """

    id: str
    at: Moment
    by: str
    key_id: str | None
    address: str | None
    action: str
    object: str | None
    made: str | None
    status: int
    details: str | UnsetType = UNSET
