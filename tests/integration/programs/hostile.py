"""Programs that mean harm, for the sandbox's tests: what they aim at are decoys, what they fill is small.

`ESCAPES` print a line beginning with `WON` for each way out that they find, and `TRIED` at their
end. `BOMBS` must be ended by the sandbox; `SURVIVORS` leave processes behind, if they are let.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# Every escape begins with this, and with the names of its decoys.
PRELUDE: Final = '''
import ctypes, errno, fcntl, glob, os, signal, socket, struct, sys, time
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
me = os.getpid()
intel = os.uname().machine == "x86_64"  # whose numbers of old system calls are known here

def won(what):
    print("WON", what, flush=True)

def attempt(call, *arguments, **named):
    """Return what a call returns, None where it is refused."""
    try:
        answer = call(*arguments, **named)
    except OSError:
        return None
    return True if answer is None else answer

def holds_secret(path):
    content = attempt(Path(path).read_bytes)
    return content is not None and SECRET.encode() in content
'''
EPILOGUE: Final = '\nprint("TRIED", flush=True)\n'

ESCAPES: Final[Mapping[str, str]] = {
    "read the data sets that packages bring along": '''
import importlib.util
def reads(path):
    with open(path, "rb") as file:
        return bool(file.read(1))
homes = {Path(importlib.util.find_spec(name).origin).parent for name in ("sklearn", "scipy", "matplotlib")}
places = ("datasets/data", "datasets/descr", "datasets/tests/data",
    "io/arff/tests/data", "mpl-data/sample_data")
roots = ("", "/proc/self/root", f"/proc/{me}/cwd/" + "../" * 20)
for home in homes:
    for place in places:
        for folder, _, names in os.walk(home / place):
            for name in names:
                for root in roots:
                    if attempt(reads, f"{root}{folder}/{name}"):
                        won(f"read {root}{folder}/{name}")
wine = "datasets/data/wine_data.csv"
for home in homes:
    for spelling in (home / wine, home / "datasets" / "data" / ".." / "data" / "wine_data.csv"):
        if attempt(reads, spelling):
            won(f"read {spelling}")
    attempt(os.link, home / wine, "wine.csv")
    attempt(os.symlink, home / wine, "wine-by-link.csv")
    if attempt(reads, "wine.csv") or attempt(reads, "wine-by-link.csv"):
        won("read by another name")
    if libc.umount2(str(home / "datasets/data").encode(), 2) == 0:
        won("took the mask away")
''',    "read the environment of the worker, its parent or anybody": '''
owns = {f"/proc/{me}/environ", "/proc/self/environ", f"/proc/{me}/task/{me}/environ"}
places = [*glob.glob("/proc/[0-9]*/environ"), *glob.glob("/proc/[0-9]*/task/*/environ"), "/proc/1/environ"]
places += [f"/proc/{pid}/{name}" for pid in (VICTIM, os.getppid()) for name in ("environ", "cmdline", "mem")]
for place in {*places} - owns:
    if holds_secret(place):
        won(f"read {place}")
for name in ("tcp", "udp", "unix"):
    # the first line is a title; without a network of its own a program sees that of the machine
    known = attempt(Path(f"/proc/self/net/{name}").read_text) or attempt(Path(f"/proc/net/{name}").read_text)
    if known and len(known.splitlines()) > 1:
        won(f"whom others talk to: {name}")
if any(SECRET in value for value in os.environ.values()):
    won("a secret in the own environment")
''',
    "read and write the memory of another process": '''
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
for request in (PTRACE_ATTACH, PTRACE_SEIZE):
    if libc.ptrace(request, VICTIM, 0, 0) == 0:
        won("ptrace")
own, theirs = ctypes.create_string_buffer(8), ctypes.c_size_t(0x400000)
local = struct.pack("QQ", ctypes.addressof(own), 8)
remote = struct.pack("QQ", theirs.value, 8)
libc.process_vm_readv(VICTIM, local, 1, remote, 1, 0)
if ctypes.get_errno() not in (errno.EPERM, errno.ESRCH, errno.EACCES):
    won("process_vm_readv")
handle = libc.syscall(434, VICTIM, 0)  # pidfd_open
if handle >= 0 and libc.syscall(438, handle, 0, 0) >= 0:  # pidfd_getfd
    won("pidfd_getfd")
if attempt(os.open, f"/proc/{VICTIM}/mem", os.O_RDWR):
    won("mem")
if os.path.exists(f"/proc/{VICTIM}/fd") and attempt(os.listdir, f"/proc/{VICTIM}/fd"):
    won("open files")
''',
    "read another work folder, straight or by detours": '''
name = Path(CANARY).name
os.symlink(CANARY, "link")
os.symlink(Path(CANARY).parent, "folder")
os.symlink("/", "top")
relative = os.path.relpath(CANARY)
detours = [CANARY, relative, "link", f"folder/{name}", f"top{CANARY}", f"./../{Path.cwd().name}/{relative}"]
detours += [f"/proc/{pid}/root{CANARY}" for pid in ("self", "thread-self", 1, me, os.getppid(), VICTIM)]
detours += [f"/proc/{pid}/cwd/{relative}" for pid in ("self", me, os.getppid(), VICTIM)]
for place in detours:
    if holds_secret(place):
        won(f"read {place}")
here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
for path, folder in ((relative, here), ("link", here)):
    if attempt(os.open, path, os.O_RDONLY, dir_fd=folder):
        won(f"open {path}")
if attempt(os.link, CANARY, "hard") or attempt(os.rename, CANARY, "moved"):
    won("a second name")
if attempt(os.chdir, Path(CANARY).parent) and holds_secret(name):
    won("went there")
for path in ("/etc/shadow", "/etc/passwd", "/etc/hostname"):
    if attempt(os.open, path, os.O_RDONLY):
        won(f"read {path}")
''',
    "list or watch another work folder": '''
parent = Path(CANARY).parent
for place in (parent, f"/proc/self/root{parent}", f"/proc/1/root{parent}", f"/proc/{VICTIM}/root{parent}"):
    if attempt(os.listdir, place):
        won(f"list {place}")
if {*(attempt(os.listdir, parent.parent) or ())} - {Path.cwd().name, Path(GIVEN).name}:
    won("list what lies beside its folder")
watch = libc.inotify_init1(0)
if watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(parent), 0xFFF) >= 0:
    won("inotify")
handle = attempt(os.open, parent, os.O_RDONLY)
if handle and attempt(fcntl.fcntl, handle, 1026, 0xFFF):  # F_NOTIFY
    won("dnotify")
''',
    "write outside of its folder": '''
other = Path(CANARY).parent
os.symlink(CANARY, "link")
os.symlink(other / "through", "dangling")
for path in (CANARY, "link", GIVEN, f"/proc/self/root{CANARY}"):
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        if attempt(os.open, path, flags):
            won(f"open {path} {flags}")
    attempt(os.truncate, path, 0)
    attempt(os.chmod, path, 0o666)
    attempt(os.chown, path, 12345, 12345)
    attempt(os.utime, path, (1, 1))
    attempt(os.setxattr, path, "user.seen", b"1")
for path in (CANARY, GIVEN):
    attempt(os.rename, path, path + ".moved")
    attempt(os.rename, "program.py", path)
    attempt(os.unlink, path)
    attempt(os.link, "link", path + ".linked", follow_symlinks=False)
for path in (other / "planted", "dangling", *PLANTED):
    attempt(Path(path).write_text, "planted")
    attempt(os.mkdir, f"{path}.d")
    attempt(os.symlink, "x", f"{path}.l")
    attempt(os.mkfifo, f"{path}.p")
''',
    "make others wait for a file that it may read": '''
handle = os.open(GIVEN, os.O_RDONLY)
for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
    if attempt(fcntl.fcntl, handle, 1024, kind):  # F_SETLEASE
        won("lease")
''',
    "open connections": '''
def calls(family, kind, address):
    with socket.socket(family, kind) as caller:
        caller.settimeout(0.5)
        caller.connect(address)
        caller.send(b"out")

INET, INET6, UNIX = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
STREAMING, DATAGRAM, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
for family, kind, address in (
    (INET, STREAMING, ("127.0.0.1", TCP)), (INET6, STREAMING, ("::ffff:127.0.0.1", TCP)),
    (UNIX, STREAMING, STREAM), (UNIX, STREAMING, chr(0) + ABSTRACT), (UNIX, DATAGRAM, DATAGRAMS),
    (INET, STREAMING, ("198.51.100.7", 80)), (INET, DATAGRAM, ("198.51.100.7", 53)),
):
    if attempt(calls, family, kind, address):
        won(f"connect {address}")
attempt(calls, INET, DATAGRAM, ("127.0.0.1", UDP))  # who listens outside knows whether it came
for kind in (DATAGRAM, RAW, socket.SOCK_SEQPACKET):
    pair = attempt(socket.socketpair, socket.AF_UNIX, kind)
    if pair:
        attempt(pair[0].sendto, b"out", DATAGRAMS)
for family, kind in ((40, STREAMING), (17, RAW), (INET, RAW), (38, 5), (29, RAW)):
    if attempt(socket.socket, family, kind):  # a host's line, packets, raw, the kernel's cryptography, a bus
        won(f"socket {family} {kind}")
''',
    "signal, stop or kill whoever is outside": '''
for number in (signal.SIGSTOP, signal.SIGKILL):
    for pid in (VICTIM, os.getppid(), os.getpgid(0) or VICTIM):
        if pid != me:
            attempt(os.kill, pid, number)
            if intel:
                libc.syscall(234, pid, pid, int(number))  # tgkill
        handle = libc.syscall(434, pid, 0)
        if handle >= 0 and pid != me:
            libc.syscall(424, handle, int(number), None, 0)
for target in (0, -1, -os.getpgid(0) or -VICTIM, -VICTIM):
    if attempt(os.kill, target, 0):  # would it reach anybody? nothing is sent
        won(f"kill {target}")
if attempt(os.setsid) or attempt(os.setpgid, 0, 0):
    won("left the group")
reading, writing = os.pipe()
for command, argument in ((8, VICTIM), (8, -os.getpgid(0)), (10, int(signal.SIGKILL))):
    if attempt(fcntl.fcntl, reading, command, argument):
        won(f"fcntl {command}")
if attempt(os.setpriority, os.PRIO_PGRP, 0, 19) or attempt(os.setpriority, os.PRIO_USER, 0, 19):
    won("slowed others down")
libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG: what ends us with our watch
libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: what lets it look at us
held = ctypes.c_int(0)
libc.prctl(2, ctypes.byref(held), 0, 0, 0)
if os.getppid() != 1 and held.value != signal.SIGKILL:
    won("death with the watch is off")
if libc.prctl(3, 0, 0, 0, 0) != 1:
    won("not to be looked at")
''',
    "become somebody else, or somewhere else": '''
for call in (os.setuid, os.setgid, os.seteuid):
    before = os.getresuid(), os.getresgid()
    attempt(call, 0)
    if (os.getresuid(), os.getresgid()) != before:
        won(call.__name__)
if attempt(os.setgroups, [0]):
    won("setgroups")
NEW = {"mount": 0x20000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000}
for name, flag in NEW.items():
    if libc.unshare(flag) == 0:
        won(f"unshare {name}")
    if intel and (pid := libc.syscall(56, flag | int(signal.SIGCHLD), 0, 0, 0, 0)) >= 0:  # clone
        if pid == 0:
            os._exit(0)
        won(f"clone {name}")
if libc.mount(b"none", b".tmp", b"tmpfs", 0, None) == 0 or libc.umount2(b"/", 2) == 0:
    won("mount")
if attempt(os.chroot, ".") or (intel and libc.syscall(155, b".", b".") == 0):
    won("chroot")
for name, kind, device in (("disk", 0o60600, os.makedev(8, 0)), ("memory", 0o20600, os.makedev(1, 1))):
    if attempt(os.mknod, name, kind, device):
        won(f"a device: {name}")
for number in (425, 428, 430, 432, 442, *((321, 298, 323, 248, 250, 304, 246) if intel else ())):
    # io_uring, mounts, bpf, performance counters, page faults, keys, handles, another kernel
    if libc.syscall(number, 0, 0, 0, 0, 0) >= 0:
        won(f"system call {number}")
Path("su").write_bytes(b"")
for mode in (0o4755, 0o2755):
    attempt(os.chmod, "su", mode)
    if os.stat("su").st_mode & 0o6000:
        won("a file with its maker's rights")
if attempt(os.open, "/dev/tty", os.O_RDWR) and os.isatty(os.open("/dev/tty", os.O_RDWR)):
    won("a terminal")
for path in ("/proc/sys/kernel/core_pattern", "/proc/self/oom_score_adj", "/proc/sysrq-trigger",
             "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/tasks", "/dev/mem", "/dev/kmsg"):
    if attempt(os.open, path, os.O_WRONLY):
        won(f"write {path}")
''',
    "keep memory that belongs to nobody": '''
for name, answer in (
    ("shmget", libc.shmget(0, 1 << 20, 0o1600)), ("msgget", libc.msgget(0, 0o1600)),
    ("memfd", libc.memfd_create(b"x", 0)), ("secret", libc.syscall(447, 0)),
):
    if answer >= 0:
        won(name)
''',
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bomb:
    """A program, its limits, and how it must end: `how` and what the message says."""

    program: str
    how: str
    message: str
    limits: Mapping[str, float] = field(default_factory=dict)


BOMBS: Final[Mapping[str, Bomb]] = {
    "processes that start processes": Bomb(
        program="""
