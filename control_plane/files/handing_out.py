"""Which form of a presigned URL is handed out: the storage's own on this machine, else the public one."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

# Whether the request that is answered comes from this machine itself, where the storage is reached.
ASKED_HERE: Final[ContextVar[bool]] = ContextVar("asked_here", default=False)


class PublicForm(Protocol):
    """Makes the public form of presigned URLs."""

    def public(self, url: str) -> str:
        """Return the public form of a presigned URL of the storage."""
        ...


def handed_out(form: PublicForm | None, url: str) -> str:
    """Return a presigned URL as the request that is answered can use it; `form` is None where all can."""
    return url if form is None or ASKED_HERE.get() else form.public(url)
