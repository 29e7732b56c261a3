"""Starts one hostile program, watches it, and removes all of it: one supervisor process per program.

Law: standard input has one plan, then nothing. Its end, like the end of the parent, means that the program
must be killed. The process has an empty environment and the standard library, outside of what confines the
program, in the pipeline's process group.
"""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NoReturn

from stages.adapters.sandbox import footprint, kernel
from stages.adapters.sandbox.control_group import THREADS_PER_PROCESS, ControlGroup
from stages.adapters.sandbox.entering import ABOVE, enter
from stages.adapters.sandbox.seccomp_supervisor import SeccompSupervisor, install_filter
from stages.isolation.disk_use import disk_use, free_bytes
from stages.isolation.levels import DISK_LEFT_MIB, Breach, Plan, Report
from stages.isolation.sandbox import LOG_TAIL_CHARS

LOOK_S: Final = 0.1
LOOKS_PER_SURE_ONE: Final = 20
TICK_MAX_S: Final = 1.0  # a longer one means that we were suspended, and the program too
DISK_SHARE: Final = 4  # looking at the disk may take one part of this
KILL_S: Final = 20.0
KILL_PAUSE_S: Final = 0.005
CHUNK_BYTES: Final = 1 << 16
TAIL_BYTES: Final = 4 * LOG_TAIL_CHARS  # a character has four bytes at most
PLAN_BYTES_MAX: Final = 8 << 20

FILES_OPEN: Final = 1_024
FILE_MARGIN_BYTES: Final = 1 << 20  # so that a file at its limit is seen to be beyond the folder's
DATA_MARGIN_BYTES: Final = 512 << 20  # what libraries reserve and do not touch
SPACE_MARGIN_BYTES: Final = 16 << 30
BUBBLEWRAPS: Final = 2  # processes of its own
NICENESS: Final = 5  # the worker's heartbeat goes first, and we do
LOST_S: Final = 0.05  # of processors, that more than rounding is missing
MIB: Final = 1 << 20


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251 - a program of its own, without the project's clock