import os, time
end = time.monotonic() + 25
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        pass
""",
        how="too_many_processes", message="more than 8 processes", limits={"processes": 8},
    ),
    "children that nobody buries": Bomb(
        program="""
import os
for _ in range(500):
    if os.fork() == 0:
        os._exit(0)
""",
        how="too_many_processes", message="more than 8 processes", limits={"processes": 8},
    ),
    "threads without end": Bomb(
        program="""
import threading, time
threading.stack_size(1 << 16)
for _ in range(300):
    threading.Thread(target=time.sleep, args=(25,), daemon=True).start()
time.sleep(25)
""",
        how="too_many_processes", message="more than 4 processes", limits={"processes": 4},
    ),
    "memory by one process": Bomb(
        program="""
held = []
for _ in range(100):
    held.append(bytearray(b"x") * (16 << 20))
""",
        how="out_of_memory", message="256 MiB", limits={"memory_mib": 256},
    ),
    "memory by several processes, each below the limit": Bomb(
        program="""
import os, time
import ctypes
for _ in range(6):
    if os.fork() == 0:
        break
ctypes.CDLL(None).prctl(15, b") R 1 1 (1", 0, 0, 0)  # a name that looks like the rest of its line in /proc
held = bytearray(b"x") * (100 << 20)
time.sleep(25)
""",
        how="out_of_memory", message="256 MiB", limits={"memory_mib": 256},
    ),
    "memory of a process whose first thread is gone": Bomb(
        program="""
