"""What a control plane still does with the dependencies that it has now, pure.

Law: a balancer sends requests as long as API, ingest and claims work. These need MongoDB and its indexes; the
storage is asked by pods and browsers themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

OK: Final = "ok"
UNREACHABLE: Final = "unreachable"
FULL: Final = "full"
UNWRITABLE: Final = "unwritable"  # it answers, and takes no object: some say no more of a full disk
READ_ONLY: Final = frozenset({FULL, UNWRITABLE})
NEEDED: Final = ("mongodb", "indexes")
OF_MONGODB: Final = ("api", "ingest", "claims")
DOWNLOADS: Final = "downloads"
OF_STORAGE: Final = (DOWNLOADS, "uploads")


@dataclass(frozen=True, slots=True)
class States:
    """The state of each dependency: `ok`, or a word for its problem."""

    mongodb: str
    indexes: str
    storage: str

    @property
    def by_name(self) -> Mapping[str, str]:
        """The states by the names of the dependencies."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def is_ready(self) -> bool:
        """Say whether requests are to be sent here."""
        return all(self.by_name[name] == OK for name in NEEDED)

    @property
    def works(self) -> list[str]:
        """What works now."""
        if not self.is_ready:
            return []
        found = [*OF_MONGODB]
        if self.storage == OK:
            return [*found, *OF_STORAGE]
        return [*found, DOWNLOADS] if self.storage in READ_ONLY else found


def word(code: str) -> str:
    """Return the state that an error's code stands for."""
    return code.removeprefix("mongodb_").removeprefix("storage_")
