"""The system calls that a hostile program may not make, as a filter for the kernel, pure.

Law: what namespaces and Landlock leave open is closed here: each rule names what it prevents. A filter sees
numbers, never the target of a pointer. Nothing is executed in this module.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

# EPERM, ENOSYS, success without any effect, or what the program's watch says
Answer = Literal["refused", "unknown", "pretended", "asked"]

# system call: its number on x86_64, and on aarch64, where old calls do not exist
NUMBERS: Final[Mapping[str, tuple[int, int | None]]] = {
    "open": (2, None), "ioctl": (16, 29), "shmget": (29, 194), "shmat": (30, 196), "socket": (41, 198),
    "socketpair": (53, 199), "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "kill": (62, 129),
    "semget": (64, 190), "msgget": (68, 186),
    "fcntl": (72, 25), "truncate": (76, 45), "chmod": (90, None), "fchmod": (91, 52), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "ptrace": (101, 117), "syslog": (103, 116),
    "setpgid": (109, 154), "setsid": (112, 157), "rt_sigqueueinfo": (129, 138), "utime": (132, None),
    "setpriority": (141, 140), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "pivot_root": (155, 41), "prctl": (157, 167), "adjtimex": (159, 171), "chroot": (161, 51),
    "acct": (163, 89), "settimeofday": (164, 170), "mount": (165, 40), "umount2": (166, 39),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "init_module": (175, 105), "delete_module": (176, 106),
    "quotactl": (179, 60), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "tkill": (200, 130),
    "sched_setaffinity": (203, 122), "clock_settime": (227, 112), "tgkill": (234, 131),
    "utimes": (235, None), "mq_open": (240, 180), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "kexec_load": (246, 104), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "ioprio_set": (251, 30), "openat": (257, 56),
    "fchownat": (260, 54), "futimesat": (261, None), "fchmodat": (268, 53), "unshare": (272, 97),
    "utimensat": (280, 88), "rt_tgsigqueueinfo": (297, 240), "perf_event_open": (298, 241),
    "fanotify_init": (300, 262), "prlimit64": (302, 261), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "clock_adjtime": (305, 266), "setns": (308, 268),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "finit_module": (313, 273), "sched_setattr": (314, 274), "kexec_file_load": (320, 294),
    "bpf": (321, 280), "userfaultfd": (323, 282), "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "clone3": (435, 435), "openat2": (437, 437),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
}  # fmt: skip
LAST_KNOWN: Final = 451  # later calls do not exist for the program: nobody has judged them here

MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, the kernel's name


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on one argument: its bits under `mask` are among `values`, or are not."""

    argument: int
    values: tuple[int, ...]
    among: bool = True
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Rule:
    """What is answered to some calls, each time or under one condition."""

    answer: Answer
    calls: tuple[str, ...]
    where: Where | None = None


NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEW* of clone()
NEGATIVE: Final = 0x80000000
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
DATAGRAMS: Final = (2, 3)  # of this machine alone the kernel makes datagrams of SOCK_RAW too
ALTER_OWNER: Final = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals by way of a file
LEASES: Final = (1024, 1026)  # F_SETLEASE and F_NOTIFY: who opens the file next waits until we let go
LENT_IDENTITY: Final = (0o2000, 0o4000, 0o6000)  # set-user-id and set-group-id
TYPE_AT_TERMINAL: Final = (0x5412, 0x541C, 0x8901, 0x8902)  # TIOCSTI, TIOCLINUX, and owners of sockets
ALTER_FLAGS: Final = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
SHIELD: Final = (1, 4)  # PR_SET_PDEATHSIG, PR_SET_DUMPABLE: what our watch and our end of it rest on

