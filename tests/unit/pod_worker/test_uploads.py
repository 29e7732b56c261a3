"""Uploads: registered only when whole, patient with outages, silent without a trusted lease."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.catalog import ArtifactFailed, ArtifactRegistered
from events.delivery.control_plane_client import ControlPlane
from events.delivery.pipe import Checkpoint, Kept, Made
from events.files.object_sizes import OBJECT_BYTES_MAX
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.runtime.errors import Conflict, LeaseLost, Rejected, Transient
from events.testing import RUN_ID, ManualClock, SeededIds
from pod_worker.files import multipart, uploads
from pod_worker.files.storage import Reply
from pod_worker.files.uploads import (
    GROUP_BYTES_MAX,
    GROUP_MAX,
    NAME_MAX,
    REFUSALS_MAX,
    NotStored,
    Uploader,
    _Batch,
    _Job,
    checked_name,
)

CLAIM = Claim("runs", RUN_ID, 2, "the-token", "probe", {}, None)
OTHER = Claim("runs", "01K00000000000000000000002", 1, "token-2", "probe", {}, None)

Until = Callable[..., None]


class Storehouse:
    """A control plane and an object storage that behave, behind two transports."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.presigned = 0
        self.signatures: dict[str, str] = {}  # the one that is valid now, by key
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.forgotten = 0  # how often storage lost all parts that it had
        self.parts_sent: list[int] = []
        self.part_faults: dict[int, str] = {}
        self.clock = ManualClock()
        self.owner = CLAIM
        self.faults: dict[str, list[httpx.Response | Exception]] = {"presign": [], "put": []}
        self.on_put: Callable[[], None] = lambda: None

    def control_plane(self, request: httpx.Request) -> httpx.Response:
        action = request.url.path.rpartition("/")[2]
        offered = request.headers["Authorization"]
        body = json.loads(request.content)
        self.asked.append(action)
        self._fail("presign")
        if request.url.path.split("/")[3] == RUN_ID and offered != f"Bearer {self.owner.run_token}":
            return httpx.Response(409, json={"code": "lease_lost"})
        if action == "many":
            return httpx.Response(200, json={"files": [self._signed(each) for each in body["files"]]})
        if action == "complete":
            return self._joined(body)
        return httpx.Response(200, json=self._opened(body) if "parts" in body else self._signed(body))

    def _opened(self, body: dict[str, Any]) -> dict[str, Any]:
        held = self.uploads.setdefault(body["upload"], {})
        missing = [number for number in range(1, body["parts"] + 1) if number not in held]
        parts = [
            {"number": number, "url": f"http://storage/{body['upload']}?part={number}"} for number in missing
        ]
        size = -(-body["size"] // body["parts"])
        key = f"runs/{RUN_ID}/a2/{body['upload']}/{body['name']}"
        return {"key": key, "upload_id": str(self.forgotten), "part_size": size, "parts": parts[:4]}

    def _joined(self, body: dict[str, Any]) -> httpx.Response:
        held = self.uploads.pop(body["upload"])
        whole = b"".join(held[number] for number in sorted(held))
        if len(whole) != body["size"]:
            return httpx.Response(422, json={"code": "artifact_missing"})
        self.objects[body["key"]] = whole
        return httpx.Response(200, json={})

    def _signed(self, body: dict[str, Any]) -> dict[str, Any]:
        key = f"runs/{RUN_ID}/a{self.owner.attempt}/{body['sha256'][:16]}/{body['name']}"
        self.presigned += 1
        self.signatures[key] = str(self.presigned)
        url = f"http://storage/{key}?signature={self.signatures[key]}"
        return {"key": key, "url": url, "headers": {"x-sum": body["sha256"]}}

    def put(self, url: str, content: bytes | Iterable[bytes], headers: Mapping[str, str]) -> Reply:
        """Be the storage."""
        sent = content if isinstance(content, bytes) else b"".join(content)
        if "part" in httpx.URL(url).params:
            return self._put_part(httpx.URL(url), sent)
        assert headers == {"Content-Length": str(len(sent)), "x-sum": hashlib.sha256(sent).hexdigest()}
        self.on_put()
        try:
            self._fail("put")
        except _AnswerError as fault:
            answer = fault.response
            return Reply(answer.status_code, answer.text, answer.headers.get("Retry-After"))
        except httpx.HTTPError as error:
            raise Transient("storage_unreachable", str(error)) from error
        where = httpx.URL(url)
        key = where.path.lstrip("/")
        if where.params["signature"] != self.signatures[key]:
            return Reply(403, "expired", None)
        self.objects[key] = sent
        return Reply(200, "", None)

    def _put_part(self, url: httpx.URL, sent: bytes) -> Reply:
        number = int(url.params["part"])
        self.on_put()
        self.parts_sent.append(number)
        fault = self.part_faults.pop(number, None)
        if fault == "cut":
            raise Transient("storage_unreachable", "cut")
        if fault == "forgotten":
            self.forgotten += 1
            self.uploads.clear()
            return Reply(404, "NoSuchUpload", None)
        if url.path.lstrip("/") not in self.uploads:
            return Reply(404, "NoSuchUpload", None)
        self.uploads[url.path.lstrip("/")][number] = sent
        if fault == "unheard":
            raise Transient("storage_unreachable", "the answer was lost")
        return Reply(200, "", None)

    def _fail(self, action: str) -> None:
        if self.faults[action]:
            fault = self.faults[action].pop(0)
            if isinstance(fault, Exception):
                raise fault
            raise _AnswerError(fault)


class _AnswerError(Exception):
    def __init__(self, response: httpx.Response) -> None:
        self.response = response


def answering(handler: Callable[[httpx.Request], httpx.Response]) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        try:
            return handler(request)
        except _AnswerError as fault:
            return fault.response

    return httpx.MockTransport(answer)


class Registry:
    """Keeps what was registered; fails as often as it is told."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.failures: list[Exception] = []
        self.left = 1_000  # up to here ingest has everything

    def register(self, claim: Claim, facts: Sequence[Fact]) -> int:
        if self.failures:
            raise self.failures.pop(0)
        self.facts += facts
        return len(self.facts)

    def has_left(self, claim: Claim, sequence: int) -> bool:
        return sequence <= self.left


@pytest.fixture
def house() -> Storehouse:
    return Storehouse()


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def uploader(house: Storehouse, registry: Registry) -> Iterator[Uploader]:
    control_plane = httpx.Client(
        transport=answering(house.control_plane), base_url="http://control", headers={"Authorization": "x"}
    )
    with control_plane:
        uploader = Uploader(
            ControlPlane(control_plane, house.clock), house, registry, house.clock, SeededIds()
        )
        yield uploader
        uploader.close()


@pytest.fixture
def drained(uploader: Uploader, until: Until) -> Callable[[], NotStored | None]:
    def drain() -> NotStored | None:
        until(lambda: is_idle(uploader))
        return uploader.drain(CLAIM, deadline_s=0.0)

    return drain


def is_idle(uploader: Uploader) -> bool:
    return uploader._threads == 0


def made(folder: Path, content: bytes = b"a plot", *, name: str = "plots/loss.png") -> Made:
    path = folder / f"file-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    path.write_bytes(content)
    return Made(path=str(path), name=name, content_type="image/png", stage="Stage_1")


Drained = Callable[[], NotStored | None]


def assert_own(problem: NotStored | None, words: str) -> None:
    """Hold that a file itself is why it is not stored."""
    assert problem is not None
    assert words in problem.message
    assert problem.is_own


@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 3_000_000])
def test_a_file_is_registered_with_exactly_its_bytes(
    size: int, uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    content = os.urandom(size)
    uploader.add(CLAIM, made(tmp_path, content))
    assert drained() is None
    (fact,) = registry.facts
    assert isinstance(fact, ArtifactRegistered)
    assert house.objects == {fact.key: content}
    assert fact.sha256 == hashlib.sha256(content).hexdigest()
    assert (fact.name, fact.size, fact.content_type, fact.stage) == (
        "plots/loss.png", size, "image/png", "Stage_1",
    )  # fmt: skip


def handed_over(uploader: Uploader, files: Sequence[Made]) -> None:
    """Hand over files that wait together: the first of them waits for all."""
    with uploader._lock:
        for each in files[1:]:
            batch = uploader._batches.setdefault((CLAIM.run_id, CLAIM.attempt), _Batch())
            batch.handed_over += 1
            batch.open.add(batch.handed_over)
            uploader._jobs.append(_Job(batch.handed_over, CLAIM, [each], batch))
    uploader.add(CLAIM, files[0])


def test_small_files_that_wait_together_are_asked_for_once_and_registered_once_each(
    uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    names = [f"file-{number}.txt" for number in range(2 * GROUP_MAX)]
    handed_over(uploader, [made(tmp_path, name.encode(), name=name) for name in names])
    assert drained() is None
    assert house.asked == ["many"] * 2
    assert sorted(getattr(fact, "name", "") for fact in registry.facts) == sorted(names)
    assert sorted(house.objects.values()) == sorted(name.encode() for name in names)


@pytest.mark.parametrize("action", ["presign", "put"])
def test_after_any_trouble_together_each_file_goes_its_own_way(
    action: str,
    uploader: Uploader,
    house: Storehouse,
    registry: Registry,
    drained: Drained,
    tmp_path: Path,
) -> None:
    house.faults[action] = [httpx.Response(404)]  # as a control plane answers that knows no such route
    files = [made(tmp_path, name=f"{number}.txt") for number in range(5)]
    handed_over(uploader, [*files, made(tmp_path, name="../up.txt")])
    assert_own(drained(), "usable artifact name")
    kept = [fact.name for fact in registry.facts if isinstance(fact, ArtifactRegistered)]
    assert sorted(kept) == [f"{number}.txt" for number in range(5)]
    assert len(registry.facts) == 6


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return what fills ten parts, where a part is small."""
    monkeypatch.setattr(uploads, "FROM_BYTES", 1_000)
    monkeypatch.setattr(multipart, "PART_BYTES", 100)
    return os.urandom(1_000)


@pytest.mark.parametrize(
    ("fault", "again"), [("none", []), ("cut", [3, 7]), ("unheard", [])], ids=["quiet", "cut", "unheard"]
)
def test_of_a_file_in_parts_only_what_is_missing_is_sent_again(
    fault: str,
    again: list[int],
    uploader: Uploader,
    house: Storehouse,
    registry: Registry,
    drained: Drained,
    in_parts: bytes,
    tmp_path: Path,
) -> None:
    house.part_faults = {3: fault, 7: fault}
    uploader.add(CLAIM, made(tmp_path, in_parts))
    assert drained() is None
    assert sorted(house.parts_sent) == sorted([*range(1, 11), *again])
    (fact,) = registry.facts
    assert isinstance(fact, ArtifactRegistered)
    assert house.objects == {fact.key: in_parts}
    assert (fact.size, fact.sha256) == (1_000, hashlib.sha256(in_parts).hexdigest())


def test_a_file_whose_parts_were_forgotten_is_sent_anew(
    uploader: Uploader,
    house: Storehouse,
    registry: Registry,
    drained: Drained,
    in_parts: bytes,
    tmp_path: Path,
) -> None:
    house.part_faults = {10: "forgotten"}
    uploader.add(CLAIM, made(tmp_path, in_parts))
    assert drained() is None
    assert house.parts_sent.count(1) == 2
    assert list(house.objects.values()) == [in_parts]
    assert len(registry.facts) == 1


def test_a_file_goes_whole_where_its_parts_are_refused(
    uploader: Uploader,
    house: Storehouse,
    registry: Registry,
    drained: Drained,
    in_parts: bytes,
    tmp_path: Path,
) -> None:
    house.faults["presign"] = [httpx.Response(422, text="parts: unknown")] * REFUSALS_MAX
    uploader.add(CLAIM, made(tmp_path, in_parts))
    assert drained() is None
    assert house.parts_sent == []
    assert list(house.objects.values()) == [in_parts]
    assert [type(fact) for fact in registry.facts] == [ArtifactRegistered]


def test_a_lease_that_is_lost_between_two_parts_ends_the_file(
    uploader: Uploader, house: Storehouse, registry: Registry, in_parts: bytes, until: Until, tmp_path: Path
) -> None:
    house.part_faults = {5: "cut"}
    house.on_put = lambda: setattr(house, "owner", replace(CLAIM, token="somebody-else"))
    uploader.add(CLAIM, made(tmp_path, in_parts))
    until(lambda: is_idle(uploader))
    with pytest.raises(LeaseLost):
        uploader.drain(CLAIM, deadline_s=0.0)
    assert registry.facts == []
    assert house.objects == {}


def test_a_large_file_goes_by_itself(uploader: Uploader, tmp_path: Path) -> None:
    large = made(tmp_path, bytes(GROUP_BYTES_MAX + 1), name="large.bin")
    small = [made(tmp_path, name=f"{number}.txt") for number in range(3)]
    batch = _Batch()
    for number, each in enumerate([*small, large, *small]):
        uploader._jobs.append(_Job(number, CLAIM, [each], batch))
    groups = [[job.number for job in uploader._next_group()] for _ in range(3)]
    assert groups == [[0, 1, 2], [3], [4, 5, 6]]
    assert uploader._next_group() == []


@pytest.mark.parametrize("action", ["presign", "put"])
@pytest.mark.parametrize(
    "fault",
    [
        httpx.Response(500),
        httpx.Response(503, headers={"Retry-After": "9"}),
        httpx.Response(429),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut"),
    ],
    ids=lambda fault: str(getattr(fault, "status_code", type(fault).__name__)),
)
def test_an_outage_is_waited_for(
    action: str,
    fault: httpx.Response | Exception,
    uploader: Uploader,
    house: Storehouse,
    registry: Registry,
    drained: Drained,
    tmp_path: Path,
) -> None:
    house.faults[action] = [fault] * 40
    uploader.add(CLAIM, made(tmp_path))
    assert drained() is None
    assert [type(fact) for fact in registry.facts] == [ArtifactRegistered]
    assert 0 < house.clock.monotonic_s() < 40 * 70


def test_an_expired_url_is_signed_again(
    uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    house.faults["put"] = [httpx.Response(403, text="expired"), httpx.Response(403, text="expired")]
    uploader.add(CLAIM, made(tmp_path))
    assert drained() is None
    assert house.presigned == 3
    assert [type(fact) for fact in registry.facts] == [ArtifactRegistered]


def test_what_storage_has_already_is_registered(
    uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    house.faults["put"] = [httpx.Response(412, text="PreconditionFailed")]  # an answer before was lost
    uploader.add(CLAIM, made(tmp_path))
    assert drained() is None
    assert house.presigned == 1
    assert [type(fact) for fact in registry.facts] == [ArtifactRegistered]


@pytest.mark.parametrize(("action", "status"), [("presign", 422), ("put", 400)])
def test_a_lasting_refusal_is_a_failed_artifact_with_its_reason(
    action: str,
    status: int,
    uploader: Uploader,
    house: Storehouse,
    registry: Registry,
    drained: Drained,
    tmp_path: Path,
) -> None:
    house.faults[action] = [httpx.Response(status, text="never")] * REFUSALS_MAX
    uploader.add(CLAIM, made(tmp_path))
    problem = drained()
    assert problem is not None
    assert "plots/loss.png" in problem.message
    assert "never" in problem.message
    assert problem.is_own == (action == "presign")
    (fact,) = registry.facts
    assert isinstance(fact, ArtifactFailed)
    code = "UPLOAD_REFUSED" if action == "presign" else "STORAGE_REFUSED"
    assert (fact.name, fact.code) == ("plots/loss.png", code)


@pytest.mark.parametrize("answer", [b"", b"{}", b"<html>", b'{"key":"k"}', b'{"key":1,"url":"u"}', b"\xff"])
def test_an_odd_answer_is_an_outage_and_no_crash(
    answer: bytes, uploader: Uploader, house: Storehouse, drained: Drained, tmp_path: Path
) -> None:
    house.faults["presign"] = [httpx.Response(200, content=answer)]
    uploader.add(CLAIM, made(tmp_path))
    assert drained() is None


def test_a_lost_lease_ends_the_uploads_of_its_attempt_and_registers_nothing(
    uploader: Uploader, house: Storehouse, registry: Registry, until: Until, tmp_path: Path
) -> None:
    house.owner = replace(CLAIM, token="somebody-else")
    for number in range(10):
        uploader.add(CLAIM, made(tmp_path, name=f"{number}.txt"))
    until(lambda: is_idle(uploader))
    with pytest.raises(LeaseLost):
        uploader.drain(CLAIM, deadline_s=0.0)
    assert registry.facts == []
    assert house.objects == {}


def test_a_lost_lease_wakes_the_one_who_waits(uploader: Uploader, house: Storehouse, tmp_path: Path) -> None:
    class Waiting(ManualClock):
        def wait(self, flag: threading.Event, seconds: float) -> bool:
            return flag.wait(20.0) if seconds == 1_000.0 else super().wait(flag, seconds)

    uploader.clock = Waiting()
    house.owner = replace(CLAIM, token="somebody-else")
    uploader.add(CLAIM, made(tmp_path))
    with pytest.raises(LeaseLost):
        uploader.drain(CLAIM, deadline_s=1_000.0)


def test_nothing_is_sent_while_the_lease_is_not_trusted(
    uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, until: Until, tmp_path: Path
) -> None:
    uploader.suspend()
    uploader.add(CLAIM, made(tmp_path))
    until(lambda: house.clock.monotonic_s() > 5)
    assert house.presigned == 0
    assert uploader.drain(CLAIM, deadline_s=0.0) == NotStored("1 files are not uploaded yet")
    uploader.resume()
    assert drained() is None
    assert len(registry.facts) == 1


def test_a_file_half_sent_is_broken_off_and_sent_whole_later(
    uploader: Uploader,
    house: Storehouse,
    registry: Registry,
    drained: Drained,
    until: Until,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun_s: list[float] = []
    whole = house.put

    def half(url: str, content: Iterator[bytes], headers: Mapping[str, str]) -> Reply:
        if not begun_s:
            next(content)
            begun_s.append(house.clock.monotonic_s())
            uploader.suspend()
            next(content)
        return whole(url, content, headers)

    monkeypatch.setattr(house, "put", half)
    uploader.add(CLAIM, made(tmp_path, os.urandom(1_000_000)))
    until(lambda: begun_s and house.clock.monotonic_s() > begun_s[0] + 5)
    assert house.objects == {}
    uploader.resume()
    assert drained() is None
    assert [len(content) for content in house.objects.values()] == [1_000_000]
    assert len(registry.facts) == 1


class LazyTransport(httpx.BaseTransport):
    """Hands the request over before its body was read, as a socket does."""

    def __init__(self, handler: Callable[[httpx.Request], httpx.Response]) -> None:
        self._handler = handler

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._handler(request)


def test_what_is_forgotten_is_not_tried_again(
    uploader: Uploader, house: Storehouse, registry: Registry, until: Until, tmp_path: Path
) -> None:
    house.faults["put"] = [httpx.Response(503)] * 1_000_000
    uploader.add(CLAIM, made(tmp_path))
    until(lambda: house.presigned > 2)
    uploader.forget(CLAIM)
    assert not uploader.has_waiting(CLAIM)
    assert uploader.drain(CLAIM, deadline_s=0.0) is None
    until(lambda: uploader._threads == 0)
    assert registry.facts == []


def test_attempts_do_not_wait_for_each_other(
    uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    uploader.suspend()
    uploader.add(OTHER, made(tmp_path, name="other.txt"))
    uploader.forget(OTHER)
    uploader.resume()
    uploader.add(CLAIM, made(tmp_path))
    assert drained() is None
    assert [getattr(fact, "name", None) for fact in registry.facts] == ["plots/loss.png"]


def test_a_file_that_vanished_is_a_failed_artifact(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    gone = made(tmp_path)
    Path(gone.path).unlink()
    uploader.add(CLAIM, gone)
    assert_own(drained(), "No such file")
    (fact,) = registry.facts
    assert isinstance(fact, ArtifactFailed)
    assert fact.code == "FILE_UNREADABLE"


@pytest.mark.parametrize("after", [b"b" * 600_000, b"a" * 600_001, b"a" * 10, b""])
def test_a_file_that_changed_since_it_was_hashed_is_never_registered(
    after: bytes, uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    handed_over = made(tmp_path, b"a" * 600_000)
    signing = uploader.control_plane.client._transport.handle_request

    def change(request: httpx.Request) -> httpx.Response:
        Path(handed_over.path).write_bytes(after)
        return signing(request)

    client = httpx.Client(transport=LazyTransport(change), base_url="http://control")
    uploader.control_plane = ControlPlane(client, house.clock)
    uploader.add(CLAIM, handed_over)
    assert_own(drained(), "written to")
    (fact,) = registry.facts
    assert isinstance(fact, ArtifactFailed)
    assert fact.code == "FILE_CHANGED"
    assert house.objects == {}
    client.close()


def test_only_regular_files_are_read(
    uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "way").symlink_to(tmp_path)
    for name in ("link", "fifo", ".", "way/secret"):
        uploader.add(CLAIM, Made(path=str(tmp_path / name), name=f"x{name}x", content_type="text/plain"))
    assert drained() is not None
    assert [type(fact) for fact in registry.facts] == [ArtifactFailed] * 4
    codes = {fact.name: fact.code for fact in registry.facts if isinstance(fact, ArtifactFailed)}
    assert codes["xfifox"] == "NOT_A_FILE"
    assert house.objects == {}


def test_a_file_over_the_limit_is_refused_by_its_code_without_being_read(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    large = made(tmp_path)
    os.truncate(large.path, OBJECT_BYTES_MAX + 1)  # sparse: it takes no space
    uploader.add(CLAIM, large)
    assert_own(drained(), "limit")
    (fact,) = registry.facts
    assert isinstance(fact, ArtifactFailed)
    assert fact.code == "FILE_TOO_LARGE"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "./a",
        "a/",
        ".",
        "..",
        "a\nb",
        "a\x00b",
        "a\\b",
        "x" * 201,
    ],
)
def test_a_name_that_leaves_its_folder_or_cannot_be_shown_is_refused(
    name: str, uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    with pytest.raises(Rejected):
        checked_name(name)
    uploader.add(CLAIM, made(tmp_path, name=name))
    assert_own(drained(), "usable artifact name")
    (fact,) = registry.facts
    assert isinstance(fact, ArtifactFailed)
    assert (fact.code, len(fact.name) <= NAME_MAX) == ("BAD_NAME", True)


@given(st.text(max_size=220))
def test_a_checked_name_is_its_own_normal_form(name: str) -> None:
    try:
        checked = checked_name(name)
    except Rejected:
        return
    assert checked == name
    assert not set(name.split("/")) & {"", ".", ".."}
    assert name.isprintable()


def test_a_full_outbox_puts_the_registration_off(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    registry.failures = [Transient("OUTBOX_FULL", "full")] * 3
    uploader.add(CLAIM, made(tmp_path))
    assert drained() is None
    assert [type(fact) for fact in registry.facts] == [ArtifactRegistered]


def test_a_registration_after_the_end_is_dropped(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    registry.failures = [Conflict("attempt_closed", "over")]
    uploader.add(CLAIM, made(tmp_path))
    assert drained() is None
    assert registry.facts == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_an_upload_fails_the_run_and_stops_no_other_upload(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    registry.failures = [ZeroDivisionError()]
    uploader.add(CLAIM, made(tmp_path))
    assert drained() == NotStored("plots/loss.png: the upload broke off")
    for number in range(10):
        uploader.add(CLAIM, made(tmp_path, name=f"{number}.txt"))
    assert drained() is None
    assert len(registry.facts) == 10


def test_a_file_that_arrives_right_after_the_deadline_is_asked_for_again(
    uploader: Uploader, drained: Drained, until: Until, tmp_path: Path
) -> None:
    uploader.suspend()
    uploader.add(CLAIM, made(tmp_path))
    assert uploader.drain(CLAIM, deadline_s=0.0) == NotStored("1 files are not uploaded yet")
    uploader.resume()
    until(lambda: is_idle(uploader))
    assert uploader.has_waiting(CLAIM), "the answer of before is out of date"
    assert drained() is None
    assert not uploader.has_waiting(CLAIM)


def test_an_attempt_without_end_of_files_keeps_so_many_in_memory(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "FILES_MAX", 3)
    uploader.suspend()
    for _ in range(1_000):
        uploader.add(CLAIM, made(tmp_path))
    words: list[Kept] = []
    uploader.add_checkpoint(CLAIM, checkpoint(tmp_path), words.append)
    assert uploader.drain(CLAIM, deadline_s=0.0) == NotStored("3 files are not uploaded yet")
    assert words[0].problem == "the attempt made more than 3 files"
    uploader.resume()
    problem = drained()
    assert_own(problem, "more than 3 files")
    assert problem is not None
    assert len(problem.message) < 100, "which is said once"
    assert len(registry.facts) == 3


def test_each_file_of_a_checkpoint_counts(
    uploader: Uploader, drained: Drained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "FILES_MAX", 3)
    uploader.add_checkpoint(CLAIM, checkpoint(tmp_path, 1, "1/a", "1/b"), lambda kept: None)
    uploader.add(CLAIM, made(tmp_path))
    assert_own(drained(), "more than 3 files")


def test_an_attempt_without_files_has_nothing_to_wait_for(uploader: Uploader) -> None:
    assert not uploader.has_waiting(CLAIM)
    assert uploader.drain(CLAIM, deadline_s=0.0) is None


def checkpoint(folder: Path, number: int = 1, *names: str) -> Checkpoint:
    files = [made(folder, name.encode(), name=f"checkpoints/Stage_1/{name}") for name in names]
    manifest = made(folder, b"{}", name="checkpoints/Stage_1/manifest.json")
    return Checkpoint(number, "Stage_1", [*files, manifest])


def names_of(registry: Registry) -> list[str]:
    return [fact.name for fact in registry.facts if isinstance(fact, ArtifactRegistered)]


def test_a_checkpoint_comes_after_everything_before_it_and_its_manifest_last(
    uploader: Uploader, house: Storehouse, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    house.faults["put"] = [httpx.Response(503), httpx.Response(503)]  # the plot takes longer
    words: list[Kept] = []
    uploader.add(CLAIM, made(tmp_path, name="plots/slow.png"))
    uploader.add_checkpoint(CLAIM, checkpoint(tmp_path, 7, "1/a.png", "1/b.csv"), words.append)
    assert drained() is None
    assert names_of(registry) == [
        "plots/slow.png", "checkpoints/Stage_1/1/a.png", "checkpoints/Stage_1/1/b.csv",
        "checkpoints/Stage_1/manifest.json",
    ]  # fmt: skip
    assert words == [Kept(7)]


def test_the_word_is_given_when_ingest_knows_of_the_manifest(
    uploader: Uploader, registry: Registry, drained: Drained, until: Until, tmp_path: Path
) -> None:
    words: list[Kept] = []
    registry.left = 0
    uploader.add_checkpoint(CLAIM, checkpoint(tmp_path), words.append)
    until(lambda: len(registry.facts) == 1)
    assert words == []
    registry.left = 1
    assert drained() is None
    assert words == [Kept(1)]


def test_a_checkpoint_that_cannot_be_kept_is_no_failure_of_the_run(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    words: list[Kept] = []
    broken = checkpoint(tmp_path)
    Path(broken.files[0].path).unlink()
    uploader.add_checkpoint(CLAIM, broken, words.append)
    assert drained() is None
    assert words[0].problem is not None
    assert [type(fact) for fact in registry.facts] == [ArtifactFailed]


def test_no_checkpoint_stands_behind_a_file_that_is_missing(
    uploader: Uploader, registry: Registry, drained: Drained, tmp_path: Path
) -> None:
    words: list[Kept] = []
    uploader.add(CLAIM, Made(path=str(tmp_path / "gone"), name="paper.pdf", content_type="x/y"))
    uploader.add_checkpoint(CLAIM, checkpoint(tmp_path), words.append)
    assert drained() is not None
    assert words == [Kept(1, "a file before it could not be kept")]
    assert names_of(registry) == []
