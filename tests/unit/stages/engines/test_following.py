"""How the log of an engine is passed on while it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

from events.testing import ManualClock
from events.text.mask import Mask
from stages.engines.following import EVERY_S, LINE_CHARS, LINES_AT_ONCE, LINES_MAX, LOOK_BYTES, Following


@dataclass
class Log:
    """A log that is written to, and what was passed on of it."""

    file: BinaryIO
    clock: ManualClock = field(default_factory=ManualClock)
    said: list[str] = field(default_factory=list)
    following: Following = field(init=False)

    def __post_init__(self) -> None:
        self.following = Following(name="e", say=self.said.append, mask=Mask(["s3cret"]), clock=self.clock)

    def looked(self, written: bytes, after_s: float = EVERY_S) -> list[str]:
        """Return what is passed on of what was written."""
        self.file.write(written)
        self.file.flush()
        self.clock.advance(after_s)
        self.said.clear()
        self.following.look(self.file)
        return [line for each in self.said for line in each.split("\n")]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with (tmp_path / "log").open("w+b") as file:
        yield Log(file)


def test_new_lines_are_passed_on_once_they_are_whole(log: Log) -> None:
    assert log.looked(b"one\n\n two\nthr") == ["e: one", "e: two"]
    assert log.looked(b"") == []
    assert log.looked(b"ee s3cret \xff\0\nfour") == ["e: three *** \ufffd"]


def test_a_look_is_taken_once_in_a_while(log: Log) -> None:
    assert log.looked(b"one\n") == ["e: one"]
    assert log.looked(b"two\n", after_s=EVERY_S / 2) == []
    assert log.looked(b"", after_s=EVERY_S / 2) == ["e: two"]
    log.file.write(b"three\n")
    log.file.flush()
    log.following.look(log.file, is_last=True)
    assert log.said[-1] == "e: three"


def test_of_many_lines_the_last_are_passed_on_and_so_many_in_all(log: Log) -> None:
    for _ in range(LINES_MAX // LINES_AT_ONCE - 1):
        assert len(log.looked(b"line\n" * LOOK_BYTES)) == LINES_AT_ONCE
    *last, end = log.looked(b"".join(b"%d\n" % each for each in range(1_000)) + b"x" * 1_000 + b"\n")
    assert last[-2:] == ["e: 999", f"e: {'x' * LINE_CHARS}"]
    assert end == "e: what follows is in its file alone"
    assert log.looked(b"more\n") == []


def _cut(log: Log) -> None:
    log.file.truncate(0)


def _replaced(log: Log) -> None:
    os.replace(log.file.name, f"{log.file.name}.old")
    Path(log.file.name).symlink_to("/etc/passwd")


@pytest.mark.parametrize("harm", [_cut, _replaced])
def test_what_is_done_to_the_file_fails_nobody(log: Log, harm: Callable[[Log], None]) -> None:
    log.looked(b"one\n" + b"y" * 2 * LOOK_BYTES)
    harm(log)
    assert log.looked(b"") == []
    assert log.looked(b"\ntwo\nthree\n")[-1] == "e: three"


def test_a_file_that_is_closed_is_not_looked_at(log: Log) -> None:
    log.file.close()
    log.following.look(log.file)
    assert log.said == []
