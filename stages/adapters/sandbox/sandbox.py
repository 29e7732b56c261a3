"""Executes hostile programs on this machine, confined by the best isolation that a probe has found.

Law: the process that starts and watches a program (`program_supervisor`) is a child of ours with an empty
environment. It kills the program when our end of its pipe closes. So no exception here, and no death of this
process, leaves anything behind.
"""

from __future__ import annotations

import glob
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from events.runtime.clock import Clock
from events.runtime.errors import Canceled, PipelineError
from stages.adapters.sandbox import kernel
from stages.adapters.sandbox.known_data import around, known_data
from stages.adapters.sandbox.prober import Held, try_out
from stages.isolation import levels
from stages.isolation.disk_use import disk_use
from stages.isolation.levels import CANDIDATES, Candidate, Machine, Plan, Report, Trial
from stages.isolation.sandbox import Ended, Isolation, Job, Policy, Start

SUPERVISOR: Final = "stages.adapters.sandbox.program_supervisor"
LAUNCHER: Final = "stages.adapters.sandbox.launcher"
ROOT: Final = str(Path(__file__).parents[3])
# Without the packages of the environment: what starts hostile programs needs none, and starts faster.
BOOT: Final = f"import sys; sys.path.append(sys.argv[1]); from {SUPERVISOR} import main; main()"
LAUNCH: Final = f"import sys; sys.path.append(sys.argv[1]); from {LAUNCHER} import main; main()"
LOOK_MS: Final = 100
TICK_MAX_S: Final = 1.0
PATIENCE_S: Final = 60.0  # beyond a program's own limit, for a watch that is stuck
LEAVE_S: Final = 30.0
ANSWER_BYTES_MAX: Final = 1 << 20
SCRIPTS: Final = Held()

SYSTEM: Final = (
    *("/usr", "/nix/store", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/localtime", "/sys/devices/system/cpu", "/sys/devices/system/node"),
)
AT_ROOT: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
GPU_DEVICES: Final = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/nvidia-modeset",
                      "/dev/nvidia-caps/*", "/dev/dxg")  # fmt: skip
GPU_FACTS: Final = ("/proc/driver/nvidia", "/proc/devices", "/proc/modules", "/etc/nvidia",
                    "/sys/devices", "/sys/bus", "/sys/class", "/sys/module")  # fmt: skip


@dataclass(slots=True, kw_only=True)
class LocalSandbox:
    """The sandbox of this machine.

    `gpus` are the names in CUDA_VISIBLE_DEVICES, where the operator set it: `Job.gpu` counts
    among them. `stop` ends every program; `run` then raises `Canceled`.
    """

    clock: Clock
    policy: Policy = "strict"
    stop: threading.Event = field(default_factory=threading.Event)
    gpus: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = CANDIDATES
    _settling: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _machine: Machine | None = None
    _whole: Machine | None = None  # with the data sets that packages bring along
    _trials: dict[Held, tuple[Trial, ...]] = field(default_factory=dict)

    def isolation(self) -> Isolation:
        """Return the isolation in force; the first call probes."""
        trial, machine = self._settled(SCRIPTS, self.policy)
        return levels.described(trial, machine)

    def run(self, job: Job) -> Ended:
        """Run a program to its end; nothing of its process tree is left afterwards."""
        trial, machine = self._settled(SCRIPTS, self.policy)
        given = _prepared(job)
        plan = levels.plan(trial.candidate, _linked(machine, job), given)
        try:
            report = self._report(plan, {}, lambda _: None)
        finally:
            _open_up(given.folder)
            if disk_use(str(given.folder), sys.maxsize).is_hiding:
                _empty(given.folder)  # nobody reads what lies so deep, and few could clear it up
            _clear(given.folder)
        return levels.ended(report, plan)

    def start(self, job: Job, folder: Path, environment: Mapping[str, str]) -> Start:
        """Return how a program is started in a folder, strictly held, without limits."""
        held = Held(network=job.network, is_session=job.is_session)
        trial, machine = self._settled(held, "strict")
        given = _prepared(job)
        plan = levels.start_plan(trial.candidate, _linked(machine, job), given, folder.resolve(), environment)
        words = (sys.executable, "-I", "-S", "-c", LAUNCH, ROOT)
        return Start(
            words=words,
            plan=plan.encode(),
            isolation=levels.described(trial, machine),
            has_modes=trial.candidate.namespaces,
        )

    def _settled(self, held: Held, policy: Policy) -> tuple[Trial, Machine]:
        with self._settling:
            if held == SCRIPTS:
                machine = self._machine = self._machine or found_machine(self.gpus)
            else:
                machine = self._whole = self._whole or found_machine(self.gpus, masks=False)
            if held not in self._trials:
                self._trials[held] = tuple(self._tried(machine, held))
            trials = self._trials[held]
        chosen = levels.chosen(trials, policy)
        if chosen is None:
            why = levels.refusal(trials, policy) if held == SCRIPTS else levels.no_start(trials)
            raise PipelineError("NO_ISOLATION", why)
        return chosen, machine

    def _tried(self, machine: Machine, held: Held) -> list[Trial]:
        """Probe the candidates, best first, until one is strict."""

        def run(
            candidate: Candidate, job: Job, environ: dict[str, str], begun: Callable[[int], None]
        ) -> Report:
            plan = levels.plan(candidate, machine, _prepared(job))
            return self._report(plan, environ, begun)

        trials: list[Trial] = []
        for candidate in self.candidates:
            obstacle = levels.obstacle(candidate, machine)
            tried = Trial(candidate, obstacle) if obstacle else try_out(candidate, run, machine.masked, held)
            trials.append(tried)
            if trials[-1].is_strict:
                break
        return trials

    def _report(self, plan: Plan, environ: dict[str, str], begun: Callable[[int], None]) -> Report:
        with Watched(environ) as watched:
            begun(watched.pid)
            return watched.serve(plan, self.clock, self.stop)


