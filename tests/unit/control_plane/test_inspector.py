"""What is read before a file is shown, and what is not shown; the storage is a double."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control_plane.files.inspection import READS_MAX, UNREAD, Inspector
from control_plane.store.log.inspections import Looked, Version
from events.runtime.errors import Conflict, NotFound, Transient

SHA256 = "ab" * 32
WHOLE = Version(3, "etag-1", "then")


class Storage:
    """One object; `reads` counts how often it was read whole, `most` how many reads went on at once."""

    def __init__(self, version: Version | None = WHOLE, sha256: str = SHA256) -> None:
        self.now, self.sha256 = version, sha256
        self.reads = self.open = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def version(self, key: str) -> Version | None:
        return self.now

    async def read(self, key: str) -> Looked | None:
        self.reads += 1
        self.open += 1
        self.most = max(self.most, self.open)
        await self.gate.wait()
        self.open -= 1
        return None if self.now is None else Looked(self.now, self.sha256)


class Kept:
    """What was found, by key."""

    def __init__(self) -> None:
        self.kept: dict[str, Looked] = {}

    async def find(self, key: str) -> Looked | None:
        return self.kept.get(key)

    async def keep(self, key: str, looked: Looked) -> None:
        self.kept[key] = looked


def inspector(storage: Storage, wait_s: float = 5.0) -> Inspector:
    inspections: Any = Kept()
    nobody: Any = None
    return Inspector(storage, inspections, nobody, wait_s)


@pytest.mark.parametrize(
    ("storage", "error", "words"),
    [
        (Storage(None), NotFound, "is not in the storage"),
        (Storage(Version(4, "e", "t")), Conflict, "holds 4 bytes, 3 were registered"),
        (Storage(sha256="cd" * 32), Conflict, "not those of the SHA-256"),
    ],
)
async def test_what_is_not_what_was_registered_is_not_shown(
    storage: Storage, error: type[Exception], words: str
) -> None:
    for _ in range(2):
        with pytest.raises(error, match=words):
            await inspector(storage).require("n", "k", 3, SHA256)
    assert storage.reads == (2 if "SHA" in words else 0), "of another size it is not even read"


async def test_a_file_is_read_once_and_again_where_another_lies_in_its_place() -> None:
    storage = Storage()
    held = inspector(storage)
    for _ in range(3):
        await held.require("n", "k", 3, SHA256)
    assert storage.reads == 1
    for changed in (Version(3, "etag-2", "then"), Version(3, "etag-2", "later")):
        storage.now, storage.sha256 = changed, "cd" * 32
        with pytest.raises(Conflict):
            await held.require("n", "k", 3, SHA256)
    assert storage.reads == 3


async def test_few_files_are_read_at_once_and_nobody_waits_for_ever() -> None:
    storage = Storage()
    storage.gate.clear()
    held = inspector(storage, wait_s=0.02)
    asked = [held.require("n", f"k{number}", 3, SHA256) for number in range(3 * READS_MAX)]
    for each in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(each, Transient)
        assert each.code == UNREAD
    assert storage.most == READS_MAX
    storage.gate.set()
    async with asyncio.timeout(60):
        while storage.reads < 3 * READS_MAX or storage.open:  # it is read on where nobody waits
            await asyncio.sleep(0)
    await held.require("n", "k0", 3, SHA256)
    assert storage.reads == 3 * READS_MAX
