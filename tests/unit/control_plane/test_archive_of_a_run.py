"""The archive of a run: whoever changes a byte of it, or tells it otherwise, is found out."""

from __future__ import annotations

import asyncio
import hashlib
import io
import math
import tarfile
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from control_plane.files.archives.exporter import Exporter
from control_plane.store.log.inspections import Version
from events.envelope import hash_of, storage_id
from events.files.archive import extended_json, tape
from events.files.archive.check import Checked, checked
from events.record_digest import NO_LINES
from events.runtime.errors import Conflict, Rejected
from events.testing import EPOCH
from events.text.attempt_id import AttemptId

AT = "2026-01-01T00:00:00Z"
RUN = "01JD000000000000000000RUNA"
CONTENT = b"what a run has kept" * 100


def event(sequence: int | None, attempt: int = 1, **data: Any) -> dict[str, Any]:
    told = {"message": f"line {sequence}", **data}
    name = f"e{attempt}-{sequence}"
    document: dict[str, Any] = {
        "_id": storage_id(RUN, "//pod", name), "position": f"p{attempt}{sequence}", "runId": RUN,
        "attempt": attempt, "ceId": name, "source": "//pod", "type": "ai.run.log", "time": AT,
        "data": told, "receivedAt": EPOCH,
        "hash": hash_of("ai.run.log", AttemptId(RUN, attempt), sequence, AT, told),
    }  # fmt: skip
    return document if sequence is None else {**document, "sequence": sequence}


def root(events: list[dict[str, Any]]) -> str:
    roots = NO_LINES
    for each in events:
        roots = roots.then(each["type"], each["data"], each["hash"])
    return roots.said


class Fake:
    """A store and a storage of one run."""

    def __init__(self) -> None:
        self.events = [event(1), event(2, value=1.0), event(3, value=2**40), event(1, 2), event(2, 2)]
        self.run_document: dict[str, Any] = {
            "_id": RUN, "kind": "probe", "status": "COMPLETED", "attempt": 2, "lastEventSeq": 2,
            "journal": [], "logOpen": False, "logIncomplete": None,
            "settled": {"last": 2, "root": root(self.events[3:])},
            "tokens": [{"hash": "granted"}], "lease": {"tokenHash": "granted"}, "secrets": ["HF_TOKEN"],
            "createdAt": EPOCH, "title": "a run",
        }  # fmt: skip
        digest = hashlib.sha256(CONTENT).hexdigest()
        self.artifact = {
            "_id": f"{RUN}/a2/0123456789abcdef", "runId": RUN, "attempt": 2, "name": "a.bin",
            "key": "runs/a.bin", "size": len(CONTENT), "sha256": digest,
        }  # fmt: skip
        self.content_stored: bytes | None = CONTENT

    async def run(self, run_id: str) -> dict[str, Any] | None:
        return self.run_document if run_id == RUN else None

    async def spec(self, run_id: str) -> dict[str, Any] | None:
        return {"_id": RUN, "kind": "probe", "spec": {"x": 1.5}, "unchecked": True}

    async def listed(self, collection: str, run_id: str) -> AsyncGenerator[Mapping[str, Any], None]:
        if collection == "artifacts":
            yield self.artifact

    async def decisions(self, run_id: str) -> AsyncGenerator[Mapping[str, Any], None]:
        yield {"_id": f"{RUN}/r1", "runId": RUN, "revision": 1, "data": {"at": EPOCH, "n": 1}}

    async def numbered(self, run_id: str) -> AsyncGenerator[Mapping[str, Any], None]:
        for each in self.events:
            yield each

    async def others(self, run_id: str) -> AsyncGenerator[Mapping[str, Any], None]:
        yield event(None)

    async def version(self, key: str) -> Version | None:
        return None if self.content_stored is None else Version(len(CONTENT), "etag", "")

    async def content(self, key: str, most: int) -> AsyncGenerator[bytes, None]:
        assert self.content_stored is not None
        for at in range(0, len(self.content_stored), 700):
            yield self.content_stored[at : at + 700]


def written(fake: Any, *, has_artifacts: bool = True) -> bytes:
    async def write() -> bytes:
        exporter = Exporter(fake, fake, "podfleet")
        archive = await exporter.open(RUN, has_artifacts=has_artifacts)
        return b"".join([piece async for piece in exporter.written(archive)])

    return asyncio.run(write())


def read(content: bytes) -> Checked:
    return checked(io.BytesIO(content))


def test_an_archive_is_whole_the_same_twice_and_grants_nothing() -> None:
    content = written(Fake())
    assert content == written(Fake())
    found = read(content)
    assert (found.findings, found.notes) == ([], [])
    assert (found.documents, found.events, found.artifacts) == (3, 6, 1)
    assert [(each.attempt, each.lines) for each in found.manifest.attempts] == [(1, 3), (2, 2)]
    assert b"granted" not in content
    assert b"HF_TOKEN" not in content
    with tarfile.open(fileobj=io.BytesIO(content)) as ordinary:
        assert ordinary.extractfile("artifacts/a2/0123456789abcdef").read() == CONTENT  # type: ignore[union-attr]
    bare = read(written(Fake(), has_artifacts=False))
    assert (bare.findings, bare.artifacts, bare.manifest.has_artifacts) == ([], 0, False)


