"""The slots of a pod: which devices each has and what it tells of them; how their supervisor keeps them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pynvml
import pytest

from events.catalog import RunCompleted, RunFailed, RunLog
from events.runtime.clock import SystemClock
from events.runtime.errors import ConfigError
from events.testing import ManualClock
from pod_worker.attempt.usage import HOUR_S, Rate, usage_of
from pod_worker.config import Settings, Wishes, read_settings
from pod_worker.health.checks import look_at_cards
from pod_worker.machine.cards import DISTURBED, NOT_OWN, CardUse
from pod_worker.machine.foreign import Family
from pod_worker.machine.gauges import Gauges
from pod_worker.machine.gpu import device_names, open_driver
from pod_worker.program import LEAVE_S as SLOT_LEAVES_S
from pod_worker.slots.division import Slot, devices_of, problem_with, share_of, slots_of
from pod_worker.slots.supervisor import (
    AGAIN_FIRST_S,
    EXIT_CONFIG,
    EXIT_LEFT_UNDELIVERED,
    EXIT_RESTART,
    LEAVE_S,
    LOCK,
    STEADY_S,
    Outcome,
    Supervisor,
    held,
    slots_to_run,
)
from testing.gpu_double.library import Library

EIGHT = [f"GPU-{letter}" for letter in "abcdefgh"]
URL = {"MONGODB_URL": "mongodb://127.0.0.1/podfleet"}


def slot(number: int, count: int = 8) -> Slot:
    return Slot(number, count, "b00t", 4711)


def settings(wishes: Wishes, **values: str) -> Settings:
    return read_settings({**URL, **values}, wishes, dotenv=Path("none"))


@pytest.mark.parametrize(
    "text",
    ["", "1", "1/2", "0/2/b/1", "1/2//1", "1/2/b/0", "1/2/b/1/1", "1/2/b\n/1", "\u0661/2/b/1"],
)
def test_only_what_a_supervisor_says_is_a_slot(text: str) -> None:
    assert Slot.read(text) is None
    with pytest.raises(ConfigError, match="--slot is "):
        settings(Wishes(slot=text))


def test_a_slot_is_said_to_its_worker_which_has_a_folder_and_a_share_of_the_price(tmp_path: Path) -> None:
    said = Wishes(data=tmp_path, slot=slot(3).argument)
    third = settings(said, PODFLEET_GPU_USD_PER_HOUR="16")
    assert (third.slot, third.data, third.pod_data) == (slot(3), tmp_path / "slots" / "3", tmp_path)
    assert third.gpu_usd_per_hour == 2.0
    assert third.environ["PODFLEET_GPU_USD_PER_HOUR"] == "2.0"
    first = settings(Wishes(data=tmp_path, slot=slot(1).argument))
    assert (first.data, first.runs_max) == (tmp_path, None), "the worker of a pod with one slot had it"
    assert settings(Wishes(slot=slot(9).argument)).runs_max == 0


@pytest.mark.parametrize("wanted", ["0", "65", "-1", "1.5", "x", "9999999999999"])
def test_a_number_of_slots_that_makes_no_sense_is_refused(wanted: str) -> None:
    with pytest.raises(ConfigError, match=r"--slots \(PODFLEET_SLOTS\) is .* from 1 to 64"):
        settings(Wishes(), PODFLEET_SLOTS=wanted)


def test_each_device_belongs_to_one_slot() -> None:
    for count in (1, 2, 4, 8):
        owned = [devices_of(slot(number, count), EIGHT) for number in range(1, count + 1)]
        assert [name for each in owned for name in each or ()] == EIGHT
    assert devices_of(slot(9), EIGHT) == []
    assert devices_of(slot(1), []) is None, "there is nothing that it could take from others"


def test_workers_of_one_machine_each_own_a_share_of_its_devices_where_they_can_be_divided() -> None:
    assert [share_of(f"{number}/4", EIGHT) for number in (1, 4)] == [EIGHT[:2], EIGHT[6:]]
    for text in ("1/3", "5/4", "0/4", "1/0", "1/16", "x", "1/4/1", ""):
        assert share_of(text, EIGHT) is None
    assert share_of("1/4", []) is None


def test_a_pod_has_a_slot_for_each_device_unless_it_says_another_number_that_fits() -> None:
    assert [slots_of(None, 8), slots_of(None, 0), slots_of(2, 8), slots_of(4, 0)] == [8, 1, 2, 4]
    assert problem_with(4, 8) is None
    assert problem_with(16, 0) is None
    assert (problem_with(3, 8) or "").endswith("the pod has 8 GPUs; slots that fit: 1, 2, 4, 8")
    assert problem_with(16, 8) is not None


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_an_hour_of_all_slots_on_eight_cards_is_eight_gpu_hours_and_the_price_of_the_pod(count: int) -> None:
    """The same holds for as many workers that somebody started, each with its CUDA_VISIBLE_DEVICES."""
    told = []
    for number in range(1, count + 1):
        named = ",".join(devices_of(slot(number, count), EIGHT) or ())
        price = settings(Wishes(slot=slot(number, count).argument), PODFLEET_GPU_USD_PER_HOUR="16")
        gauges = Gauges(open_driver(Library(count=8), named))
        told.append(usage_of(Rate(len(gauges.capabilities().gpus), price.gpu_usd_per_hour), HOUR_S))
    assert sum(each.gpu_s for each in told) == 8 * HOUR_S
    assert sum(each.cost_usd or 0 for each in told) == 16


def test_a_slot_measures_its_own_cards_alone() -> None:
    library = Library(count=8, xids=[(5, 79)])
    gauges = Gauges(open_driver(library, "GPU-e,GPU-f"))
    assert library.listened_to == [4, 5]
    sample = gauges.sample()
    assert sample.gpu_memory_mib == (5 + 6) * 512
    assert sample.gpu_temperature_c == 45
    assert sample.gpu_faults == ("Xid 79 (GPU 2)",)


def test_a_slot_whose_card_is_lost_fails_a_check_for_all_kinds_and_the_others_go_on() -> None:
    library = Library(count=2)
    slots = [Gauges(open_driver(library, name)) for name in ("GPU-a", "GPU-b")]
    library.failing["handle 0"] = pynvml.NVML_ERROR_GPU_IS_LOST
    told = [each.sample().gpu_faults for each in slots]
    found = [look_at_cards(each.watch.faults) for each in slots]
    assert told == [("lost",), ()]
    assert [(each.ok, each.code) for each in found] == [(False, "GPU_BROKEN"), (True, None)]
    assert found[0].message.startswith("its GPU fails (lost)")
    del library.failing["handle 0"]
    slots[0].sample()
    assert not look_at_cards(slots[0].watch.faults).ok, "what came back is not trusted before a restart"


def test_devices_are_divided_by_uuids_and_where_the_driver_tells_none_not_at_all() -> None:
    assert device_names(open_driver(Library(count=8))) == EIGHT
    assert device_names(open_driver(Library(count=8), "7,GPU-a,9,1")) == ["GPU-h", "GPU-a"]
    assert device_names(open_driver(Library({"uuid": 3}, count=8))) == []


def test_processes_on_a_card_that_do_not_stand_below_the_worker_are_named() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        library = Library(processes={0: [child.pid, os.getpid(), os.getppid(), 2**22 + 1, -1], 1: []})
        told = Gauges(open_driver(library, "0")).sample().gpu_foreign
        child.kill()
    assert len(told) == 1
    assert told[0].endswith(f" (pid {os.getppid()})")


def test_a_list_of_processes_may_be_damaged(tmp_path: Path) -> None:
    for pid, stat in ((7, "7 (a) b) S 8 8"), (8, "8 (x) S 7 7"), (9, "9"), (10, "10 (x) S one")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat)
        (tmp_path / str(pid) / "comm").write_bytes(b"a\x00\xff " * 1_000)
    named = [*Family(1_000, None, tmp_path).find([7, 9, 10, 11])]
    assert [str(each).endswith("(pid 7)") and len(str(each)) < 100 for each in named] == [True]
    assert not any(each.is_ours for each in named)


def family(proc: Path) -> Family:
    """Two slots below the supervisor 100, of which 102 asks; a program of the other says that it is one."""
    commands = {
        101: "--slot=1/2/b/100",
        102: "--slot=2/2/b/100",
        103: "--slot=9/9/b/100",
        300: "--slot=1/2/b/1",
    }
    for pid, parent in ((101, 100), (102, 100), (103, 101), (104, 103), (202, 102), (300, 1), (400, 100)):
        (proc / str(pid)).mkdir()
        (proc / str(pid) / "stat").write_text(f"{pid} (python) S {parent} 1")
        (proc / str(pid) / "comm").write_text("python")
        (proc / str(pid) / "cmdline").write_text("\0".join(("worker", commands.get(pid, ""), "")))
    return Family(102, 100, proc)


def test_a_process_is_of_the_slot_whose_worker_stands_above_it_whatever_it_says(
    tmp_path: Path,
) -> None:
    found = {
        str(each): (each.is_ours, each.slot) for each in family(tmp_path).find([104, 202, 102, 300, 400])
    }
    assert found == {
        "python (pid 104), slot 1": (False, 1),
        "python (pid 202)": (True, None),
        "python (pid 102)": (True, None),
        "python (pid 300)": (False, None),
        "python (pid 400)": (False, None),
    }


def test_a_run_on_the_card_of_another_slot_is_told_and_ended_if_wished_and_the_other_is_not_charged(
    tmp_path: Path,
) -> None:
    library = Library(count=2, processes={0: [104, 202], 1: [104, 300]})
    gauges = Gauges(open_driver(library, "GPU-b"), family=family(tmp_path))
    early = CardUse(gauges.watch, "end")
    assert gauges.sample().gpu_foreign == ("python (pid 104), slot 1", "python (pid 300)")
    assert early.turn() == [], "the look may have begun before the attempt"
    told, ended, later = CardUse(gauges.watch), CardUse(gauges.watch, "end"), CardUse(gauges.watch, "end")
    gauges.sample()
    gauges.sample()
    texts = [each.message for each in told.turn() if isinstance(each, RunLog)]
    assert [each.split(";")[0] for each in texts] == [
        "the run computes on a GPU that is not its own: python (pid 202) on GPU-a",
        "another run computes on a GPU of this one: python (pid 104), slot 1",
    ]
    assert told.turn() == [], "each is told once"
    assert told.offence is None
    ended.turn()
    assert ended.offence is not None
    assert (ended.offence.code, ended.offence.retryable) == (NOT_OWN, False)
    assert ended.judged(ended.offence) == ended.offence, "who did it is not excused by another who did it"
    failed = RunFailed(code="JOB_FAILED", message="status 1", retryable=False)
    judged = told.judged(failed)
    assert isinstance(judged, RunFailed)
    assert (judged.code, judged.retryable) == (DISTURBED, True)
    assert "status 1 (JOB_FAILED)" in judged.message
    library.processes = {}
    gauges.sample()
    assert (later.turn(), later.judged(failed)) == ([], failed)
    assert told.judged(RunCompleted()) == RunCompleted()


def test_nobody_is_a_stray_where_cards_are_undivided_or_cut_into_slices() -> None:
    busy = {0: [os.getpid()], 1: [os.getpid()]}
    for named in (None, "GPU-a,GPU-b", "MIG-1"):
        gauges = Gauges(open_driver(Library(processes=busy), named))
        gauges.sample()
        assert gauges.watch.last.strays == (), named


@dataclass
class Process:
    """A slot's process, which ends as the test says."""

    slot: Slot
    status: int | None = None
    heard: list[int] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.status

    def send_signal(self, sig: int) -> None:
        self.heard.append(sig)
        if sig == signal.SIGKILL:
            self.status = -sig


