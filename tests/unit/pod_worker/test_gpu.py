"""What the machine has and how much of it is in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from pod_worker.machine.gauges import Gauges
from pod_worker.machine.gpu import MIB, Gpu, GpuUse, NoDriver, NvmlDriver, OtherCard, open_driver
from stages.adapters.gpus import visible_gpus
from testing.gpu_double.library import Library


@dataclass
class Devices:
    """A driver that says what it is told to say."""

    readings: Sequence[GpuUse] = ()

    def version(self) -> str | None:
        return None

    def gpus(self) -> Sequence[Gpu]:
        return [Gpu(f"GPU {index}", 1024.0) for index, _ in enumerate(self.readings)]

    def use(self) -> Sequence[GpuUse]:
        return self.readings

    def others(self) -> Sequence[OtherCard]:
        return ()


def test_several_devices_give_mean_utilisation_total_memory_and_highest_temperature() -> None:
    sample = Gauges(open_driver(Library())).sample()
    assert sample.gpu_util == 0.5
    assert sample.gpu_memory_mib == 1536
    assert sample.gpu_temperature_c == 41


def test_devices_are_listed_with_name_and_memory() -> None:
    gpus = Gauges(open_driver(Library())).capabilities().gpus
    assert gpus == tuple(Gpu("NVIDIA H100 80GB HBM3", 81559, "9.0", uuid) for uuid in ("GPU-a", "GPU-b"))
    library = Library(failing={"capability": pynvml.NVML_ERROR_NOT_SUPPORTED})
    assert Gauges(open_driver(library)).capabilities().gpus[0].compute_capability is None


def test_the_driver_tells_its_release_or_none_and_the_disk_is_that_of_the_data(tmp_path: Path) -> None:
    told = Gauges(open_driver(Library()), tmp_path).capabilities()
    assert told.driver == "550.54.15"
    assert told.disk_mib == psutil.disk_usage(str(tmp_path)).total / MIB
    mute = Gauges(open_driver(Library(failing={"version": pynvml.NVML_ERROR_UNKNOWN}))).capabilities()
    assert (mute.driver, mute.disk_mib) == (None, None)
    assert Gauges(NoDriver()).capabilities().driver is None


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED])
def test_a_machine_without_a_driver_has_no_devices(error: int) -> None:
    gauges = Gauges(open_driver(Library(failing={"init": error})))
    sample = gauges.sample()
    assert gauges.capabilities().gpus == ()
    assert (sample.gpu_util, sample.gpu_memory_mib, sample.gpu_temperature_c) == (None, None, None)


def test_the_driver_of_this_machine_can_be_asked() -> None:
    driver = open_driver()
    assert isinstance(driver, NoDriver | NvmlDriver)
    assert len(driver.gpus()) == len(driver.use())


@pytest.mark.parametrize(
    ("question", "missing"),
    [("rates", "gpu_util"), ("memory", "gpu_memory_mib"), ("temperature", "gpu_temperature_c")],
)
def test_what_a_device_cannot_tell_is_none_and_the_rest_is_told(question: str, missing: str) -> None:
    library = Library(failing={question: pynvml.NVML_ERROR_NOT_SUPPORTED})
    sample = Gauges(NvmlDriver(library)).sample()
    told = {
        name
        for name in ("gpu_util", "gpu_memory_mib", "gpu_temperature_c")
        if getattr(sample, name) is not None
    }
    assert told == {"gpu_util", "gpu_memory_mib", "gpu_temperature_c"} - {missing}


def test_a_device_that_is_lost_leaves_the_others() -> None:
    library = Library(failing={"handle 0": pynvml.NVML_ERROR_GPU_IS_LOST})
    sample = Gauges(NvmlDriver(library)).sample()
    assert (sample.gpu_util, sample.gpu_memory_mib) == (0.75, 1024)


def test_a_driver_that_is_lost_leaves_the_sample_of_the_cpu() -> None:
    sample = Gauges(NvmlDriver(Library(failing={"count": pynvml.NVML_ERROR_UNKNOWN}))).sample()
    assert sample.gpu_util is None
    assert sample.memory_mib > 0


def test_an_idle_device_is_at_zero_and_not_unknown() -> None:
    sample = Gauges(Devices([GpuUse(0.0, 0.0, 30.0)])).sample()
    assert (sample.gpu_util, sample.gpu_memory_mib) == (0.0, 0.0)


def test_cpu_utilisation_is_what_happened_between_two_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(
        [_cpu_times(user=100, idle=100), _cpu_times(user=130, idle=190), _cpu_times(user=130, idle=190)]
    )
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    gauges = Gauges(NoDriver())
    assert gauges.sample().cpu_util is None
    assert gauges.sample().cpu_util == pytest.approx(0.25)
    assert gauges.sample().cpu_util is None  # no time went by


def test_the_real_machine_gives_sensible_numbers() -> None:
    gauges = Gauges(NoDriver())
    capabilities, sample = gauges.capabilities(), gauges.sample()
    assert capabilities.cpus >= 1
    assert 0 < sample.memory_mib < capabilities.memory_mib


def _cpu_times(*, user: float, idle: float) -> Any:
    names = type(psutil.cpu_times())._fields
    values = dict.fromkeys(names, 0.0) | {
        "user": user - 10,
        "iowait": 10.0,
        "idle": idle - 10,
        "system": 10.0,
    }
    # guest time counts as user time already, and must not count twice
    return type(psutil.cpu_times())(**(values | {"guest": 5.0}))


def test_a_sound_gpu_has_no_faults_whatever_happened_before_and_whatever_programs_do() -> None:
    library = Library(xids=[(0, 13), (1, 31), (1, 43)])  # errors of programs
    gauges = Gauges(open_driver(library))
    assert library.listened_to == [0, 1]
    assert gauges.sample().gpu_faults == ()
    assert gauges.sample().gpu_faults == ()


def test_faults_of_the_hardware_are_told_until_the_worker_ends() -> None:
    library = Library()
    gauges = Gauges(open_driver(library))
    library.xids = [(1, 79), (1, 79), (0, 31)]
    assert gauges.sample().gpu_faults == ("Xid 79 (GPU 2)",)
    library.uncorrected += 1
    library.failing["memory"] = pynvml.NVML_ERROR_GPU_IS_LOST
    told = ("lost (GPU 1)", "Xid 79 (GPU 2)", "lost (GPU 2)", "uncorrected ECC error (GPU 2)")
    assert gauges.sample().gpu_faults == told
    library.failing.clear()
    assert gauges.sample().gpu_faults == told


def test_a_device_that_no_longer_answers_is_lost_and_one_that_may_not_be_asked_is_not() -> None:
    library = Library()
    gauges = Gauges(open_driver(library))
    library.failing = {"handle 0": pynvml.NVML_ERROR_GPU_IS_LOST, "handle 1": pynvml.NVML_ERROR_NO_PERMISSION}
    assert gauges.sample().gpu_faults == ("lost (GPU 1)",)


def test_a_driver_without_events_and_error_counts_tells_the_rest() -> None:
    library = Library(
        failing={"events": pynvml.NVML_ERROR_NOT_SUPPORTED, "ecc": pynvml.NVML_ERROR_NOT_SUPPORTED}
    )
    gauges = Gauges(open_driver(library))
    assert gauges.sample().gpu_faults == ()
    assert gauges.sample().gpu_util == 0.5


@pytest.mark.parametrize(
    ("named", "count"),
    [
        (None, 2),
        ("", 0),
        ("0", 1),
        ("0,1", 2),
        ("GPU-a, GPU-b", 2),
        ("0,-1,1", 1),
        ("0,1,2,3,4", 2),
        ("-1", 0),
    ],
)
def test_programs_see_as_many_devices_as_their_environment_names(named: str | None, count: int) -> None:
    environ = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert len(visible_gpus(environ, Library())) == count
    assert not visible_gpus(environ, Library({"init": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}))
