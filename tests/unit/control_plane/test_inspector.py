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

    def __init__(
        self, version: Version | None = WHOLE, sha256: str = SHA256, *, is_settled: bool = True
    ) -> None:
        self.now, self.sha256, self.is_settled = version, sha256, is_settled
        self.replaced: Version | None = None
        self.reads = self.open = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def version(self, key: str) -> Version | None:
        return self.now

    async def beginning(self, key: str, limit: int) -> tuple[Version, bytes] | None:
        version = self.replaced or self.now
        return None if version is None else (version, b"abc"[:limit])

    async def read(self, key: str, most: int) -> Looked | None:
        assert most == WHOLE.size, "no object is read further than it was registered"
        self.reads += 1
        self.open += 1
        self.most = max(self.most, self.open)
        await self.gate.wait()
        self.open -= 1
        return None if self.now is None else Looked(self.now, self.sha256, self.is_settled)


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


async def test_an_object_whose_version_a_later_one_may_have_is_read_at_each_hand_out() -> None:
    storage = Storage(is_settled=False)
    held = inspector(storage)
    for reads in (1, 2):
        await held.require("n", "k", 3, SHA256)
        assert storage.reads == reads
    storage.sha256 = "cd" * 32  # put within the same second, under the same ETag
    with pytest.raises(Conflict):
        await held.require("n", "k", 3, SHA256)


async def test_a_longer_object_that_came_while_it_was_read_is_not_kept() -> None:
    storage = Storage()
    held = inspector(storage)
    storage.gate.clear()
    asked = asyncio.ensure_future(held.require("n", "k", 3, SHA256))
    async with asyncio.timeout(60):
        while not storage.open:
            await asyncio.sleep(0)
    storage.now = Version(5, "etag-1", "then")
    storage.gate.set()
    with pytest.raises(Conflict, match="holds 5 bytes, 3 were registered"):
        await asked
    storage.now = WHOLE
    await held.require("n", "k", 3, SHA256)
    assert storage.reads == 2


async def test_the_beginning_that_a_page_shows_is_of_the_object_that_was_read_whole() -> None:
    storage = Storage()
    held = inspector(storage)
    assert await held.beginning("n", "k", 3, SHA256, limit=2) == b"ab"
    storage.replaced = Version(3, "etag-2", "then")
    with pytest.raises(Conflict, match="it is being replaced"):
        await held.beginning("n", "k", 3, SHA256, limit=2)