import ctypes, os, threading, time
def fill():
    held = []
    for _ in range(30):
        held.append(bytearray(b"x") * (16 << 20))
        time.sleep(0.02)
    time.sleep(30)
if os.fork() == 0:
    threading.Thread(target=fill).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # of this thread alone
time.sleep(25)
""",
        how="out_of_memory", message="256 MiB", limits={"memory_mib": 256},
    ),
    "printing without end": Bomb(
        program="""
while True:
    print("x" * 1000)
""",
        how="too_much_output", message="more than 100000 bytes", limits={"output_bytes": 100_000},
    ),
    "processes that spin": Bomb(
        program="""
import os
for _ in range(3):
    if os.fork() == 0:
        break
while True:
    pass
""",
        how="timed_out", message="0.4 s of processor time", limits={"cpu_s": 0.4},
    ),
    "sleeping": Bomb(
        program="import time; time.sleep(30)",
        how="timed_out", message="longer than 0.5 s", limits={"wall_s": 0.5},
    ),
    "standing still": Bomb(
        program="import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        how="timed_out", message="longer than 0.5 s", limits={"wall_s": 0.5},
    ),
    "ignoring every signal, with its output closed": Bomb(
        program="""
import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
os.fork()
os.close(1)
os.close(2)
time.sleep(30)
""",
        how="timed_out", message="longer than 1 s", limits={"wall_s": 1.0},
    ),
    "one big file": Bomb(
        program="""
