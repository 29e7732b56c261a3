"""Event files of TensorBoard: those of real writers, files that grow, and files that lie."""

from __future__ import annotations

import base64
import random
import struct
from pathlib import Path
from typing import Final

import pytest

from stages.kinds.job import event_files
from stages.kinds.job.event_files import EventFiles
from stages.kinds.job.scalars import BadRecord, Scalar, checksum, length_of, scalars_of
from testing.bench.machine import CLOCK

# add_scalar("loss", 0.25, 3, new_style=True), add_scalar("old", 7.0, -1), add_scalar("double", 0.125, 4,
# new_style=True, double_precision=True) and add_histogram, by torch.utils.tensorboard 2.13.0.
OF_TORCH: Final = base64.b64decode("""
SAAAAAAAAAD+kkidCTSTIh6CwtpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50
X2ZpbGVfd3JpdGVyc9MFWywAAAAAAAAA9K7MRQmKnSIegsLaQRADKh8KHQoEbG9zc0IICAEqBAAAgD5KCwoJCgdzY2FsYXJz
6gtJKyIAAAAAAAAAeBE9/QnYnSIegsLaQRD///////////8BKgwKCgoDb2xkFQAA4EARDEtFMgAAAAAAAAAkGVbsCRmeIh6C
wtpBEAQqJQojCgZkb3VibGVCDAgCMggAAAAAAADAP0oLCgkKB3NjYWxhcnOLteU6cAAAAAAAAACUKa3NCZgPIx6CwtpBKmUK
YwoHd2VpZ2h0cypYEQAAAAAAAABAGQAAAAAAAAhAIQAAAAAAAAhAKQAAAAAAABRAMhgAAAAAAAAAAAAAAAAAAPA/AAAAAAAA
AEA6GAAAAAAAAAAAAAAAAAAA8D8AAAAAAAAAQDgqWxU=
""")
# add_scalar("loss", 0.5, 1), add_text, and add_scalar("odd", nan, 2), by tensorboardX 2.6.5.
OF_TENSORBOARDX: Final = base64.b64decode("""
GAAAAAAAAACjf0siCUosFh6CwtpBGg1icmFpbi5FdmVudDoywYQtHBoAAAAAAAAAEpvYLQmDQBYegsLaQRABKg0KCwoEbG9z
cxUAAAA/VmWA+T0AAAAAAAAAYEnx7AlISRYegsLaQRABKjAKLgoRbm90ZS90ZXh0X3N1bW1hcnlCDwgHEgQSAggBQgV3b3Jk
c0oICgYKBHRleHTz76I6GQAAAAAAAACL8QgoCaeAFh6CwtpBEAIqDAoKCgNvZGQVAADAf660EDU=
""")
NAME: Final = "events.out.tfevents.1"


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return b"".join([head, checksum(head).to_bytes(4, "little"), data, checksum(data).to_bytes(4, "little")])


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def number(tag: str, value: float, step: int = 0) -> bytes:
    summary = field(1, field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
    return record(bytes([2 << 3, step]) + field(5, summary))


class Reader:
    """Event files of a folder, and what is said of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[tuple[str, float, int]] = []
        self.warned: list[str] = []
        self.files = EventFiles(folder, lambda *each: self.said.append(each), self.warned.append, CLOCK)


def test_the_scalars_of_real_writers_are_said_with_their_folders(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    (tmp_path / NAME).write_bytes(OF_TORCH)
    (tmp_path / "train" / "x").mkdir(parents=True)
    (tmp_path / "train" / "x" / NAME).write_bytes(OF_TENSORBOARDX)
    (tmp_path / "other.txt").write_bytes(OF_TORCH)
    (tmp_path / f"link.{NAME}").symlink_to(tmp_path / NAME)
    reader.files.finish()
    assert reader.said[:3] == [("loss", 0.25, 3), ("old", 7.0, -1), ("double", 0.125, 4)]
    assert reader.said[3] == ("train/x/loss", 0.5, 1)
    assert str(reader.said[4:]) == "[('train/x/odd', nan, 2)]"
    assert reader.warned == []


def test_a_file_is_followed_while_it_is_written_each_record_once(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    whole = number("a", 1.0, 1) + number("a", 2.0, 2)
    for cut in range(1, len(whole) + 1):
        (tmp_path / NAME).write_bytes(whole[:cut])
        reader.files.look()
    assert reader.said == [("a", 1.0, 1), ("a", 2.0, 2)]
    (tmp_path / NAME).write_bytes(b"")
    reader.files.look()
    reader.files.look()
    assert reader.warned == [f"{NAME} is read no further: it has become shorter"]


def test_a_look_takes_a_bounded_part_and_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "RECORDS_MAX", 4)
    monkeypatch.setattr(event_files, "FILES_MAX", 2)
    reader = Reader(tmp_path)
    (tmp_path / f"a.{NAME}").write_bytes(number("a", 1.0) * 9)
    (tmp_path / f"b.{NAME}").write_bytes(number("b", 1.0) + record(bytes(70_000)) + number("b", 2.0))
    (tmp_path / f"c.{NAME}").write_bytes(number("c", 1.0))
    reader.files.look()
    assert len(reader.said) == 4
    reader.files.look()
    assert ("b", 2.0, 0) in reader.said
    reader.files.finish()
    assert len(reader.said) == 11
    assert reader.warned == ["of event files 2 are read: the others are kept, and drawn nowhere"]


def broken(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"this is no event file", "the length of a record has another checksum"),
        (broken(number("a", 1.0), 0), "the length of a record has another checksum"),
        (broken(number("a", 1.0), 20), "a record has another checksum"),
        (struct.pack("<QI", 2**40, checksum(struct.pack("<Q", 2**40))), "a record has 1,099,511,627,776"),
        (record(b"\x0b"), "an event has a field of the type 3"),
        (record(b"\x2a\xff\xff\xff\xff\x7f"), "an event ends within a field"),
        (record(b"\x10" + b"\xff" * 11), "an event ends within a number"),
        (record(b"\x10" + b"\xff" * 8 + b"\x7f"), "a record is of step"),
        (record(field(5, field(1, field(8, b"\x08\x01\x2a\x7f")))), "an event ends within a field"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_file_that_lies_is_given_up_and_others_are_read_on(
    tmp_path: Path, content: bytes, why: str
) -> None:
    reader = Reader(tmp_path)
    (tmp_path / f"a.{NAME}").write_bytes(content + number("a", 1.0))
    (tmp_path / f"b.{NAME}").write_bytes(number("b", 1.0))
    reader.files.finish()
    reader.files.finish()
    assert reader.said == [("b", 1.0, 0)]
    assert len(reader.warned) == 1
    assert reader.warned[0].startswith(f"a.{NAME} is read no further: {why}")


@pytest.mark.parametrize(
    "value",
    [
        field(1, b"\x1b[0m") + b"\x15" + bytes(4),
        field(1, b"a") + field(8, b"\x08\x01" + field(5, bytes(8))),
        field(1, b"text") + field(8, b"\x08\x07" + field(8, b"words")),
        b"\x15" + bytes(4),
    ],
    ids=["escape", "two", "text", "unnamed"],
)
def test_what_is_no_number_with_a_name_is_left_out(value: bytes) -> None:
    data = field(5, field(1, value))
    assert scalars_of(data, checksum(data).to_bytes(4, "little")) == []


def test_whatever_bytes_a_record_has_it_is_read_or_refused() -> None:
    chance = random.Random(7)
    known = number("a", 1.0, 5)
    for _ in range(3_000):
        data = bytearray(known[12:-4])
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            found = scalars_of(bytes(data), checksum(bytes(data)).to_bytes(4, "little"))
        except BadRecord:
            continue
        assert all(isinstance(each, Scalar) and isinstance(each.value, float) for each in found)


def test_the_checksum_is_that_of_the_format() -> None:
    assert length_of(OF_TORCH[:12]) == 72
    assert checksum(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
