"""The isolations of this machine: the candidates, their trials, and the meaning of the results, pure.

Law: nothing is assumed of a machine. A candidate counts for what a program that tried to get out of it
could not do; see `stages/adapters/sandbox/escape.py` for the attempts.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Final, Literal

from stages.isolation.sandbox import (
    ACCEPTED,
    LOG_TAIL_CHARS,
    METADATA,
    Ended,
    How,
    Isolation,
    Job,
    JobLimits,
    Policy,
)
from stages.isolation.system_calls import CREATIONS, MACHINES, SCOPED_SIGNALS_ABI, compiled, rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to hold a program; all of them have resource limits, a watch and no privileges."""

    name: str
    namespaces: bool = False  # bubblewrap: its own processes, network, file system
    own_proc: bool = False  # a container's runtime may refuse to mount one
    landlock: bool = False
    filtered: bool = False


BUBBLEWRAP: Final = Candidate(name="bubblewrap", namespaces=True, own_proc=True, filtered=True)
BUBBLEWRAP_WITHOUT_PROC: Final = Candidate(name="bubblewrap without /proc", namespaces=True, filtered=True)
LANDLOCK: Final = Candidate(name="Landlock", landlock=True, filtered=True)
FILTER: Final = Candidate(name="system call filter", filtered=True)
LIMITS: Final = Candidate(name="resource limits")
CANDIDATES: Final = (BUBBLEWRAP, BUBBLEWRAP_WITHOUT_PROC, LANDLOCK, FILTER, LIMITS)  # best first


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What was found on the machine; paths are absolute, and as the interpreter names them."""

    architecture: str
    bubblewrap: str | None
    landlock_abi: int  # 0: none
    python: str
    visible: tuple[str, ...]  # what the interpreter and its packages are made of
    masked: tuple[str, ...] = ()  # folders and files below these: data sets that packages bring along
    masked_files: frozenset[str] = frozenset()  # those of them that are no folders
    unmasked: tuple[str, ...] = ()  # what is visible, in pieces that hold nothing masked
    listed: tuple[str, ...] = ()  # the folders around these pieces
    links: tuple[tuple[str, str], ...] = ()  # at the root of the file system: name and target
    gpu_devices: tuple[str, ...] = ()
    gpu_facts: tuple[str, ...] = ()  # read by CUDA
    gpus: tuple[str, ...] = ()  # CUDA's names, where the operator set CUDA_VISIBLE_DEVICES


def obstacle(candidate: Candidate, machine: Machine) -> str | None:
    """Return why a candidate need not be tried here."""
    if candidate.namespaces and machine.bubblewrap is None:
        return "it is not installed"
    if candidate.landlock and not machine.landlock_abi:
        return "the kernel has none"
    if candidate.filtered and machine.architecture not in MACHINES:
        return f"the system calls of {machine.architecture} are not known here"
    return None


# What the process that starts the program and watches it is told, and what it answers.
FILTER_FD: Final = 10
STATUS_FD: Final = 11
TEMPORARY: Final = ".tmp"  # both below the work folder
SHARED_MEMORY: Final = ".shm"
DISK_LEFT_MIB: Final = 256  # with less on the disk no program goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to start one program: everything its starter needs to know."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    namespaces: bool
    landlock_abi: int
    readable: tuple[str, ...]  # by Landlock, as `writable`: what is beneath these
    listed: tuple[str, ...]  # folders of which only the names may be read
    writable: tuple[str, ...]
    own: tuple[str, ...]  # what of its own /proc it may read
    filter_hex: str
    creation_filter_hex: str  # the filter that has creations of processes wait to be allowed
    # By Landlock it reaches no abstract socket outside: no namespace of the network does that.
    is_scoped: bool
    has_network: bool
    address_space: bool  # limit it: CUDA reserves more than any machine has
    limits: JobLimits

    def encode(self) -> bytes:
        """Return the plan as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Plan:
        """Return the plan of such a line."""
        fields = json.loads(line)
        for name in ("command", "readable", "listed", "writable", "own"):
            fields[name] = tuple(fields[name])
        return cls(**{**fields, "limits": JobLimits(**fields["limits"])})