@dataclass
class Pod:
    """The slots of a pod, by the clock of the test."""

    count: int = 2
    clock: ManualClock = field(default_factory=ManualClock)
    stop: threading.Event = field(default_factory=threading.Event)
    started: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbers = range(1, self.count + 1)
        slots = [slot(number, self.count) for number in numbers]
        self.supervisor = Supervisor(slots, self.start, self.clock, self.stop)
        self.supervisor.begin()
        assert self.supervisor.run_once()

    def start(self, wanted: Slot) -> Process:
        self.started.append(Process(wanted))
        return self.started[-1]

    def after(self, seconds: float) -> bool:
        self.clock.advance(seconds)
        return self.supervisor.run_once()


def test_a_slot_that_dies_is_started_again_alone_and_later_each_time() -> None:
    pod = Pod()
    first, other = pod.started
    first.status = -signal.SIGKILL
    pod.after(0)
    pod.after(AGAIN_FIRST_S / 2)
    assert len(pod.started) == 2
    pod.after(AGAIN_FIRST_S)
    assert pod.started[2].slot == first.slot, "its number, boot and folder are the same"
    pod.started[2].status = 1
    pod.after(0)
    pod.after(1.5 * AGAIN_FIRST_S)
    assert len(pod.started) == 3
    pod.after(AGAIN_FIRST_S)
    pod.clock.advance(STEADY_S)
    pod.started[3].status = 1
    pod.after(0)
    pod.after(AGAIN_FIRST_S)
    assert len(pod.started) == 5, "who lived long begins with the first wait"
    assert other.heard == []


