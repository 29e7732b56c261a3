"""The files of a backup say so when they are not as they were written, with and without a passphrase."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import bson
import msgspec
import pytest
import zstandard

from control_plane.upkeep.backup import sealing
from control_plane.upkeep.backup.folder import CHANGES, Folder
from control_plane.upkeep.backup.manifest import FORM, Manifest, Packed
from events.runtime.errors import ConfigError, Rejected

BACKUP = "01K4GAPVTTS00J616XFT4MCFWP"
PASSPHRASE = "a passphrase of the tests"
DOCUMENTS = [
    bson.encode({"_id": number, "text": "xxxxxxxx" + random.Random(number).randbytes(700).hex()})
    for number in range(400)
]


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "COST", 1 << 4)


def written(path: Path, passphrase: str | None) -> tuple[Folder, Manifest]:
    """Write a backup with one collection and one object."""
    folder = Folder.begun(path, passphrase)
    packer = folder.packer(BACKUP, "runs")
    for at in range(0, len(DOCUMENTS), 7):
        packer.add(b"".join(DOCUMENTS[at : at + 7]))
    collections = {"runs": packer.close()}
    changes = folder.packer(BACKUP, CHANGES).close()
    made = Manifest(
        form=FORM, id=BACKUP, program="1", database="fleet", schema=1, begun_at="", ended_at="",
        since=(1, 1), until=(2, 1),
        collections=collections, changes=changes, objects=None, storage="none", missing_objects=0,
    )  # fmt: skip
    folder.conclude(made)
    return folder, made


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_documents_and_objects_come_back(tmp_path: Path, passphrase: str | None) -> None:
    written(tmp_path, passphrase)
    folder = Folder.of(tmp_path, passphrase)
    made = folder.manifest()
    assert [*folder.documents(BACKUP, "runs", made.collections["runs"])] == DOCUMENTS
    assert [*folder.documents(BACKUP, CHANGES, made.changes)] == []
    for size in (0, 1, sealing.CHUNK_BYTES - 1, sealing.CHUNK_BYTES, sealing.CHUNK_BYTES + 1):
        name = folder.object_name(f"an object of {size}")
        writer = folder.object_writer(name)
        writer.write(b"y" * size)
        digest = writer.close()
        assert folder.kept_object(name) == digest
        assert b"".join(folder.object_pieces(name, digest)) == b"y" * size


def cut(raw: bytes) -> bytes:
    return raw[:-1]


def cut_at_a_chunk(raw: bytes) -> bytes:
    return raw[: sealing.SALT_BYTES + sealing.CHUNK_BYTES + sealing.TAG_BYTES]


def flipped(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


def emptied(_: bytes) -> bytes:
    return b""


def longer(raw: bytes) -> bytes:
    return raw + b"\0"


def bomb(_: bytes) -> bytes:
    return zstandard.compress(bson.encode({"_id": 1, "x": "0" * 8_000_000}))


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
@pytest.mark.parametrize("damage", [cut, cut_at_a_chunk, flipped, emptied, longer, bomb])
def test_a_damaged_file_is_refused(
    tmp_path: Path, passphrase: str | None, damage: Callable[[bytes], bytes]
) -> None:
    folder, made = written(tmp_path, passphrase)
    file = tmp_path / f"dump-{BACKUP}" / "runs.bson.zst"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(Rejected):
        list(folder.documents(BACKUP, "runs", made.collections["runs"]))


def test_a_file_that_its_manifest_fits_is_still_no_document(tmp_path: Path) -> None:
    folder, _ = written(tmp_path, None)
    packer = folder.packer(BACKUP, "runs")
    packer._on(packer._zstd.compress(b"\xff\xff\xff\x7f" + bytes(100)))
    found = packer.close()
    forged = Packed(1, 104, found.size, found.sha256)
    with pytest.raises(Rejected, match="no document"):
        list(folder.documents(BACKUP, "runs", forged))


def test_chunks_cannot_change_places(tmp_path: Path) -> None:
    folder, _ = written(tmp_path, PASSPHRASE)
    name = folder.object_name("large")
    writer = folder.object_writer(name)
    writer.write(bytes(3 * sealing.CHUNK_BYTES))
    digest = writer.close()
    (file,) = (tmp_path / "objects").rglob(f"{name}.*")
    raw, size = file.read_bytes(), sealing.CHUNK_BYTES + sealing.TAG_BYTES
    start = sealing.SALT_BYTES
    file.write_bytes(
        raw[:start]
        + raw[start + size : start + 2 * size]
        + raw[start : start + size]
        + raw[start + 2 * size :]
    )
    with pytest.raises(Rejected, match="cannot be decrypted"):
        list(folder.object_pieces(name, digest))


def test_an_encrypted_folder_tells_nothing_without_its_passphrase(tmp_path: Path) -> None:
    written(tmp_path, PASSPHRASE)
    with pytest.raises(ConfigError, match="encrypted"):
        Folder.of(tmp_path, None)
    with pytest.raises(Rejected, match="passphrase"):
        Folder.of(tmp_path, "another passphrase").manifest()
    with pytest.raises(ConfigError, match="passphrase"):
        Folder.begun(tmp_path, "another passphrase")
    with pytest.raises(ConfigError, match="with a passphrase"):
        Folder.begun(tmp_path, None)
    assert all(b"xxxxxxxx" not in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())


def test_a_plain_backup_does_not_take_the_place_of_an_encrypted_one(tmp_path: Path) -> None:
    written(tmp_path, None)
    with pytest.raises(ConfigError, match="not encrypted"):
        Folder.of(tmp_path, PASSPHRASE)


def test_a_short_passphrase_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="12"):
        Folder.begun(tmp_path / "b", "short")


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../../etc"},
        {"form": 2},
        {"collections": {"../../etc/passwd": None}},
        {"collections": {"system.users": {"documents": 0, "raw_bytes": 0, "size": 0, "sha256": "0" * 64}}},
        {"more": 1},
        {"schema": -1},
        {"storage": "elsewhere"},
    ],
)
def test_a_forged_manifest_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    folder, made = written(tmp_path, None)
    (tmp_path / "manifest.json").write_bytes(msgspec.json.encode({**msgspec.to_builtins(made), **change}))
    with pytest.raises(Rejected):
        folder.manifest()


def test_a_link_is_no_file_of_a_backup(tmp_path: Path) -> None:
    folder, made = written(tmp_path / "b", None)
    file = tmp_path / "b" / f"dump-{BACKUP}" / "runs.bson.zst"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Rejected, match="cannot be read"):
        list(folder.documents(BACKUP, "runs", made.collections["runs"]))


def test_without_a_manifest_there_is_no_backup(tmp_path: Path) -> None:
    folder, _ = written(tmp_path, None)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(Rejected, match="no backup"):
        folder.manifest()