with open("big", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
""",
        how="disk_full", message="more than 20 MiB", limits={"disk_mib": 20},
    ),
    "files below the limit, one after another": Bomb(
        program="""
import itertools, time
for number in itertools.count():
    with open(f"file{number}", "wb") as file:
        file.write(bytes(5 << 20))
    time.sleep(0.02)
""",
        how="disk_full", message="more than 20 MiB", limits={"disk_mib": 20},
    ),
    "many small files": Bomb(
        program="""
for number in range(100_000):
    open(f"file{number}", "wb").close()
""",
        how="disk_full", message="more than 8 MiB", limits={"disk_mib": 8},
    ),
    "files without a name": Bomb(
        program="""
import os, time
held = []
for number in range(10):
    held.append(open("nameless", "wb", buffering=0))
    os.unlink("nameless")
    held[-1].write(bytes(5 << 20))
    time.sleep(0.05)
time.sleep(30)
""",
        how="disk_full", message="more than 20 MiB", limits={"disk_mib": 20},
    ),
    "folders too deep to be looked into": Bomb(
        program="""
import os
for _ in range(1200):
    os.mkdir("d")
    os.chdir("d")
""",
        how="disk_full", message="nested too deeply",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A program that ends by itself, and what is to be said of it."""

    program: str
    how: str
    message: str
    tail: str = ""


ENDINGS: Final[Mapping[str, Ending]] = {
    "well": Ending(program="print('done')", how="finished", message="", tail="done\n"),
    "with a status": Ending(program="raise SystemExit(3)", how="exited", message="exit status 3"),
    "with an error": Ending(
        program="1 / 0", how="exited", message="exit status 1", tail="ZeroDivisionError: division by zero"
    ),
    "by abort": Ending(program="import os; os.abort()", how="killed", message="SIGABRT"),
    "by a wild pointer": Ending(
        program="import ctypes; ctypes.string_at(0)", how="killed", message="SIGSEGV"
    ),
    "by its own hand": Ending(
        program="import os, signal; os.kill(os.getpid(), signal.SIGKILL)", how="killed", message="SIGKILL"
    ),
    "for want of memory, as Python tells it": Ending(
        program="bytearray(1 << 45)", how="out_of_memory", message="no more memory", tail="MemoryError"
    ),
    "with many processes, one after another": Ending(
        program="import os\nfor _ in range(40):\n    os.fork() or os._exit(0)\n    os.wait()",
        how="finished", message="",
    ),
    "with as many processes as it may have": Ending(
        program="import os, time\nfor _ in range(15):\n    if not os.fork():\n        time.sleep(60)",
        how="finished", message="",
    ),
    "with one process more": Ending(
        program="import os, time\nfor _ in range(16):\n    if not os.fork():\n        time.sleep(60)",
        how="too_many_processes", message="more than 16 processes",
    ),
    "with letters that are none": Ending(
        program="import os; os.write(1, b'\\xff\\x00\\x1b[2Jend')", how="finished", message="", tail="end"
    ),
}  # fmt: skip

# Survivors begin with this: whoever lives on holds the lock.
LOCKED: Final = """
import fcntl
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
"""

# Each leaves somebody behind who would live on for a minute; the program itself ends well.
SURVIVORS: Final[Mapping[str, str]] = {
    "a process whose first thread is gone": """
import ctypes, os, threading, time
if os.fork() == 0:
    threading.Thread(target=time.sleep, args=(60,)).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # of this thread alone
time.sleep(0.3)
""",
    "an orphan": """
import os, time
if os.fork() == 0:
    time.sleep(60)
""",
    "a daemon of two forks and a session of its own": """
import os, time
def leave():
    try:
        os.setsid()
    except OSError:
        pass
if os.fork() == 0:
    leave()
    if os.fork() == 0:
        leave()
        os.chdir("/")
        for fd in range(3):
            os.close(fd)
        time.sleep(60)
    os._exit(0)
""",
    "children that ignore signals and are stopped": """
import os, signal, time
for _ in range(3):
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(60)
""",
    "children that replace each other": """
import os, time
if os.fork() == 0:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
time.sleep(0.2)
""",
}
