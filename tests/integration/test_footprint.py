"""What a program's watch sees of its disk and its processes, where a program would rather not be seen."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stages.adapters.sandbox.control_group import ControlGroup
from stages.adapters.sandbox.footprint import (
    Process,
    descendants,
    nameless_bytes,
    near_descendants,
)
from stages.isolation.disk_use import DEPTH_MAX, SMALLEST_BYTES, disk_use, free_bytes

MIB = 1 << 20
Until = Callable[..., None]
Look = Callable[[int], list[Process]]
NOBODY = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a user without rights can reach and owns, where the tests run as root."""
    made = Path(tempfile.mkdtemp())
    if os.getuid() == 0:
        os.chown(made, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


def holds_without_rights(check: Callable[[], bool]) -> bool:
    """Return what a check says to a user who may not read everything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: this one ends at once
        pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_file_counts_what_it_takes_and_at_least_its_entry(folder: Path) -> None:
    (folder / "big").write_bytes(bytes(MIB))
    (folder / "empty").touch()
    (folder / "below").mkdir()
    (folder / "below" / "sparse").touch()
    os.truncate(folder / "below" / "sparse", 1 << 40)
    assert MIB + 3 * SMALLEST_BYTES <= disk_use(str(folder), sys.maxsize).used_bytes < 2 * MIB


def test_several_names_are_one_file_and_a_link_is_no_way_out(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(bytes(MIB))
    (folder / "file").write_bytes(bytes(MIB))
    for number in range(5):
        os.link(folder / "file", folder / f"name{number}")
    os.symlink(tmp_path, folder / "link")
    assert disk_use(str(folder), sys.maxsize).used_bytes < 2 * MIB


def test_nothing_is_counted_beyond_the_limit(folder: Path) -> None:
    for number in range(50):
        (folder / str(number)).touch()
    assert disk_use(str(folder), 10 * SMALLEST_BYTES).used_bytes == 11 * SMALLEST_BYTES


@pytest.mark.parametrize(("depth", "is_hiding"), [(DEPTH_MAX - 1, False), (DEPTH_MAX + 2, True)])
def test_a_folder_nobody_goes_down_to_is_a_hiding_place(folder: Path, depth: int, is_hiding: bool) -> None:
    folder.joinpath(*"d" * depth).mkdir(parents=True)
    assert disk_use(str(folder), sys.maxsize).is_hiding == is_hiding


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o600])
def test_a_folder_that_may_not_be_looked_into_is_a_hiding_place(folder: Path, mode: int) -> None:
    (folder / "shut").mkdir()
    (folder / "shut" / "file").touch()
    if os.getuid() == 0:
        os.chown(folder / "shut", NOBODY, NOBODY)
    (folder / "shut").chmod(mode)
    try:
        assert holds_without_rights(lambda: disk_use(str(folder), sys.maxsize).is_hiding)
    finally:
        (folder / "shut").chmod(0o700)


def test_what_is_open_without_a_name_is_seen(folder: Path, until: Until) -> None:
    ready, told = os.pipe()
    done, ending = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(None).prctl(
                15, b") R 1 1 (1", 0, 0, 0
            )  # its name: as if its line in /proc began anew
            held = os.open(folder / "file", os.O_RDWR | os.O_CREAT)
            os.unlink(folder / "file")
            os.write(held, bytes(MIB))
            os.write(told, b".")
            os.close(ending)
            os.read(done, 1)
        finally:
            os._exit(0)
    try:
        os.read(ready, 1)
        for look in (near_descendants, descendants):
            found: list[Process] = []

            def is_seen(look: Look = look, found: list[Process] = found) -> bool:
                found += [process for process in look(os.getpid()) if process.pid == pid]
                return bool(found)

            until(is_seen)  # the kernel's list lacks it for a moment where another child ends
            assert [(process.parent, process.threads) for process in found] == [(os.getpid(), 1)]
        # it has inherited what this process has open, and its output is kept in such files
        inherited = nameless_bytes([replace(found[0], pid=os.getpid())])
        assert MIB <= nameless_bytes(found) - inherited < 2 * MIB
        assert disk_use(str(folder), sys.maxsize).used_bytes == 0
    finally:
        for fd in (ready, told, done, ending):
            os.close(fd)
        os.waitpid(pid, 0)


def test_what_is_left_of_the_disk_is_what_the_system_says(tmp_path: Path) -> None:
    assert free_bytes(str(tmp_path)) == pytest.approx(shutil.disk_usage(tmp_path).free, abs=256 * MIB)


def test_a_control_group_tells_the_time_of_processors_in_seconds(folder: Path) -> None:
    group = ControlGroup((folder / "none", folder))
    assert group.processor_s() == 0
    (folder / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1000000\n")
    assert group.processor_s() == 1.5