# The last two are no doing of the program.
Breach = Literal[
    "wall", "cpu", "memory", "processes", "output", "disk", "hiding", "room", "machine_memory", "machine_disk"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the watch saw of one program; `status` is negative for a signal, None if it was ended by us."""

    breach: Breach | None
    status: int | None
    seconds: float
    tail: str
    obstacle: str = ""  # why the program could not even be started
    lost: str = ""  # why nobody saw its end
    signals_caught: int = 0  # that the watch itself received
    left: int = 0  # processes that the kernel did not let go of
    processor_s: float | None = None  # what all its processes took of processors

    def encode(self) -> bytes:
        """Return the report as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Report:
        """Return the report of such a line."""
        return cls(**json.loads(line))


def start_plan(
    candidate: Candidate, machine: Machine, job: Job, start: Path, environment: Mapping[str, str]
) -> Plan:
    """Return how to start a program of the caller's in the folder `start`, held as the script of a job is."""
    found = plan(candidate, machine, job)
    return replace(
        found,
        command=tuple(_bubblewrap(candidate, machine, job, start)) if candidate.namespaces else (),
        environment=environment,
        folder=str(start),
        creation_filter_hex="",
    )


def plan(candidate: Candidate, machine: Machine, job: Job) -> Plan:
    """Return how to run a job; every path of the job is absolute and free of links."""
    folder = str(job.folder)
    program = (machine.python, "-I", "-u", str(job.folder / job.script))
    abi = machine.landlock_abi if candidate.landlock else 0
    is_scoped = candidate.namespaces and job.network and machine.landlock_abi >= SCOPED_SIGNALS_ABI
    refusals = rules(
        namespaces=candidate.namespaces,
        landlock_abi=abi,
        gpu=job.gpu is not None,
        network=job.network,
        has_unix=is_scoped or not job.network,
        is_session=job.is_session,
    )
    compiled_filter = compiled(machine.architecture, refusals) if candidate.filtered else None
    gpu_paths = (*machine.gpu_devices, *machine.gpu_facts) if job.gpu is not None else ()
    return Plan(
        command=(*_bubblewrap(candidate, machine, job), *program) if candidate.namespaces else program,
        environment=environment(machine, job),
        folder=folder,
        namespaces=candidate.namespaces,
        landlock_abi=abi,
        readable=(
            *(machine.unmasked if machine.masked else machine.visible),
            *map(str, job.readable),
            *PIECES,
            *DEVICES,
            *gpu_paths,
            *(OF_NETWORK if job.network else ()),
        ),
        listed=machine.listed,
        writable=(folder, *DEVICES, *(machine.gpu_devices if job.gpu is not None else ())),
        own=OF_ITSELF if job.gpu is None else ("",),
        filter_hex=(compiled_filter or b"").hex(),
        creation_filter_hex=(compiled(machine.architecture, CREATIONS) or b"").hex(),
        is_scoped=is_scoped,
        has_network=job.network,
        address_space=job.gpu is None,
        limits=job.limits,
    )


def environment(machine: Machine, job: Job) -> dict[str, str]:
    """Return the whole environment of a program."""
    gpu = ""
    if job.gpu is not None:
        gpu = machine.gpus[job.gpu] if job.gpu < len(machine.gpus) else str(job.gpu)
    variables = {
        "PATH": f"{PurePath(machine.python).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(job.folder),
        "TMPDIR": str(job.folder / TEMPORARY),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": gpu,
    }
    if job.gpu is not None:
        variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        # where the runtimes of containers put the driver's libraries
        variables["LD_LIBRARY_PATH"] = "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
    return variables


# Of /proc and /dev, what numerical libraries ask for and nobody is harmed by.
PIECES: Final = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems"),
    *("/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/osrelease"),
)
# Not `net`, which tells whom the worker talks to. What CUDA reads is not written down anywhere: it gets all.
OF_ITSELF: Final = ("maps", "smaps", "stat", "statm", "status", "cmdline", "comm", "fd", "fdinfo", "limits")
# By what names of hosts become addresses, and certificates are believed.
OF_NETWORK: Final = (
    *(
        "/etc/resolv.conf",
        "/etc/hosts",
        "/etc/nsswitch.conf",
        "/etc/host.conf",
        "/etc/gai.conf",
        "/etc/services",
    ),
    *(
        "/etc/ssl/certs",
        "/etc/ssl/openssl.cnf",
        "/etc/pki/tls/certs",
        "/etc/pki/ca-trust",
        "/etc/ca-certificates",
    ),
)
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def _bubblewrap(candidate: Candidate, machine: Machine, job: Job, start: Path | None = None) -> list[str]:
    """Return bubblewrap's own line, up to the program.

    No new session: the program stays in the pipeline's process group, which is stopped and killed
    as one. One that has a session of its own ends with bubblewrap, as all of its namespace. A program of root
    is still root's to the kernel, so /proc is made read-only: the files below /proc/sys, core_pattern among
    them, would be writable.
    """
    assert machine.bubblewrap is not None
    line = [machine.bubblewrap, "--unshare-user", "--unshare-pid", "--unshare-ipc"]
    line += [] if job.network else ["--unshare-net"]
    line += ["--new-session"] if job.is_session else []
    line += ["--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"]
    line += ["--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]
    for name, target in machine.links:
        line += ["--symlink", target, name]
    line += ["--dev", "/dev", "--bind", str(job.folder / SHARED_MEMORY), "/dev/shm"]  # noqa: S108 - its own
    line += ["--dev-bind", "/dev/null", "/dev/tty"]  # what reads a terminal stops its whole process group
    if candidate.own_proc:
        line += ["--proc", "/proc", "--remount-ro", "/proc"]
    else:
        line += [word for path in PIECES for word in ("--ro-bind-try", path, path)]
    if job.gpu is not None:
        line += [word for path in machine.gpu_devices for word in ("--dev-bind-try", path, path)]
        facts = [path for path in machine.gpu_facts if not (candidate.own_proc and _is_below("/proc", path))]
        line += [word for path in facts for word in ("--ro-bind-try", path, path)]
    line += ["--remount-ro", "/dev"]
    binds = dict.fromkeys(machine.visible, "--ro-bind-try")
    binds |= dict.fromkeys(machine.masked, "mask")
    binds |= dict.fromkeys(OF_NETWORK if job.network else (), "--ro-bind-try")
    binds |= {str(path): "--ro-bind" for path in job.readable}
    binds[str(job.folder)] = "--bind"
    for path in sorted(binds, key=lambda path: len(PurePath(path).parts)):  # what is inside comes later
        if binds[path] != "mask":
            line += [binds[path], path, path]
        elif path in machine.masked_files:
            line += ["--ro-bind", "/dev/null", path]
        else:
            line += ["--tmpfs", path, "--remount-ro", path]
    line += ["--remount-ro", "/", "--chdir", str(start or job.folder)]
    return [*line, "--seccomp", str(FILTER_FD), "--json-status-fd", str(STATUS_FD), "--"]


def _is_below(folder: str, path: str) -> bool:
    return PurePath(path).is_relative_to(folder)


# What the probe tries, and what it means if that works.
GAPS: Final[Mapping[str, str]] = {
    "environment": "read the worker's environment",
    "outside": "read files outside its folder",
    "listing": "list folders outside its own",
    "planted": "write files outside its folder",
    "canary": "change, cut or remove files outside its folder",
    "given": "change the files that it was given to read",
    "known": "read the data sets that installed packages bring along",
    "tcp": "open TCP connections",
    "udp": "send UDP",
    "unix": "reach programs of this machine by socket files",
    "abstract": "reach programs of this machine by abstract sockets",
    "vsock": "open sockets to a virtual machine's host",
    "signals": "send signals to the worker",
    "kernel": "write settings of the kernel",
    "namespaces": "make namespaces",
    "privileges": "gain privileges",
}


INSTALL: Final = (
    "Install bubblewrap (on Debian or Ubuntu, as root: apt-get install bubblewrap) and allow user "
    "namespaces, or take a kernel with Landlock"
)
BY_NETWORK: Final = ("tcp", "udp")


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one candidate: an obstacle, or the gaps that its probe found."""

    candidate: Candidate
    obstacle: str = ""
    gaps: tuple[str, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Return whether it works, with no gap but accepted ones."""
        return not self.obstacle and ACCEPTED.issuperset(self.gaps)


def judge(candidate: Candidate, worked: Mapping[str, bool], *, network: bool = False) -> Trial:
    """Return what a probe's answers mean: every question must have one. With `network` IP is no gap."""
    assert worked.keys() == GAPS.keys(), f"unanswered: {GAPS.keys() ^ worked.keys()}"
    known = (METADATA,) if candidate.landlock else ()  # of its kind: no kernel's Landlock knows `stat`
    meant = BY_NETWORK if network else ()
    found = (words for name, words in GAPS.items() if worked[name] and name not in meant)
    return Trial(candidate, gaps=(*found, *known))


def chosen(trials: Sequence[Trial], policy: Policy) -> Trial | None:
    """Return the first with the fewest gaps, of those that a policy allows; None where it allows none."""
    allowed = [trial for trial in trials if not trial.obstacle and _suffices(trial, policy)]
    return min(allowed, key=lambda trial: len(trial.gaps), default=None)


def _suffices(trial: Trial, policy: Policy) -> bool:
    match policy:
        case "strict":
            return trial.is_strict
        case "filter":
            return trial.candidate.filtered
        case "best":
            return True


def described(trial: Trial, machine: Machine) -> Isolation:
    """Return an isolation for people."""
    version = f" (ABI {machine.landlock_abi})" if trial.candidate.landlock else ""
    return Isolation(f"{trial.candidate.name}{version}", trial.gaps)


def no_start(trials: Sequence[Trial]) -> str:
    """Return why nobody's program is started in a sandbox here, and what to do about it."""
    return f"The program is not started: no sandbox here is without a gap. {_found(trials)}. {INSTALL}."


def _found(trials: Sequence[Trial]) -> str:
    return "; ".join(
        f"{trial.candidate.name}: {trial.obstacle.rstrip('. ') or 'a program could ' + ', '.join(trial.gaps)}"
        for trial in trials
    )


def refusal(trials: Sequence[Trial], policy: Policy) -> str:
    """Return why a policy lets no program run, and what to do about it."""
    missing = {
        "strict": "strict isolation is asked for (the default), and none here is without a gap",
        "filter": "a filter of system calls is asked for, and none works here",
        "best": "nothing that could hold them works here",
    }
    steps = {
        "strict": "or, where no stranger's programs run, accept these gaps in the worker's environment with "
        "PODFLEET_ISOLATION=filter (a filter of system calls at least) or "
        "PODFLEET_ISOLATION=best (whatever works)",
        "filter": "or accept these gaps with PODFLEET_ISOLATION=best in the worker's environment",
        "best": "or run it on another pod",
    }
    return f"Generated programs are not run: {missing[policy]}. {_found(trials)}. {INSTALL}; {steps[policy]}."


EVIDENCE: Final = re.compile(
    r"^(MemoryError|numpy\.\S*MemoryError|terminate called .*std::bad_alloc|torch\.\S*OutOfMemoryError)"
    r"|DefaultCPUAllocator: can't allocate memory|CUDA out of memory",
    re.MULTILINE,
)
EVIDENCE_LINES: Final = 6


def ended(report: Report, plan: Plan) -> Ended:
    """Return how a program ended, by what its watch saw."""
    how, message = _how(report, plan)
    if report.left:
        message += f"; {report.left} of its processes could not be ended: the kernel holds them"
    return Ended(
        how=how,
        seconds=round(report.seconds, 3),
        log_tail=report.tail[-LOG_TAIL_CHARS:],
        message=message,
        processor_s=None if report.processor_s is None else round(report.processor_s, 3),
    )


def _how(report: Report, plan: Plan) -> tuple[How, str]:
    limits = plan.limits
    if report.obstacle:
        return "not_started", report.obstacle
    if report.lost:
        return "lost", report.lost
    match report.breach:
        case "wall":
            return "timed_out", f"it ran longer than {limits.wall_s:g} s"
        case "cpu":
            return "timed_out", f"it used more than {limits.cpu_s:g} s of processor time"
        case "memory":
            return "out_of_memory", f"it used more than {limits.memory_mib} MiB of memory"
        case "processes":
            return "too_many_processes", f"it had more than {limits.processes} processes"
        case "output":
            return "too_much_output", f"it printed more than {limits.output_bytes} bytes"
        case "disk":
            return "disk_full", f"it wrote more than {limits.disk_mib} MiB"
        case "hiding":
            return "disk_full", "it hid folders from the watch: nested too deeply, or not readable"
        case "room":
            return "disk_full", f"the disk has less than {DISK_LEFT_MIB} MiB left"
        case "machine_memory":
            return "lost", "the machine ran out of memory, and the program was within its limit"
        case "machine_disk":
            return (
                "lost",
                f"the disk has less than {DISK_LEFT_MIB} MiB left, and not by what the program wrote",
            )
        case None:
            return _how_by_itself(report, plan)


def _how_by_itself(report: Report, plan: Plan) -> tuple[How, str]:
    status = report.status
    if status is None:
        return "killed", "it was ended"
    if plan.namespaces and status > 128:
        status = 128 - status  # so bubblewrap, as a shell does, tells of a signal
    if status == 0:
        return "finished", ""
    if status == -signal.SIGXCPU:
        return "timed_out", f"it used more than {plan.limits.cpu_s:g} s of processor time"
    if status == -signal.SIGXFSZ:
        return "disk_full", f"it wrote a file of more than {plan.limits.disk_mib} MiB"
    if status < 0:
        return "killed", f"it was ended by {_signal_name(-status)}"
    last_lines = "\n".join(report.tail.splitlines()[-EVIDENCE_LINES:])
    if EVIDENCE.search(last_lines):
        return "out_of_memory", f"it got no more memory (the limit is {plan.limits.memory_mib} MiB)"
    return "exited", f"it ended with exit status {status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