def test_a_signal_goes_to_all_slots_once_and_who_does_not_leave_in_time_is_killed() -> None:
    pod = Pod()
    first, second = pod.started
    pod.stop.set()
    assert pod.after(0)
    first.status = 0
    assert pod.after(SLOT_LEAVES_S)
    assert (first.heard, second.heard) == ([signal.SIGTERM], [signal.SIGTERM])
    assert pod.after(LEAVE_S - SLOT_LEAVES_S)
    assert second.heard == [signal.SIGTERM, signal.SIGKILL]
    assert not pod.after(0)
    assert SLOT_LEAVES_S < LEAVE_S < 5.0, "one provider gives a pod five seconds"
    assert len(pod.started) == 2
    assert pod.supervisor.outcome() == Outcome(0)


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ((0, 0), Outcome(0)),
        ((3, 3), Outcome(3)),
        ((3, EXIT_LEFT_UNDELIVERED), Outcome(3, is_delivered=False)),
        ((3, 0), Outcome(0)),
        ((EXIT_RESTART, 0), Outcome(0, restarts=True)),
        ((EXIT_RESTART, EXIT_RESTART), Outcome(0, restarts=True)),
    ],
)
def test_a_pod_has_left_when_all_its_slots_have(statuses: tuple[int, int], outcome: Outcome) -> None:
    pod = Pod()
    pod.started[0].status = statuses[0]
    assert pod.after(0)
    pod.started[1].status = statuses[1]
    assert not pod.after(100)
    assert pod.supervisor.outcome() == outcome


