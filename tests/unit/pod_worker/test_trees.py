"""Trees on a pod: a storage that lies, a fetch that breaks off, and a cache that several processes share."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Final

import httpx
import msgspec
import pytest

from events.answers.kinds.trees import FileTree, SignedChunk, TreeChunks
from events.files import tree_fetch
from events.files.paths import RunPath
from events.files.tree_fetch import TRIES_MAX, TreeFetch
from events.files.trees import RunFiles, Tree, TreeFile, id_of, in_order, layout
from events.lifecycle import Fault
from events.queue.faults import blame_of
from events.runtime.clock import SystemClock
from events.runtime.errors import PodfleetError, Rejected, Transient
from events.testing import ManualClock
from pod_worker.files import folder_cache
from pod_worker.files.folder_cache import FolderCache
from pod_worker.files.trees import TreeCache

CHUNK: Final = 16  # bytes, in these tests
FILES: Final = {"empty": b"", "large": bytes(range(3 * CHUNK + 5)), "sub/a": b"aa", "sub/run": b"#!"}

UNTOLD: Final = {
    **dict.fromkeys(("size", "files", "chunks", "manifestSize"), 0),
    **dict.fromkeys(("createdBy", "createdAt"), ""),
}

Answer = Callable[[str, bytes], httpx.Response | None]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.files.trees.CHUNK_BYTES", CHUNK)


def sends(content: bytes, **headers: str) -> httpx.Response:
    return httpx.Response(200, stream=httpx.ByteStream(content), headers=headers)


@dataclass
class House:
    """A control plane that signs for one tree, and a storage that holds it; `answer` may lie."""

    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    answer: Answer = lambda sha256, content: None
    asked: Counter[str] = field(default_factory=Counter)
    clock: Any = field(default_factory=ManualClock)
    check: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        files = in_order(
            TreeFile(RunPath(path), len(content), path.endswith("run"))
            for path, content in self.files.items()
        )
        self.objects: dict[str, bytes] = {}
        chunks = []
        for pieces in layout(files):
            content = b"".join(
                self.files[str(each.file.path)][each.offset : each.offset + each.size] for each in pieces
            )
            chunks.append(hashlib.sha256(content).hexdigest())
            self.objects[chunks[-1]] = content
        self.made = Tree.made(files, chunks)
        self.id = id_of(self.made.manifest())
        self.objects[self.id] = self.made.manifest()

    def tree(self, tree_id: str) -> FileTree:
        return msgspec.convert({**UNTOLD, "id": tree_id, "url": self.url(tree_id)}, FileTree)

    def chunks(self, tree_id: str, first: int) -> TreeChunks:
        named = self.made.chunks[first : first + 2]
        signed = [SignedChunk(sha256=each, url=self.url(each)) for each in named]
        return TreeChunks(first=first, count=len(self.made.chunks), chunks=signed)

    def url(self, sha256: str) -> str:
        return f"http://storage/{sha256}"

    def storage(self, request: httpx.Request) -> httpx.Response:
        sha256 = request.url.path[1:]
        self.asked[sha256] += 1
        assert "authorization" not in request.headers
        return self.answer(sha256, self.objects[sha256]) or sends(self.objects[sha256])

    @property
    def fetch(self) -> TreeFetch:
        http = httpx.Client(transport=httpx.MockTransport(self.storage))
        return TreeFetch(self, http, self.clock, self.check)

    def fill(self, folder: Path) -> None:
        self.fetch.fill(self.fetch.manifest(self.id), self.id, folder)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_tree_is_fetched_as_it_was_made(tmp_path: Path) -> None:
    house = House()
    house.fill(tmp_path)
    assert contents(tmp_path) == FILES
    assert [os.access(tmp_path / f"sub/{name}", os.X_OK) for name in ("a", "run")] == [False, True]
    assert set(house.asked.values()) == {1}


def test_the_files_of_a_run_come_whole_and_go_on_where_they_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_fetch, "CHUNK_BYTES", 9)
    house = House()
    told = {"large": b"0123456789" * 9, "small": b"abc", "none": b""}
    named = {name: hashlib.sha256(content).hexdigest() for name, content in told.items()}
    house.made = RunFiles.made_of(
        "R1", {TreeFile(RunPath(name), len(content), False): named[name] for name, content in told.items()}
    )
    house.id = id_of(house.made.manifest())
    house.objects = {house.id: house.made.manifest(), named["large"]: told["large"], named["small"]: b"abc"}
    ranges: list[str | None] = []

    def storage(request: httpx.Request) -> httpx.Response:
        content = house.objects[request.url.path[1:]]
        if content is not told["large"]:
            return sends(content)
        ranges.append(request.headers.get("range"))
        first = int((ranges[-1] or "bytes=0-")[6:-1])
        if len(ranges) == 4:  # the rest has other bytes than those of the digest
            return httpx.Response(206, stream=httpx.ByteStream(b"x" * (90 - first)))
        part = content[first:] if len(ranges) == 5 else content[first : first + 20]
        status = 200 if len(ranges) in (1, 5) else 206 if len(ranges) == 2 else 503
        return httpx.Response(status, stream=httpx.ByteStream(part))

    fetch = TreeFetch(house, httpx.Client(transport=httpx.MockTransport(storage)), house.clock)
    fetch.fill(fetch.manifest(house.id), house.id, tmp_path)
    assert contents(tmp_path) == told
    assert ranges == [None, "bytes=20-", "bytes=40-", "bytes=40-", None]


def test_a_fetch_that_broke_off_goes_on(tmp_path: Path) -> None:
    house = House()
    last = house.made.chunks[-1]
    house.answer = lambda sha256, _: httpx.Response(503) if sha256 == last else None
    with pytest.raises(Transient, match="503"):
        house.fill(tmp_path)
    (tmp_path / "large").write_bytes(b"x" + (tmp_path / "large").read_bytes()[1:])  # half a write, and longer
    with (tmp_path / "large").open("ab") as file:
        file.write(b"more")
    house.answer, house.asked = lambda sha256, content: None, Counter()
    house.fill(tmp_path)
    assert contents(tmp_path) == FILES
    assert house.asked == {house.id: 1, house.made.chunks[0]: 1, last: 1}


def endless() -> Iterator[bytes]:
    while True:
        yield bytes(1 << 16)


LIES: Final[dict[str, tuple[Answer, type[PodfleetError], str]]] = {
    "other bytes": (
        lambda _, content: sends(bytes(len(content))),
        Rejected,
        "other bytes",
    ),
    "short": (lambda _, content: sends(content[:-1]), Rejected, "other bytes"),
    "long": (lambda _, content: sends(content + b"!"), Rejected, "other bytes"),
    "endless": (lambda *_: httpx.Response(200, content=endless()), Rejected, "other bytes"),
    "encoded": (
        lambda _, content: sends(content, **{"Content-Encoding": "gzip"}),
        Rejected,
        "",
    ),
    "gone": (lambda *_: httpx.Response(404), Transient, "404"),
    "elsewhere": (lambda *_: httpx.Response(302, headers={"Location": "http://other/"}), Transient, "302"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_storage_that_lies_gives_a_file_none_of_its_bytes(tmp_path: Path, lie: str) -> None:
    answer, error, why = LIES[lie]
    house = House()
    if lie == "encoded":  # what is said of the encoding changes nothing: bytes are taken as they were sent
        house.answer = answer
        house.fill(tmp_path)
        assert contents(tmp_path) == FILES
        return
    house.answer = lambda sha256, content: None if sha256 == house.id else answer(sha256, content)
    with pytest.raises(error, match=why):
        house.fill(tmp_path)
    assert set(contents(tmp_path)) <= {"empty"}
    assert max(house.asked.values()) <= TRIES_MAX
    house.answer = answer
    with pytest.raises(error, match=why):
        house.fetch.manifest(house.id)


def test_a_storage_that_was_wrong_once_is_asked_again(tmp_path: Path) -> None:
    house = House()
    house.answer = lambda sha256, _: sends(b"?") if house.asked[sha256] == 1 else None
    house.fill(tmp_path)
    assert contents(tmp_path) == FILES


def test_a_slow_storage_is_left(tmp_path: Path) -> None:
    house = House()

    def slow(content: bytes) -> Iterator[bytes]:
        for at in range(len(content)):
            house.clock.advance(30)
            yield content[at : at + 1]

    house.answer = lambda sha256, content: httpx.Response(200, content=slow(content))
    with pytest.raises(Transient, match="too long"):
        house.fetch.manifest(house.id)


def test_a_control_plane_that_names_other_chunks_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House()
    for answer in ([], [SignedChunk(sha256="0" * 64, url="http://storage/x")]):
        monkeypatch.setattr(
            house, "chunks", lambda *_, told=answer: TreeChunks(first=0, count=9, chunks=told)
        )
        with pytest.raises(Transient, match="other chunks"):
            house.fill(tmp_path)
    monkeypatch.setattr(house, "url", lambda _: "file:///etc/passwd")
    with httpx.Client() as real, pytest.raises(Transient, match="UnsupportedProtocol"):
        TreeFetch(house, real, house.clock).manifest(house.id)


def test_links_in_the_way_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r"links|directory"):
        House().fill(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "large").symlink_to(tmp_path / "outside/new")
    with pytest.raises(OSError, match="links"):
        House().fill(folder)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_tree_is_kept_read_only_and_fetched_once(tmp_path: Path) -> None:
    house, cache = House(), TreeCache(tmp_path / "trees", ManualClock())
    for _ in range(2):
        with cache.used(house.id, house.fetch) as folder:
            assert contents(folder) == FILES
            modes = [path.stat().st_mode & 0o777 for path in sorted(folder.rglob("*"))]
            assert modes == [0o444, 0o444, 0o555, 0o444, 0o555]
            assert folder.stat().st_mode & 0o222 == 0
    assert house.asked[house.id] == 1
    with pytest.raises(Rejected, match="no id of a tree"), cache.used("../x", house.fetch):
        pass


def test_of_two_that_want_a_tree_one_fetches_it(tmp_path: Path) -> None:
    house, begun, go_on = House(clock=SystemClock()), threading.Event(), threading.Event()

    def answer(sha256: str, _: bytes) -> None:
        begun.set()
        assert go_on.wait(20)

    house.answer = answer
    found: list[dict[str, bytes]] = []

    def use() -> None:
        with TreeCache(tmp_path, SystemClock()).used(house.id, house.fetch) as folder:
            found.append(contents(folder))

    threads = [threading.Thread(target=use) for _ in range(3)]
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert found == [FILES] * 3
    assert set(house.asked.values()) == {1}


def test_who_was_killed_in_the_middle_leaves_no_lock_and_no_work_undone(tmp_path: Path) -> None:
    house, cache = House(), TreeCache(tmp_path, ManualClock())
    last = house.made.chunks[-1]
    if not (child := os.fork()):  # dies while it holds the lock, after all but the last chunk
        house.answer = lambda sha256, _: os._exit(7) if sha256 == last else None
        with cache.used(house.id, house.fetch):
            os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not (tmp_path / house.id).exists()
    with cache.used(house.id, house.fetch) as folder:
        assert contents(folder) == FILES
    assert house.asked[last] == 1
    assert house.asked[house.made.chunks[0]] == 0


def test_who_waits_for_a_tree_can_leave(tmp_path: Path) -> None:
    house, cache = House(), TreeCache(tmp_path, ManualClock())

    def leave() -> None:
        raise Transient("canceled", "nobody waits any more")

    other = House(check=leave)
    with (
        FolderCache(tmp_path, ManualClock(), 1, "tree").locked(house.id, fcntl.LOCK_EX, leave),
        pytest.raises(Transient, match="nobody waits"),
        cache.used(house.id, other.fetch),
    ):
        pass
    with cache.used(house.id, house.fetch) as folder:
        assert contents(folder) == FILES


def house_of(number: int) -> House:
    return House({"f": bytes([number]) * 100})


def test_the_longest_unused_go_first_and_none_in_use(tmp_path: Path) -> None:
    cache, locks = (
        TreeCache(tmp_path, ManualClock(), bytes_max=250),
        FolderCache(tmp_path, ManualClock(), 1, "").locks,
    )
    one, two, three = (house_of(number) for number in range(3))
    moments = iter(range(1, 100))

    def use(house: House) -> None:
        with cache.used(house.id, house.fetch):
            pass
        os.utime(locks / f"{house.id}.lock", ns=(0, next(moments)))

    def kept() -> set[str]:
        return {path.name for path in tmp_path.iterdir() if path.is_dir()}

    for house in (one, two, one, three):
        use(house)
    assert kept() == {one.id, three.id}
    with cache.used(one.id, one.fetch):  # the longest unused otherwise
        os.utime(locks / f"{one.id}.lock", ns=(0, 0))
        use(two)
        assert kept() == {one.id, two.id}
        with cache.used(two.id, two.fetch):
            with (
                pytest.raises(Transient, match="beside those in use") as refused,
                cache.used(three.id, three.fetch),
            ):
                pass
            assert refused.value.code == "DISK_FULL"
    large = House({"f": bytes(300)})
    with (
        pytest.raises(Rejected, match="300 bytes, and this pod keeps 250") as refused_for_good,
        cache.used(large.id, large.fetch),
    ):
        pass
    assert blame_of(refused_for_good.value.code).fault is Fault.POD
    assert kept() == {one.id, two.id}


def test_files_count_in_a_cache_however_small_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = TreeCache(tmp_path / "trees", ManualClock(), files_max=5)
    first, second = (House({f"{name}{number}": b"" for number in range(3)}) for name in "ab")
    for house in (first, second):
        with cache.used(house.id, house.fetch):
            pass
    assert [path.name for path in cache.folder.iterdir() if path.is_dir()] == [second.id]
    many = House({str(number): b"" for number in range(6)})
    with pytest.raises(Rejected, match="6 files, and this pod keeps 5"), cache.used(many.id, many.fetch):
        pass
    found = os.statvfs(tmp_path)
    fields = {name: getattr(found, name) for name in dir(found) if name.startswith("f_")}
    full = SimpleNamespace(**{**fields, "f_files": 1 << 20, "f_favail": folder_cache.ROOM_FILES + 2})
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(Transient, match="3 files beside those in use"), cache.used(first.id, first.fetch):
        pass


def test_a_full_disk_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, cache = House(), TreeCache(tmp_path, ManualClock())

    def full(folder: Path, path: RunPath) -> BinaryIO:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tree_fetch, "update_beneath", full)
        with pytest.raises(Transient, match="is full") as refused, cache.used(house.id, house.fetch):
            pass
    assert refused.value.code == "DISK_FULL"
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: usage._replace(free=folder_cache.ROOM_BYTES))
        with pytest.raises(Transient, match="no room"), cache.used(house.id, house.fetch):
            pass
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    with cache.used(house.id, house.fetch) as folder:
        assert contents(folder) == FILES
