"""Compares an object with its registration before it is shown.

Law: no object is handed out that was not read whole and found equal to its registration. The result is
stored with the version of the object, and the version is read again at each hand-out. So an object is read
once, and a later object under the same key is not shown. A version that a later object could have too is not
stored: such an object is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from control_plane.concurrency.singleflight import Singleflight
from control_plane.store.log.inspections import Inspections, Looked, Version
from control_plane.store.reads import RunReads
from events.runtime.errors import Conflict, NotFound, PodfleetError, Transient

READS_MAX: Final = 2  # of the few threads that all questions to the storage share
ASKED_AT_ONCE: Final = 16
NAMED_MAX: Final = 5
PAGE: Final = 200
UNREAD: Final = "object_unread"


class Storage(Protocol):
    """The port of the storage; raises `Transient` if it does not answer."""

    async def version(self, key: str) -> Version | None:
        """Return the version of an object as the storage reports it, None if there is none."""
        ...

    async def read(self, key: str, most: int) -> Looked | None:
        """Read an object, and not much further than `most` bytes; None when there is none."""
        ...

    async def beginning(self, key: str, limit: int) -> tuple[Version, bytes] | None:
        """Return the version of an object and at most its first `limit` bytes, None when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Inspector:
    """Compares objects with their registrations; `wait_s` bounds the wait of a request."""

    storage: Storage
    inspections: Inspections
    reads: RunReads
    wait_s: float = 10.0
    _joined: Singleflight[Version | Looked | None] = field(default_factory=Singleflight)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS_MAX))

    async def beginning(self, name: str, key: str, size: int, sha256: str, *, limit: int) -> bytes:
        """Return at most the first `limit` bytes of a file, of what was read whole. Raises as `require`."""
        version = await self.require(name, key, size, sha256)
        match await self.storage.beginning(key, limit):
            case None:
                raise NotFound("unknown_artifact", f"the object of {name!r} is no longer in the storage")
            case found, content if found == version:
                return content
        raise Conflict("object_unfit", f"{name!r} is not shown: it is being replaced")

    async def require(self, name: str, key: str, size: int, sha256: str) -> Version:
        """Return the version of the object of the file `name` if it is what was registered.

        Raises `NotFound`, `Conflict` (`object_unfit`), `Rejected` for a key that no storage holds, and
        `Transient` (`object_unread`) while the object is still being read.
        """
        try:
            # It is read on where nobody waits any more, so that whoever asks again finds it done.
            found = await asyncio.wait_for(
                self._joined.read((key, size), lambda: self._look(key, size)), self.wait_s
            )
        except TimeoutError as error:
            unread = f"{name!r} is still being read, to compare it with its SHA-256; try again in a moment"
            raise Transient(UNREAD, unread, retry_after_s=self.wait_s) from error
        match found:
            case None:
                raise NotFound("unknown_artifact", f"the object of {name!r} is not in the storage")
            case Version(size=bytes_):
                problem = f"the storage holds {bytes_} bytes, {size} were registered"
            case Looked(version=version, sha256=found_sha256) if found_sha256 == sha256:
                return version
            case _:
                problem = "its bytes are not those of the SHA-256 that was registered"
        raise Conflict("object_unfit", f"{name!r} is not shown: {problem}")

    async def unfit(self, run_id: str) -> list[str]:
        """Return the problems of some files of a run as text; empty if all match their registrations."""
        problems: list[str] = []
        after: Sequence[Any] | None = None
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self.wait_s
        while True:
            page = await self.reads.artifacts(run_id, after, PAGE)
            for start in range(0, len(page.documents), ASKED_AT_ONCE):
                batch = page.documents[start : start + ASKED_AT_ONCE]
                found = await asyncio.gather(*(self._problem(each) for each in batch))
                problems += [problem for problem in found if problem is not None]
                if len(problems) >= NAMED_MAX:
                    return problems[:NAMED_MAX]
                if loop.time() > until_s and (start + ASKED_AT_ONCE < len(page.documents) or page.stopped_at):
                    return [*problems, "the files of the run are still being read; try again in a moment"]
            after = page.stopped_at
            if after is None:
                return problems

    async def _problem(self, artifact: Mapping[str, Any]) -> str | None:
        try:
            await self.require(*(artifact[name] for name in ("name", "key", "size", "sha256")))
        except PodfleetError as error:
            if isinstance(error, Transient) and error.code != UNREAD:
                raise
            return error.message
        return None

    async def _look(self, key: str, size: int) -> Version | Looked | None:
        """Return the object's version where its size is wrong, else what its bytes are."""
        version = await self.storage.version(key)
        if version is None or version.size != size:
            return version
        known = await self.inspections.find(key)
        if known is not None and known.version == version:
            return known
        async with self._turns:
            looked = await self.storage.read(key, size)
        if looked is not None and looked.version.size != size:
            return looked.version
        if looked is not None and looked.is_settled:
            await self.inspections.keep(key, looked)
        return looked