ALWAYS: Final = (
    Rule("refused", ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
                     "process_madvise")),  # other processes' memory
    Rule("refused", ("io_uring_setup", "io_uring_enter", "io_uring_register")),  # goes round this filter
    Rule("refused", ("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree",
                     "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr")),
    Rule("refused", ("clone",), Where(0, (0,), among=False, mask=NEW_NAMESPACES)),
    Rule("unknown", ("clone3",)),  # its flags lie behind a pointer; the C library falls back to clone
    Rule("refused", ("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd",
                     "open_by_handle_at", "name_to_handle_at", "fanotify_init")),
    Rule("refused", ("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
                     "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "sethostname",
                     "setdomainname", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
                     "syslog")),
    Rule("refused", ("setpriority",), Where(0, (0,), among=False)),
    Rule("refused", ("ioprio_set",), Where(0, (1,), among=False)),
    Rule("refused", ("fcntl",), Where(1, (*ALTER_OWNER, *LEASES))),
    Rule("refused", ("ioctl",), Where(1, TYPE_AT_TERMINAL)),
    Rule("pretended", ("prctl",), Where(0, SHIELD)),
    # A file with its maker's rights outlives the program, and the maker may be root outside.
    Rule("refused", ("chmod", "fchmod"), Where(1, LENT_IDENTITY, mask=0o6000)),
    Rule("refused", ("fchmodat",), Where(2, LENT_IDENTITY, mask=0o6000)),
    # Memory that belongs to no process, and cannot be seen by whoever counts it.
    Rule("refused", ("shmget", "shmat", "msgget", "semget", "mq_open", "memfd_secret")),
    # What happens in other folders; the places for watchers are few, and shared by all of one user.
    Rule("refused", ("inotify_init", "inotify_init1")),
)  # fmt: skip

WITHOUT_SESSION: Final = (
    # The pipeline's group is stopped and killed as one, so nobody leaves it ...
    Rule("refused", ("setsid", "setpgid")),
    # ... and a pid namespace does not end it: kill(0) would reach the worker.
    Rule("refused", ("kill",), Where(0, (0,))),
    Rule("refused", ("kill",), Where(0, (NEGATIVE,), mask=NEGATIVE)),
)

BY_IP: Final = (INET, INET6, NETLINK)


def _sockets(*families: int) -> Rule:
    """Refuse all others: a network namespace does not hold AF_VSOCK, a virtual machine's line to its host."""
    return Rule("refused", ("socket",), Where(0, families, among=False))


# Without namespaces of its own the program would meet these of the machine.
# Such a pair can send elsewhere.
PAIRS_OF_DATAGRAMS: Final = Rule("refused", ("socketpair",), Where(1, DATAGRAMS, mask=0xF))
WITHOUT_NAMESPACES: Final = (
    Rule("refused", ("socketpair",), Where(0, (UNIX,), among=False)),
    PAIRS_OF_DATAGRAMS,
    Rule("refused", ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam",
                     "sched_setattr"), Where(0, (0,), among=False)),
    Rule("refused", ("setpriority", "ioprio_set"), Where(1, (0,), among=False)),
    # Landlock lets an owner change the modes of files; copying programs stop if they are told no.
    Rule("pretended", ("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "setxattr",
                       "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "utime",
                       "utimes", "futimesat", "utimensat")),
    Rule("pretended", ("ioctl",), Where(1, ALTER_FLAGS)),
)  # fmt: skip

