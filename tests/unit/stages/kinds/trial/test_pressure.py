"""What others use beside a measurement, read from files that say anything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.runtime.clock import SystemClock
from stages.kinds.trial.pressure import TICKS_PER_S, Machine, Used, between

NOTHING: dict[str, float | None] = {}


def used(at_s: float, all_s: float, own_s: float, stalled_s: float | None = None) -> Used:
    return Used(at_s=at_s, all_s=all_s, own_s=own_s, stalled_s=stalled_s)


def test_others_have_what_is_not_ones_own() -> None:
    pressure = between(used(10, 100, 5, 1.0), used(20, 118, 15, 3.5), NOTHING, cores=2)

    assert pressure.others_cores == pytest.approx(0.8)
    assert pressure.stalled == pytest.approx(0.25)
    assert pressure.is_above(0.25)
    assert not pressure.is_above(0.5)


def test_what_cannot_be_read_disturbs_nothing() -> None:
    pressure = between(used(10, 0, 0), used(20, 0, 0), NOTHING, cores=2)

    assert not pressure.is_above(0.01)
    assert set(pressure.values.values()) == {None}


def test_another_process_on_a_gpu_disturbs_whatever_the_processors_do() -> None:
    assert between(used(1, 1, 1), used(2, 1, 1), {"gpu_processes": 1}, cores=2).is_above(1.0)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(session=os.getpid(), clock=SystemClock(), root=tmp_path, living=lambda _: [])


def write(root: Path, name: str, content: bytes) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def test_only_the_cores_that_it_may_use_are_counted(machine: Machine, tmp_path: Path) -> None:
    own = min(machine.cores)
    ticks = f"{100 * TICKS_PER_S} 0 {10 * TICKS_PER_S} 999999 5 0 {TICKS_PER_S} 0 0 0"
    write(tmp_path, "proc/stat", f"cpu  1 1 1\ncpu{own} {ticks}\ncpu99999 {ticks}\nintr 1\n".encode())
    write(tmp_path, f"proc/{os.getpid()}/stat", b"1 (a) b) R 1 1 1 0 0 0 0 0 0 0 200 100 50 50 0")
    write(tmp_path, "proc/pressure/cpu", b"some avg10=1.00 avg60=0.00 total=2500000\nfull total=1\n")

    found = machine.used()

    assert found.all_s == pytest.approx(111.0)
    assert found.own_s == pytest.approx(400 / TICKS_PER_S)
    assert found.stalled_s == pytest.approx(2.5)


LIES = [
    b"",
    b"\xff\xfe\x00" * 100,
    b"some total=\n",
    b"cpu0\n",
    b"cpu0 x y z -1 9e99\n",
    b"cpu MHz : never\ncpu MHz\n",
    b"9" * (2 << 20),
]


@pytest.mark.parametrize("lie", LIES)
def test_files_that_say_nothing_of_use_are_no_numbers(machine: Machine, tmp_path: Path, lie: bytes) -> None:
    names = ("proc/stat", "proc/pressure/cpu", "proc/cpuinfo", f"proc/{os.getpid()}/stat")
    for name in (*names, "sys/class/thermal/thermal_zone0/temp"):
        write(tmp_path, name, lie)

    pressure = machine.until_now(machine.used())

    assert not pressure.is_above(0.0001)


@pytest.fixture
def busy() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process.pid
        process.kill()


def test_what_a_session_uses_is_seen_as_its_own_and_in_the_whole(busy: int) -> None:
    machine = Machine(session=busy, clock=SystemClock(), living=lambda session: [session])
    start = end = machine.used()
    while end.own_s - start.own_s < 0.2:
        end = machine.used()

    assert end.all_s - start.all_s > 0.1
    pressure = machine.until_now(start)
    assert pressure.others_cores is not None
    assert pressure.others_cores <= pressure.cores


def test_what_a_program_used_that_was_waited_for_is_ones_own() -> None:
    machine = Machine(session=os.getpid(), clock=SystemClock())
    before = machine.used()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-S", "-c", burn], check=True, start_new_session=True)
    assert machine.used().own_s - before.own_s >= 0.25