def test_no_byte_of_an_archive_can_be_changed_and_none_left_out() -> None:
    content = written(Fake())
    for at in range(0, len(content), 41):
        changed = bytearray(content)
        changed[at] ^= 1
        try:
            found = read(bytes(changed))
        except Rejected:
            continue
        # The manifest is what everything else is held against: what it says of itself is in words only.
        assert at > content.rindex(b"manifest.json"), at
        assert found.findings or found.manifest != read(content).manifest, at
    for at in range(0, len(content), 1_501):
        with pytest.raises(Rejected):
            read(content[:at])
    with pytest.raises(Rejected, match="behind its end"):
        read(content + b"\0")


def member(kind: bytes, name: str = "run.json", link: str = "") -> bytes:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, link, 0o644
    return found.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cut off"),
        (b"PK\x03\x04" + bytes(600), "is damaged"),
        (bytes(1024), "is damaged"),
        (member(tarfile.SYMTYPE, link="/etc/passwd"), "no plain file"),
        (member(tarfile.LNKTYPE, link="run.json"), "no plain file"),
        (member(tarfile.CHRTYPE), "no plain file"),
        (member(tarfile.DIRTYPE, "run.json"), "no archive has|no plain file"),
        (member(tarfile.REGTYPE, "../run.json"), "no archive has"),
        (member(tarfile.REGTYPE, "/etc/passwd"), "no archive has"),
        (member(tarfile.REGTYPE, "documents/../x-000001.ndjson"), "no archive has"),
        (member(tarfile.REGTYPE, "artifacts/a1/0123456789abcdef"), "it begins with"),
        (member(tarfile.XHDTYPE), "no plain file"),
        (member(tarfile.GNUTYPE_LONGNAME, "run.json"), "no plain file"),
        (tape.head("run.json", 30 * 1024**2), "more than"),
    ],
)
def test_what_no_writer_makes_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        read(content)


def test_a_line_that_is_missing_or_out_of_its_place_is_told() -> None:
    fake = Fake()
    del fake.events[1]
    found = read(written(fake))
    assert found.findings == ["events 2–2 of attempt 1 are missing"]
    fake = Fake()
    del fake.events[3]
    assert len(read(written(fake)).findings) == 2  # the gap, and the root that the attempt settled with
    fake.run_document["logIncomplete"] = {"from": 1, "to": 1}
    fake.run_document["settled"] = {"last": 2}
    found = read(written(fake))
    assert (found.findings, found.notes) == ([], ["events 1–1 of attempt 2 are missing"])
    fake = Fake()
    fake.events.reverse()
    with pytest.raises(Rejected, match="not in its place"):
        written(fake)


def test_an_event_that_was_changed_in_the_store_is_not_archived() -> None:
    fake = Fake()
    fake.events[1]["data"]["value"] = 2.0
    with pytest.raises(Rejected, match="not as it was taken in"):
        written(fake)


@pytest.mark.parametrize("stored", [CONTENT[:-1], CONTENT + b"x", b"x" + CONTENT[1:]])
def test_a_file_of_other_bytes_breaks_the_archive_off(stored: bytes) -> None:
    fake = Fake()
    fake.content_stored = stored
    with pytest.raises(Rejected, match="not what was registered"):
        written(fake)


def test_a_file_that_the_storage_lost_is_named() -> None:
    fake = Fake()
    fake.content_stored = None
    found = read(written(fake))
    assert (found.findings, found.artifacts) == ([], 0)
    assert found.notes == [
        "artifacts/a2/0123456789abcdef is not in it: the storage did not have it as registered"
    ]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"status": "RUNNING"}, "run_not_over"),
        ({"logOpen": True}, "log_open"),
        ({"journal": [{}]}, "log_open"),
    ],
)
def test_only_what_is_over_is_archived(fields: dict[str, Any], code: str) -> None:
    fake = Fake()
    fake.run_document |= fields
    with pytest.raises(Conflict) as refused:
        written(fake)
    assert refused.value.code == code


def test_documents_keep_the_types_of_their_values() -> None:
    document = {
        "a": [None, True, 1, -(2**31), 2**31, 2**63 - 1, 1.0, 0.1, 1e300, -0.0, math.inf], "b": {"c": "text"},
        "d": datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    }  # fmt: skip
    again = extended_json.decoded(extended_json.encoded(document))
    assert again == document
    assert [type(each) for each in again["a"]] == [type(each) for each in document["a"]]  # type: ignore[attr-defined]
    assert math.isnan(extended_json.decoded(extended_json.encoded({"a": math.nan}))["a"])


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b'{"a": 1}', b'{"a": 1.5}', b'{"$numberInt": "1"}',
        b'{"a": {"$numberInt": "2147483648"}}',
        b'{"a": {"$numberInt": "01"}}', b'{"a": {"$numberInt": 1}}',
        b'{"a": {"$numberLong": "9223372036854775808"}}',
        b'{"a": {"$numberDouble": "1_0"}}', b'{"a": {"$date": "2026-01-01"}}', b'{"a": {"$code": "x"}}',
        b'{"a": {"$date": {"$numberLong": "9223372036854775807"}}}', b'{"a": {"$numberInt": "1", "b": null}}',
        b'{"a": {"$where": "x"}}', b'{"a": {"$numberInt": "1\\n"}}',
        b'{"a":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
        b'{"a": "\xff"}',
    ],
)  # fmt: skip
def test_a_line_that_no_writer_makes_is_refused(line: bytes) -> None:
    with pytest.raises(Rejected):
        extended_json.decoded(line)


@pytest.mark.parametrize("value", [b"bytes", {"$set": None}, object(), datetime(2026, 1, 1)])  # noqa: DTZ001
def test_a_value_that_no_document_of_a_run_has_is_not_archived(value: Any) -> None:
    with pytest.raises(Rejected):
        extended_json.encoded({"a": value})