SCOPED_SIGNALS_ABI: Final = 6  # from here on Landlock keeps signals inside
WITHOUT_SCOPED_SIGNALS: Final = (
    Rule("refused", ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")),
)
TRUNCATION_ABI: Final = 3  # from here on Landlock knows truncation
EMPTIES: Final = 0x200  # O_TRUNC; with O_RDONLY it asks for no right to write
WITHOUT_TRUNCATION: Final = (
    Rule("refused", ("truncate",)),
    Rule("refused", ("open",), Where(1, (EMPTIES,), mask=EMPTIES | 3)),
    Rule("refused", ("openat",), Where(2, (EMPTIES,), mask=EMPTIES | 3)),
    Rule("unknown", ("openat2",)),
)


# Files of memory, as above; the driver of a GPU makes them too.
WITHOUT_GPU: Final = (Rule("unknown", ("memfd_create",)),)

# Each new process and thread has to be allowed by the watch, which counts them.
CREATIONS: Final = (
    Rule("asked", ("fork", "vfork", "clone")),
    Rule("unknown", ("clone3",)),
)
THREAD: Final = 0x10000  # CLONE_THREAD of clone()


def rules(
    *,
    namespaces: bool,
    landlock_abi: int,
    gpu: bool,
    network: bool = False,
    has_unix: bool = True,
    is_session: bool = False,
) -> tuple[Rule, ...]:
    """Return what is refused to a program that has namespaces of its own, or only Landlock (0: none).

    `has_unix`: sockets of this machine lead it nowhere. `is_session`: in namespaces it has its own session.
    """
    always = ALWAYS if gpu else (*ALWAYS, *WITHOUT_GPU)
    if namespaces:
        families = (UNIX, *BY_IP) if has_unix else BY_IP
        pairs = () if has_unix else (PAIRS_OF_DATAGRAMS,)
        return (*always, *(() if is_session else WITHOUT_SESSION), _sockets(*families), *pairs)
    always = (*always, *WITHOUT_SESSION, _sockets(*BY_IP) if network else Rule("refused", ("socket",)))
    signals = WITHOUT_SCOPED_SIGNALS if landlock_abi < SCOPED_SIGNALS_ABI else ()
    truncation = WITHOUT_TRUNCATION if landlock_abi < TRUNCATION_ABI else ()
    return (*always, *WITHOUT_NAMESPACES, *signals, *truncation)


# Classic BPF: load a word of the call's description, compare, return.
LOAD, MASK, EQUAL, ABOVE, RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16
ALLOW, KILL = 0x7FFF0000, 0x80000000
ANSWERS: Final[Mapping[Answer, int]] = {"refused": 0x50001, "unknown": 0x50026, "pretended": 0x50000,
                                          "asked": 0x7FC00000}  # fmt: skip


def compiled(machine: str, refusals: Sequence[Rule]) -> bytes | None:
    """Return the kernel's form of the rules, None for a machine whose call numbers are not known here."""
    if machine not in MACHINES:
        return None
    column, name = MACHINES[machine]
    steps = [
        (LOAD, 0, 0, MACHINE_AT),
        (EQUAL, 1, 0, name),
        (RETURN, 0, 0, KILL),  # another architecture's call: its numbers mean something else
        (LOAD, 0, 0, NUMBER_AT),
        (ABOVE, 0, 1, LAST_KNOWN),
        (RETURN, 0, 0, ANSWERS["unknown"]),
    ]
    for rule in refusals:
        for call in rule.calls:
            if (number := NUMBERS[call][column]) is not None:
                steps += _steps(number, rule)
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _steps(number: int, rule: Rule) -> Iterator[tuple[int, int, int, int]]:
    """Yield the instructions of one rule for one call; the call's number is loaded before and after."""
    answer = (RETURN, 0, 0, ANSWERS[rule.answer])
    if rule.where is None:
        yield (EQUAL, 0, 1, number)
        yield answer
        return
    where = rule.where
    tests = len(where.values)
    # load and mask, the comparisons, one answer, the number again
    yield (EQUAL, 0, tests + 4, number)
    yield (LOAD, 0, 0, ARGUMENTS_AT + 8 * where.argument)  # the low half: what the kernel looks at
    yield (MASK, 0, 0, where.mask)
    for place, value in enumerate(where.values, start=1):
        left = tests - place  # comparisons still to come
        hit = left if where.among else left + 1
        miss = 0 if left else (1 if where.among else 0)
        yield (EQUAL, hit, miss, value)
    yield answer
    yield (LOAD, 0, 0, NUMBER_AT)