def test_settings_that_cannot_work_end_the_pod_and_later_trouble_does_not() -> None:
    pod = Pod()
    pod.started[0].status = EXIT_CONFIG
    assert pod.after(0)
    assert pod.started[1].heard == [signal.SIGTERM]
    pod.started[1].status = 0
    assert not pod.after(0)
    assert pod.supervisor.outcome() == Outcome(EXIT_CONFIG)
    pod = Pod()
    pod.started[0].status = 1
    pod.after(0)
    pod.after(AGAIN_FIRST_S)
    pod.started[2].status = EXIT_CONFIG
    pod.after(0)
    assert not pod.stop.is_set()


def test_what_slots_left_that_a_pod_has_no_more_is_delivered(tmp_path: Path) -> None:
    for name in ("2", "3", "65", "x", "0"):
        (tmp_path / "slots" / name).mkdir(parents=True)
        (tmp_path / "slots" / name / "outbox.db").touch()
    found = slots_to_run(2, "b", tmp_path)
    assert [(each.number, each.is_spare) for each in found] == [(1, False), (2, False), (3, True)]


def test_a_folder_has_one_supervisor(tmp_path: Path) -> None:
    clock, stop = ManualClock(), threading.Event()
    with (
        held(tmp_path, clock, stop),
        pytest.raises(ConfigError, match="another worker uses"),
        held(tmp_path, clock, stop),
    ):
        pytest.fail("nobody holds it twice")


SUPERVISOR = """
import os, sys, threading
from pathlib import Path
from events.runtime.clock import SystemClock
from pod_worker.slots.supervisor import Supervisor, held, slots_to_run, starter

folder, stop, clock = Path(sys.argv[1]), threading.Event(), SystemClock()
with held(folder, clock, stop) as lock:
    start = starter([sys.executable, "-c", sys.argv[2], str(folder)], lambda slot: dict(os.environ), lock)
    Supervisor(slots_to_run(2, "b00t", folder), start, clock, stop).run()
"""
WORKER = """
import os, signal, sys, threading
from pathlib import Path
from pod_worker.slots.division import Slot
from pod_worker.slots.parent import die_with

slot, stop = Slot.read(sys.argv[-1].removeprefix("--slot=")), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
die_with(slot, stop)
Path(sys.argv[1], f"{slot.number}.began").touch()
stop.wait(60)
Path(sys.argv[1], f"{slot.number}.left").touch()
"""


def test_slots_leave_when_their_supervisor_is_killed_and_hold_the_folder_till_then(
    tmp_path: Path,
) -> None:
    clock, never = SystemClock(), threading.Event()

    def wait_for(names: set[str]) -> None:
        until_s = clock.monotonic_s() + 60
        while {each.name for each in tmp_path.iterdir()} < names:
            assert clock.monotonic_s() < until_s
            clock.wait(never, 0.02)

    with subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path), WORKER]) as supervisor:
        wait_for({"1.began", "2.began", LOCK})
        supervisor.kill()
    with held(tmp_path, clock, never):
        assert {"1.left", "2.left"} <= {each.name for each in tmp_path.iterdir()}