class Watched:
    """The process that starts and watches one program, and our end of the line to it."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", BOOT, ROOT],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env=environ,
            )
        self.pid: Final = self._process.pid

    def serve(self, plan: Plan, clock: Clock, stop: threading.Event) -> Report:
        """Have the program run; raises `Canceled` as soon as `stop` is set."""
        with suppress(ConnectionError):  # it is dead, and has said why
            self._line.sendall(plan.encode())
        poller = select.poll()
        poller.register(self._line, select.POLLIN)
        answer = b""
        waited_s, last_s = 0.0, clock.monotonic_s()
        while waited_s <= plan.limits.wall_s + PATIENCE_S:
            if stop.is_set():
                raise Canceled("the pipeline was asked to stop")
            if poller.poll(LOOK_MS):
                piece = self._heard()
                answer += piece
                if not piece or len(answer) > ANSWER_BYTES_MAX:
                    return self._told(answer, waited_s)
            now_s = clock.monotonic_s()
            waited_s += min(now_s - last_s, TICK_MAX_S)
            last_s = now_s
        self._process.kill()
        return self._told(answer, waited_s)

    def _heard(self) -> bytes:
        try:
            return self._line.recv(1 << 16)
        except ConnectionError:
            return b""

    def _told(self, answer: bytes, waited_s: float) -> Report:
        """Return the report, or a substitute for a watch that ended, or hung, without one."""
        if answer.endswith(b"\n"):
            return Report.decode(answer)
        assert self._process.stderr is not None
        words = self._process.stderr.read().decode(errors="replace").strip()
        last = words.splitlines()[-1] if words else "it says nothing"
        lost = f"the process that watches it ended early, and the program with it: {last}"
        return Report(breach=None, status=None, seconds=waited_s, tail="", lost=lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the line, which ends the program, and wait until all is gone."""
        self._line.close()
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()


def found_machine(gpus: tuple[str, ...] = (), *, masks: bool = True) -> Machine:
    """Look at what this machine has, and with `masks` for what of it nobody shall read."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    ours = {*prefixes, *_hops(sys.executable), *(name for name in AT_ROOT if not os.path.islink(name))}
    visible = {path for each in (*SYSTEM, *ours) for path in (each, os.path.realpath(each))}
    shown = tuple(sorted(path for path in _outermost(visible - {"/"}) if os.path.exists(path)))
    masked = known_data(shown) if masks else ()
    pieces = [around(path, masked) for path in shown] if masked else []
    return Machine(
        architecture=os.uname().machine,
        bubblewrap=shutil.which("bwrap"),
        landlock_abi=kernel.landlock_abi(),
        python=sys.executable,
        visible=shown,
        masked=masked,
        masked_files=frozenset(path for path in masked if not os.path.isdir(path)),
        unmasked=tuple(path for allowed, _ in pieces for path in allowed),
        listed=tuple(path for _, listed in pieces for path in listed),
        links=tuple((name, os.readlink(name)) for name in AT_ROOT if os.path.islink(name)),
        gpu_devices=tuple(sorted(path for pattern in GPU_DEVICES for path in glob.glob(pattern))),
        gpu_facts=GPU_FACTS,
        gpus=gpus,
    )


def _hops(path: str) -> list[str]:
    """Return a file and every link on the way to it."""
    hops = [path]
    while os.path.islink(hops[-1]) and len(hops) < 40:
        hops.append(os.path.join(os.path.dirname(hops[-1]), os.readlink(hops[-1])))
    return [os.path.normpath(hop) for hop in hops]


def _outermost(paths: set[str]) -> set[str]:
    return {path for path in paths if not any(str(parent) in paths for parent in Path(path).parents)}


def _prepared(job: Job) -> Job:
    """Return the job by its real paths, with fresh folders for what is temporary."""
    folder = job.folder.resolve()
    _clear(folder)
    for name in (levels.TEMPORARY, levels.SHARED_MEMORY):
        (folder / name).mkdir()
    return replace(job, folder=folder, readable=tuple(path.resolve() for path in job.readable))


def _clear(folder: Path) -> None:
    """Remove what is temporary, without following a link that a program may have left there."""
    for name in (levels.TEMPORARY, levels.SHARED_MEMORY):
        path = folder / name
        try:
            path.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # not empty, or no folder at all
            if not path.is_symlink() and path.is_dir():
                _open_up(path)
                _empty(path)
                path.rmdir()
            else:
                path.unlink()


def _empty(folder: Path) -> None:
    """Remove what is in a folder, at any depth; links are not followed."""
    command = ["find", str(folder), "-mindepth", "1", "-delete"]
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def _open_up(folder: Path) -> None:
    """Take back what modes of its folders keep from us; root needs no leave."""
    command = ["chmod", "-R", "u+rwX", str(folder)]
    if os.getuid():
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def _linked(machine: Machine, job: Job) -> Machine:
    """Return the machine with the names that the job's paths have outside, where these lead by links."""
    given = [path.absolute() for path in (job.folder, *job.readable)]
    links = tuple((str(path), str(path.resolve())) for path in given if path != path.resolve())
    return replace(machine, links=(*machine.links, *links))
