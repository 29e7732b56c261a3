"""The filter of system calls: what it holds, in the words of its rules and in a process under it."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from stages.isolation.system_calls import (
    ALLOW,
    ALWAYS,
    ANSWERS,
    ARGUMENTS_AT,
    CREATIONS,
    KILL,
    LAST_KNOWN,
    MACHINES,
    NEW_NAMESPACES,
    NUMBERS,
    WITHOUT_NAMESPACES,
    Rule,
    Where,
    compiled,
    rules,
)

ROOT = Path(__file__).parents[3]
INTEL = MACHINES["x86_64"][1]
ARM = MACHINES["aarch64"][1]
REFUSED, UNKNOWN, PRETENDED = (ANSWERS[answer] for answer in ("refused", "unknown", "pretended"))
EVERYTHING = [
    rules(namespaces=namespaces, landlock_abi=abi, gpu=gpu)
    for namespaces in (False, True)
    for abi in (0, 1, 3, 6, 7)
    for gpu in (False, True)
]


def ruled(code: bytes, number: int, arguments: Sequence[int] = (), machine: int = INTEL) -> int:
    """Return what the kernel would answer: it runs such programs, and so does this, in few lines."""
    given = [*arguments, *[0] * (6 - len(arguments))]
    described = struct.pack("=iIQ6Q", number, machine, 0, *given)
    steps = list(struct.iter_unpack("=HBBI", code))
    held, place = 0, 0
    while True:
        operation, on_hit, on_miss, value = steps[place]
        place += 1
        if operation == 0x20:
            (held,) = struct.unpack_from("=I", described, value)
        elif operation == 0x54:
            held &= value
        elif operation == 0x15:
            place += on_hit if held == value else on_miss
        elif operation == 0x25:
            place += on_hit if held > value else on_miss
        else:
            assert operation == 0x06
            return int(value)


def filtered(refusals: Sequence[Rule], machine: str = "x86_64") -> bytes:
    code = compiled(machine, refusals)
    assert code is not None
    return code


def call(name: str, machine: str = "x86_64") -> int:
    number = NUMBERS[name][MACHINES[machine][0]]
    assert number is not None
    return number


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("refusals", EVERYTHING)
def test_every_rule_answers_its_calls_and_no_other(machine: str, refusals: tuple[Rule, ...]) -> None:
    code = filtered(refusals, machine)
    column, kernels_name = MACHINES[machine]
    named = {NUMBERS[name][column] for rule in refusals for name in rule.calls}
    for rule in refusals:
        if rule.where is None:
            for name in rule.calls:
                if (number := NUMBERS[name][column]) is not None:
                    assert ruled(code, number, machine=kernels_name) == ANSWERS[rule.answer], name
    for number in set(range(LAST_KNOWN + 1)) - named:
        assert ruled(code, number, (7, 7, 7, 7, 7, 7), kernels_name) == ALLOW
    # the kernel takes 4096 instructions; a pipe, in which it is handed over, holds 64 KiB
    assert len(code) % 8 == 0
    assert len(code) < 4096 * 8


@pytest.mark.parametrize("name", [name for rule in (*ALWAYS, *WITHOUT_NAMESPACES) for name in rule.calls])
def test_every_call_of_a_rule_has_a_number(name: str) -> None:
    assert name in NUMBERS


def test_no_number_stands_for_two_calls() -> None:
    for column in (0, 1):
        numbers = [each[column] for each in NUMBERS.values() if each[column] is not None]
        assert len(set(numbers)) == len(numbers)
        assert max(numbers) <= LAST_KNOWN


def test_a_call_of_another_architecture_ends_the_program() -> None:
    code = filtered(ALWAYS)
    assert ruled(code, call("kill"), machine=ARM) == KILL
    assert ruled(code, 1, machine=0x40000003) == KILL  # 32 bits: int 0x80


def test_calls_that_nobody_has_judged_do_not_exist() -> None:
    code = filtered(ALWAYS)
    for number in (LAST_KNOWN + 1, 1000, 0x40000000 + call("ptrace"), 2**31):
        assert ruled(code, number if number < 2**31 else number - 2**32) == UNKNOWN


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("clone", (NEW_NAMESPACES & -NEW_NAMESPACES,), REFUSED),
        ("clone", (0x10000000 | 17,), REFUSED),  # a user namespace
        ("clone", (0x3D0F00,), ALLOW),  # a thread
        ("clone", (17,), ALLOW),  # a fork
        ("clone3", (), UNKNOWN),
        ("kill", (0, 9), REFUSED),
        ("kill", (2**32 - 1, 9), REFUSED),  # everybody, as the kernel reads it
        ("kill", (2**64 - 1, 9), REFUSED),
        ("kill", (2**64 - 1234, 9), REFUSED),  # a group
        ("kill", (1234, 9), ALLOW),
        ("socket", (1, 1), ALLOW),
        ("socket", (2, 1), ALLOW),
        ("socket", (40, 1), REFUSED),  # to the host of a virtual machine
        ("socket", (17, 3), REFUSED),  # packets
        ("prctl", (1, 0), PRETENDED),
        ("prctl", (4, 0), PRETENDED),
        ("prctl", (15, 0), ALLOW),  # a name for a thread
        ("fcntl", (5, 8, 1), REFUSED),
        ("fcntl", (5, 1024, 1), REFUSED),
        ("fcntl", (5, 3), ALLOW),
        ("ioctl", (5, 0x5412), REFUSED),
        ("ioctl", (5, 2**32 + 0x5412), REFUSED),  # the kernel looks at the low half alone
        ("ioctl", (5, 0x5401), ALLOW),
        ("chmod", (0, 0o4755), REFUSED),
        ("fchmod", (0, 0o2755), REFUSED),
        ("fchmodat", (0, 0, 0o6755), REFUSED),
        ("fchmodat", (0, 0, 0o755), ALLOW),
        ("setpriority", (0, 0), ALLOW),
        ("setpriority", (1, 0), REFUSED),
        ("shmget", (), REFUSED),
    ],
)
def test_conditions_are_on_the_argument_that_decides(
    name: str, arguments: Sequence[int], answer: int
) -> None:
    assert ruled(filtered(rules(namespaces=True, landlock_abi=0, gpu=False)), call(name), arguments) == answer


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("socket", (2, 1), REFUSED),
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (1, 0o2000000 | 1), ALLOW),  # with SOCK_CLOEXEC
        ("socketpair", (1, 2), REFUSED),
        ("socketpair", (1, 3), REFUSED),  # datagrams by another name
        ("socketpair", (2, 1), REFUSED),
        ("chmod", (0, 0o755), PRETENDED),
        ("chmod", (0, 0o4755), REFUSED),
        ("prlimit64", (0,), ALLOW),
        ("prlimit64", (1234,), REFUSED),
    ],
)
def test_without_namespaces_what_they_would_hold_is_refused(
    name: str, arguments: Sequence[int], answer: int
) -> None:
    assert (
        ruled(filtered(rules(namespaces=False, landlock_abi=7, gpu=False)), call(name), arguments) == answer
    )


@pytest.mark.parametrize("namespaces", [True, False])
def test_with_the_network_a_program_has_sockets_of_ip_and_in_namespaces_its_own_session(
    namespaces: bool,
) -> None:
    code = filtered(
        rules(namespaces=namespaces, landlock_abi=7, gpu=False, network=True, has_unix=False, is_session=True)
    )
    for family, answer in ((2, ALLOW), (10, ALLOW), (16, ALLOW), (1, REFUSED), (40, REFUSED)):
        assert ruled(code, call("socket"), (family, 1)) == answer
    for name, arguments in (("setsid", ()), ("setpgid", ()), ("kill", (0,)), ("kill", (0xFFFFFFFF,))):
        assert ruled(code, call(name), arguments) == (ALLOW if namespaces else REFUSED)


@pytest.mark.parametrize(("has_unix", "answer"), [(True, ALLOW), (False, REFUSED)])
def test_no_pair_of_datagrams_leads_out_of_a_network_that_is_shared(has_unix: bool, answer: int) -> None:
    refusals = rules(namespaces=True, landlock_abi=5, gpu=False, network=True, has_unix=has_unix)
    compiled_ones = filtered(refusals)
    for kind in (2, 3):  # datagrams, by both their names
        assert ruled(compiled_ones, call("socketpair"), (1, kind, 0)) == answer
    assert ruled(compiled_ones, call("socketpair"), (1, 1, 0)) == ALLOW


def test_what_an_old_landlock_lacks_is_refused() -> None:
    newest, without_signals, oldest = (
        filtered(rules(namespaces=False, landlock_abi=abi, gpu=False)) for abi in (6, 5, 2)
    )
    for name, arguments in (("kill", (1234,)), ("tgkill", (1, 2)), ("pidfd_send_signal", (5,))):
        assert ruled(newest, call(name), arguments) == ALLOW
        assert ruled(without_signals, call(name), arguments) == REFUSED
    for arguments, answer in (((0, 0x200), REFUSED), ((0, 0x241), ALLOW), ((0, 0), ALLOW)):
        assert ruled(oldest, call("open"), arguments) == answer
        assert ruled(oldest, call("openat"), (0, *arguments)) == answer
        assert ruled(newest, call("open"), arguments) == ALLOW


def test_files_of_memory_are_for_programs_with_a_gpu() -> None:
    for gpu, answer in ((False, UNKNOWN), (True, ALLOW)):
        assert (
            ruled(filtered(rules(namespaces=True, landlock_abi=0, gpu=gpu)), call("memfd_create")) == answer
        )


def test_births_are_asked_for_and_nothing_else() -> None:
    code = filtered(CREATIONS)
    for name in ("fork", "vfork", "clone"):
        assert ruled(code, call(name), (0x3D0F00,)) == ANSWERS["asked"]
    assert ruled(code, call("clone3")) == UNKNOWN
    assert ruled(code, call("kill"), (0, 9)) == ALLOW


def test_a_machine_whose_calls_are_not_known_gets_no_filter() -> None:
    assert compiled("riscv64", ALWAYS) is None


def test_the_value_of_a_condition_is_seen_at_each_place() -> None:
    code = filtered((Rule("refused", ("ioctl",), Where(5, (3, 5, 7))),))
    answers = [ruled(code, call("ioctl"), (0, 0, 0, 0, 0, value)) for value in range(9)]
    assert answers == [REFUSED if value in (3, 5, 7) else ALLOW for value in range(9)]
    others = filtered((Rule("refused", ("ioctl",), Where(0, (3, 5, 7), among=False)),))
    answers = [ruled(others, call("ioctl"), (value,)) for value in range(9)]
    assert answers == [ALLOW if value in (3, 5, 7) else REFUSED for value in range(9)]
    assert struct.calcsize("=iIQ") == ARGUMENTS_AT


# A process puts itself under the filter and says which calls go through.
CHILD = """
import ctypes, os, socket, sys
sys.path.append(sys.argv[1])
from stages.adapters.sandbox.kernel import filter_calls, gain_no_privileges
gain_no_privileges()
filter_calls(bytes.fromhex(sys.argv[2]))