@dataclass(slots=True)
class Output:
    """What the program printed: all counted, the end kept."""

    fd: int
    count: int = 0
    tail: bytearray = field(default_factory=bytearray)
    is_over: bool = False

    def read(self) -> bool:
        """Read one piece; return whether there was one."""
        try:
            piece = os.read(self.fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not piece:
            self.is_over = True
            return False
        self.count += len(piece)
        self.tail += piece
        if len(self.tail) > 2 * TAIL_BYTES:
            del self.tail[:-TAIL_BYTES]
        return True

    def drain(self, limit: int) -> None:
        """Read what is still in the pipe, but no more than matters."""
        while self.count <= limit and self.read():
            pass

    def text(self) -> str:
        """Return the end of what was printed."""
        return bytes(self.tail).decode(errors="replace")[-LOG_TAIL_CHARS:]


class Watch:
    """One program from its start to the end of its last process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seconds = 0.0
        self._started_s = self._last_s = _now_s()
        self._status: int | None = None
        self._is_over = False
        self._signals = 0
        self._looks = 0
        self._seen = footprint.Seen()
        signal.signal(signal.SIGURG, self._count_signal)
        limits = plan.limits
        self._own = BUBBLEWRAPS if plan.namespaces else 0
        self._supervisor: SeccompSupervisor | None = None
        self._group = ControlGroup.make(memory_bytes=limits.memory_mib * MIB, processes=limits.processes)
        self._group_s = 0.0
        self._oom_kills_before = footprint.oom_kills()
        self._disk_limit = limits.disk_mib * MIB
        self._disk_before = disk_use(plan.folder, sys.maxsize).used_bytes
        self._next_look_s = self._next_disk_look_s = 0.0
        self._woken, waking = os.pipe()
        for fd in (self._woken, waking):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        output, output_of_program = os.pipe()
        self._problem, problem_of_program = os.pipe()
        self._listeners, listeners_of_program = socket.socketpair()
        os.set_blocking(output, False)
        self._output = Output(output)
        watch = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _become(
                plan, self._group, Ends(watch, output_of_program, problem_of_program, listeners_of_program)
            )
        os.close(output_of_program)
        os.close(problem_of_program)
        listeners_of_program.close()

    def run(self) -> Report | None:
        """Return how the program ended; None if no reader of the result is left."""
        try:
            return self._run()
        except BaseException:
            self._leave_nothing()
            raise

    def _run(self) -> Report | None:
        breach: Breach | None = None
        poller = select.poll()
        for fd in (0, self._woken, self._output.fd, self._listeners.fileno()):
            poller.register(fd, select.POLLIN)
        parent = os.getppid()
        while breach is None and not self._is_over:
            ready = dict(poller.poll(LOOK_S * 1000))
            self._tick()
            if 0 in ready or os.getppid() != parent:
                self._leave_nothing()
                return None
            if self._woken in ready:
                os.read(self._woken, CHUNK_BYTES)
            if self._output.fd in ready:
                self._output.read()
                if self._output.is_over:
                    poller.unregister(self._output.fd)
            self._supervise_creations(poller, ready)
            self._reap()
            breach = self._breach()
        return self._report(breach)

    def _supervise_creations(self, poller: select.poll, ready: dict[int, int]) -> None:
        """Take over the listener of the filter, where the kernel allows one, and answer what waits there."""
        if self._listeners.fileno() in ready:
            poller.unregister(self._listeners)
            _, received, _, _ = socket.recv_fds(self._listeners, 1, 1)
            if received:
                processes = self.plan.limits.processes
                self._supervisor = SeccompSupervisor(
                    listener=received[0],
                    below=_below,
                    processes_max=processes + self._own,
                    tasks_max=processes * THREADS_PER_PROCESS + self._own,
                )
                poller.register(received[0], select.POLLIN)
        elif self._supervisor is not None and (event := ready.get(self._supervisor.listener)):
            if event & select.POLLIN:
                self._supervisor.answer()
            else:  # no process is left under the filter
                poller.unregister(self._supervisor.listener)

    def _report(self, breach: Breach | None) -> Report:
        if breach is None:
            self._output.drain(self.plan.limits.output_bytes)
            breach = self._breach(at_end=True)
        left = self._leave_nothing()
        self._output.drain(self.plan.limits.output_bytes)
        return Report(
            breach=breach,
            status=None if breach else self._status,
            seconds=self.seconds,
            tail=self._output.text(),
            obstacle="" if breach else self._obstacle(),
            signals_caught=self._signals,
            left=left,
            processor_s=self._processor_s(),
        )

    def _count_signal(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def _tick(self) -> None:
        now_s = _now_s()
        self.seconds += min(now_s - self._last_s, TICK_MAX_S)
        self._last_s = now_s

    def _reap(self) -> bool:
        """Reap ended processes; return whether any of ours is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._status = os.waitstatus_to_exitcode(status)
                self._is_over = True

    def _breach(self, *, at_end: bool = False) -> Breach | None:
        """Return the first limit that is broken now; some looks wait for their time."""
        limits = self.plan.limits
        if self._output.count > limits.output_bytes:
            return "output"
        if self.seconds > limits.wall_s:
            return "wall"
        if self._group.memory_ran_out():
            return "memory"
        if self._group.machine_ran_out() or (at_end and self._was_killed_beside_others()):
            return "machine_memory"
        if self._group.processes_ran_out() or (
            self._supervisor is not None and self._supervisor.is_over_limit
        ):
            return "processes"
        if self._last_s < self._next_look_s and not at_end:
            return None
        self._looks += 1
        below = _below(near=self._looks % LOOKS_PER_SURE_ONE != 0 and not at_end)
        self._seen.note(below)
        processes = [each for each in below if not each.is_zombie]
        self._next_look_s = _now_s() + LOOK_S
        tasks = sum(each.threads for each in below) - self._own
        if len(processes) - self._own > limits.processes or tasks > limits.processes * THREADS_PER_PROCESS:
            return "processes"
        if footprint.memory_bytes(processes, limits.memory_mib * MIB) > limits.memory_mib * MIB:
            return "memory"
        if sum(each.cpu_s for each in processes) + _buried_s() > limits.cpu_s:
            return "cpu"
        if self._last_s < self._next_disk_look_s and not at_end:
            return None
        return self._disk_breach(processes)

    def _disk_breach(self, processes: list[footprint.Process]) -> Breach | None:
        begun_s = _now_s()
        limit = self._disk_before + self._disk_limit
        nameless = footprint.nameless_bytes(processes)
        use = disk_use(self.plan.folder, limit)
        self._next_disk_look_s = _now_s() + max(LOOK_S, DISK_SHARE * (_now_s() - begun_s))
        if use.is_hiding:
            return "hiding"
        if use.used_bytes + nameless > limit:
            return "disk"
        free = free_bytes(self.plan.folder)
        if free >= DISK_LEFT_MIB * MIB:
            return None
        # A file without a name can be kept where nobody can count it: in a message to oneself.
        written = use.used_bytes + nameless - self._disk_before
        return "room" if free + written >= DISK_LEFT_MIB * MIB else "machine_disk"

    def _was_killed_beside_others(self) -> bool:
        """Return whether it ended by SIGKILL while the machine ended somebody for want of memory.

        Who has no control group is not told whom. A program may kill itself at such a moment: see `Bench`.
        """
        killed = -signal.SIGKILL if not self.plan.namespaces else 128 + signal.SIGKILL
        return self._status in (killed, -signal.SIGKILL) and footprint.oom_kills() > self._oom_kills_before

    def _processor_s(self) -> float | None:
        """Return the processor time of all processes; None where some ended without a wait.

        The kernel reports no time of children whose ends were ignored.
        """
        if self._group_s:
            return self._group_s
        buried_s = _buried_s()
        return None if self._seen.seconds() > buried_s + LOST_S else buried_s

    def _leave_nothing(self) -> int:
        """End every process that the program started; return how many the kernel does not let go."""
        self._group.forbid_more()
        if left := end_everybody(self._reap):
            return left
        self._group_s = self._group.processor_s()
        self._group.remove()
        return 0

    def _obstacle(self) -> str:
        """Return why the program itself never ran, if so."""
        os.set_blocking(self._problem, False)
        try:
            problem = os.read(self._problem, CHUNK_BYTES).decode(errors="replace")
        except BlockingIOError:
            problem = ""
        if not self.plan.namespaces:
            return problem
        # bubblewrap tells the exit status only of a program that it has started
        if self._status == 0 or '"exit-code"' in problem:
            return ""
        if self._status is not None and self._status < 0:
            return ""
        return self._output.text().strip() or problem or "bubblewrap did not start it, and does not say why"


def end_everybody(bury: Callable[[], bool]) -> int:
    """Kill what is below this process until nothing is; return how many the kernel does not let go.

    Orphans become our children, so there is none left when `bury` finds no child of ours.
    """
    until_s = _now_s() + KILL_S
    while True:
        below = _below()
        for process in below:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if not bury():
            return 0
        if _now_s() > until_s:
            return len(below)
        select.select([], [], [], KILL_PAUSE_S)


def _buried_s() -> float:
    """Return what children that we have buried took of processors, with those that they had buried."""
    buried = resource.getrusage(resource.RUSAGE_CHILDREN)
    return buried.ru_utime + buried.ru_stime


def _bury_all() -> bool:
    """Reap ended processes; return whether any of ours is left."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _below(*, near: bool = False) -> list[footprint.Process]:
    return (footprint.near_descendants if near else footprint.descendants)(os.getpid())


@dataclass(frozen=True, slots=True)
class Ends:
    """The program's ends of what ties it to its watch: a process id, two pipes and a line."""

    watch: int
    output: int
    problem: int
    listeners: socket.socket


def _become(plan: Plan, group: ControlGroup, ends: Ends) -> NoReturn:
    """Turn this process, just forked, into the program, or report the obstacle."""
    problem = fcntl.fcntl(ends.problem, fcntl.F_DUPFD_CLOEXEC, ABOVE)
    try:
        signal.set_wakeup_fd(-1)
        for number in (*STAYING, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGURG):
            signal.signal(number, signal.SIG_DFL)
        for fd, target in ((os.open(os.devnull, os.O_RDWR), 0), (ends.output, 1), (ends.output, 2)):
            os.dup2(fd, target, inheritable=True)
        os.chdir(plan.folder)
        group.join()
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # if the machine runs out of memory, this goes first
        _limit(plan)
        os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
        kernel.end_with_parent(ends.watch, signal.SIGKILL)
        enter(plan, problem, lambda: _install_creation_filter(plan, ends.listeners))
        os.execve(plan.command[0], list(plan.command), dict(plan.environment))  # noqa: S606
    except OSError as error:
        os.write(problem, f"it cannot be started: {error}".encode())
    finally:
        os._exit(127)


def _install_creation_filter(plan: Plan, listeners: socket.socket) -> None:
    listener = install_filter(bytes.fromhex(plan.creation_filter_hex)) if plan.creation_filter_hex else None
    if listener is not None:
        socket.send_fds(listeners, [b"."], [listener])


def _limit(plan: Plan) -> None:
    limits = plan.limits
    file_bytes = limits.disk_mib * MIB + FILE_MARGIN_BYTES
    cpu_s = max(1, int(limits.cpu_s) + 1)
    bounds = [
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_NOFILE, FILES_OPEN, FILES_OPEN),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 5),
    ]
    if plan.address_space:
        memory = limits.memory_mib * MIB
        bounds += [
            (resource.RLIMIT_DATA, memory + DATA_MARGIN_BYTES, memory + DATA_MARGIN_BYTES),
            (resource.RLIMIT_AS, memory + SPACE_MARGIN_BYTES, memory + SPACE_MARGIN_BYTES),
        ]
    if os.getuid():  # the kernel does not count root's
        tasks = _tasks_of_user() + limits.processes * THREADS_PER_PROCESS
        bounds.append((resource.RLIMIT_NPROC, tasks, tasks))
    for kind, soft, hard in bounds:
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def _tasks_of_user() -> int:
    """Return how many threads this user has now: the kernel counts all of them together."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


# The parent decides, by closing our standard input; a Ctrl-C goes to the whole group.
STAYING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Serve one plan in a process below this one, which clears up where that is killed."""
    for number in STAYING:
        signal.signal(number, signal.SIG_IGN)
    kernel.adopt_orphans()
    watch = os.fork()
    if watch == 0:
        kernel.adopt_orphans()
        _serve()
        return
    os.close(0)
    os.waitpid(watch, 0)
    end_everybody(_bury_all)


def _serve() -> None:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, CHUNK_BYTES)
        if not piece or len(line) > PLAN_BYTES_MAX:
            return  # nobody wants anything any more
        line += piece
    report = Watch(Plan.decode(line)).run()
    if report is not None:
        with suppress(ConnectionError):
            os.write(0, report.encode())
