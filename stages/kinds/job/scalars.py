"""The numbers in event files of TensorBoard: records, and the scalars in each; pure.

Law: a program may write anything into such a file. A record whose checksum is wrong, or that is no event, is
`BadRecord`; a long one, which holds no number alone, is passed over, and none is held that is longer.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

RECORD_BYTES_MAX: Final = 64 * 1024  # of one that is read: pictures and histograms are longer
SKIPPED_BYTES_MAX: Final = 1 << 30
VALUES_MAX: Final = 256  # of one record
TAG_CHARS_MAX: Final = 200
STEP_MAX: Final = 2**53
HEAD: Final = 12  # the length of a record, and the checksum of that
FOOT: Final = 4
VARINT_BYTES_MAX: Final = 10
_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C
_MASK_DELTA: Final = 0xA282EAD8


class BadRecord(ValueError):
    """What a file holds is no record of events; the text says why."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number of a step, which may be not finite."""

    tag: str
    step: int
    value: float


def _entry(number: int) -> int:
    for _ in range(8):
        number = (number >> 1) ^ (_POLYNOMIAL if number & 1 else 0)
    return number


_TABLE: Final = tuple(map(_entry, range(256)))


def checksum(data: bytes) -> int:
    """Return the masked CRC-32C of bytes, as these files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def length_of(head: bytes) -> int:
    """Return the bytes of the record that begins with this. Raises `BadRecord`."""
    length, crc = struct.unpack("<QI", head)
    if checksum(head[:8]) != crc:
        raise BadRecord("the length of a record has another checksum")
    if length > SKIPPED_BYTES_MAX:
        raise BadRecord(f"a record has {length:,} bytes")
    return int(length)


def scalars_of(record: bytes, foot: bytes) -> list[Scalar]:
    """Return the scalars of a record, whose checksum is `foot`. Raises `BadRecord`."""
    if checksum(record) != int.from_bytes(foot, "little"):
        raise BadRecord("a record has another checksum")
    step, found = 0, list[tuple[str, float]]()
    for number, value in _fields(record):
        if number == 2 and isinstance(value, int):
            step = _signed(value)
        elif number == 5 and isinstance(value, bytes):
            found += _summary(value)
    if abs(step) > STEP_MAX:
        raise BadRecord(f"a record is of step {step}")
    return [Scalar(tag, step, value) for tag, value in found[:VALUES_MAX]]


def _summary(data: bytes) -> Iterator[tuple[str, float]]:
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            yield from _value(value)


def _value(data: bytes) -> Iterator[tuple[str, float]]:
    """Yield the tag and the number of a value, where it is one."""
    tag, numbers = "", list[float]()
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode(errors="replace")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            numbers = [struct.unpack("<f", value)[0]]
        elif number == 8 and isinstance(value, bytes):
            numbers = _tensor(value)
    if tag and len(numbers) == 1 and tag.isprintable() and len(tag) <= TAG_CHARS_MAX:
        yield tag, numbers[0]


# The types of tensors whose one element is a number: how it is packed.
_PACKED: Final = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}


def _tensor(data: bytes) -> list[float]:
    """Return the one number of a tensor; nothing where it has others, or none."""
    kind, content, numbers = 0, b"", list[float]()
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in (5, 6) and isinstance(value, bytes):
            numbers += _floats(value, "<f" if number == 5 else "<d")
        elif number in (7, 10):
            numbers += [float(_signed(each)) for each in _integers(value)]
    if kind not in _PACKED:
        return []
    if content:
        numbers = _floats(content, _PACKED[kind])
    return numbers if len(numbers) == 1 else []


def _floats(data: bytes, form: str) -> list[float]:
    """Return the number that bytes are; of more than one none."""
    return [float(struct.unpack(form, data)[0])] if len(data) == struct.calcsize(form) else [math.nan] * 2


def _integers(value: int | bytes) -> Iterator[int]:
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message. Raises `BadRecord`."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                number, at = _varint(data, at)
                yield key >> 3, number
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(data, at)
            case 5:
                size = 4
            case kind:
                raise BadRecord(f"an event has a field of the type {kind}")
        if size > len(data) - at:
            raise BadRecord("an event ends within a field")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for index in range(VARINT_BYTES_MAX):
        if at + index >= len(data):
            break
        byte = data[at + index]
        found |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return found & (2**64 - 1), at + index + 1
    raise BadRecord("an event ends within a number")


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