def tried(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0

libc = ctypes.CDLL(None, use_errno=True)
def raw(name, *arguments):
    return 0 if getattr(libc, name)(*arguments) >= 0 else ctypes.get_errno()

print(
    tried(os.setsid), tried(os.kill, 0, 0), tried(os.kill, os.getpid(), 0), tried(socket.socket, 2, 1),
    tried(socket.socketpair, 1, 1), tried(socket.socketpair, 1, 3), raw("unshare", 0x10000000),
    raw("ptrace", 0, 0, 0, 0), raw("memfd_create", b"x", 0), tried(os.chmod, sys.argv[3], 0o700),
)
"""


@pytest.mark.skipif(os.uname().machine not in MACHINES, reason="the calls of this machine are not known")
def test_the_kernel_runs_the_filter_as_it_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(0o644)
    code = compiled(os.uname().machine, rules(namespaces=False, landlock_abi=7, gpu=False))
    assert code is not None
    command = [sys.executable, "-I", "-S", "-c", CHILD, str(ROOT), code.hex(), str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    no, unknown = errno.EPERM, errno.ENOSYS
    expected = [no, no, 0, no, 0, no, no, no, unknown, 0]
    assert answer.stdout.split() == [str(number) for number in expected], answer.stderr
    assert file.stat().st_mode & 0o777 == 0o644  # as it was: the success was pretended
