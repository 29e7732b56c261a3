"""What is planned for a program, and what the answers of a probe and of a watch mean."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from stages.isolation.levels import (
    BUBBLEWRAP,
    BUBBLEWRAP_WITHOUT_PROC,
    CANDIDATES,
    FILTER,
    GAPS,
    LANDLOCK,
    LIMITS,
    Breach,
    Candidate,
    Machine,
    Plan,
    Report,
    Trial,
    chosen,
    described,
    ended,
    environment,
    judge,
    obstacle,
    plan,
    refusal,
    start_plan,
)
from stages.isolation.sandbox import LOG_TAIL_CHARS, METADATA, POLICIES, Job, JobLimits, Policy

MACHINE = Machine(
    architecture="x86_64",
    bubblewrap="/usr/bin/bwrap",
    landlock_abi=7,
    python="/venv/bin/python",
    visible=("/usr", "/venv"),
    links=(("/bin", "usr/bin"),),
    gpu_devices=("/dev/nvidia0", "/dev/nvidiactl"),
    gpu_facts=("/proc/driver/nvidia", "/sys/module"),
    gpus=("GPU-a", "GPU-b"),
)
JOB = Job(
    folder=Path("/runs/7/node"), script="program.py", readable=(Path("/runs/7/data.npz"),),
    limits=JobLimits(wall_s=60, cpu_s=30, memory_mib=512, processes=8, output_bytes=1000, disk_mib=64),
)  # fmt: skip
REPORT = Report(breach=None, status=0, seconds=1.23456, tail="")


def pairs(words: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Return what follows each occurrence of an option with two arguments."""
    return [(words[at + 1], words[at + 2]) for at, word in enumerate(words) if word == option]


def test_a_candidate_is_not_tried_where_its_means_are_missing() -> None:
    assert [obstacle(each, MACHINE) for each in CANDIDATES] == [None] * 5
    bare = replace(MACHINE, architecture="riscv64", bubblewrap=None, landlock_abi=0)
    assert [obstacle(each, bare) for each in CANDIDATES] == [
        "it is not installed",
        "it is not installed",
        "the kernel has none",
        "the system calls of riscv64 are not known here",
        None,
    ]


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda candidate: candidate.name)
@pytest.mark.parametrize("gpu", [None, 1])
def test_a_plan_comes_out_of_its_line_as_it_went_in(candidate: Candidate, gpu: int | None) -> None:
    made = plan(candidate, MACHINE, replace(JOB, gpu=gpu))
    line = made.encode()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert Plan.decode(line) == made


def test_a_report_comes_out_of_its_line_as_it_went_in() -> None:
    report = replace(REPORT, tail="a\nb\udcff", breach="wall", status=-9, left=2)
    line = report.encode()
    assert (line.endswith(b"\n"), line.count(b"\n")) == (True, 1)
    assert Report.decode(line) == report


def test_every_program_is_started_the_same_way_within_its_walls() -> None:
    for candidate in CANDIDATES:
        made = plan(candidate, MACHINE, JOB)
        assert made.command[-4:] == ("/venv/bin/python", "-I", "-u", "/runs/7/node/program.py")
        assert bool(made.filter_hex) == candidate.filtered
        assert made.creation_filter_hex  # everybody's creations are counted
        assert made.landlock_abi == (7 if candidate is LANDLOCK else 0)
        assert made.namespaces == (made.command[0] == "/usr/bin/bwrap") == candidate.namespaces
        assert made.limits == JOB.limits


@pytest.mark.parametrize("candidate", [BUBBLEWRAP, BUBBLEWRAP_WITHOUT_PROC], ids=lambda each: each.name)
def test_only_the_work_folder_is_writable_in_a_name_space(candidate: Candidate) -> None:
    words = plan(candidate, MACHINE, JOB).command
    assert pairs(words, "--bind") == [
        ("/runs/7/node/.shm", "/dev/shm"), ("/runs/7/node", "/runs/7/node"),
    ]  # fmt: skip
    assert ("/runs/7/data.npz", "/runs/7/data.npz") in pairs(words, "--ro-bind")
    assert pairs(words, "--symlink") == [("usr/bin", "/bin")]
    for option in ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent"):
        assert option in words
    assert words[words.index("--cap-drop") + 1] == "ALL"
    shut = {path for option, path in pairwise(words) if option == "--remount-ro"}
    assert shut == {"/", "/dev", *(("/proc",) if candidate.own_proc else ())}
    assert ("--proc" in words) == candidate.own_proc


@pytest.mark.parametrize("network", [False, True])
def test_a_job_is_started_by_the_same_plan_and_has_the_network_only_by_its_wish(network: bool) -> None:
    job = replace(JOB, script="", network=network, is_session=True)
    start = Path("/runs/7/node/work")
    inside, beside = (start_plan(each, MACHINE, job, start, {"A": "1"}) for each in (BUBBLEWRAP, LANDLOCK))
    assert inside.command[-1] == "--"
    assert ("--unshare-net" in inside.command) == (not network)
    assert "--new-session" in inside.command
    assert inside.command[inside.command.index("--chdir") + 1] == str(start)
    assert (inside.is_scoped, beside.is_scoped, beside.has_network) == (network, False, network)
    assert ("/etc/resolv.conf" in beside.readable) == network
    assert (beside.command, inside.environment, inside.creation_filter_hex) == ((), {"A": "1"}, "")
    # an old kernel keeps no abstract socket out: there are no sockets of the machine at all
    old = start_plan(BUBBLEWRAP, replace(MACHINE, landlock_abi=5), job, start, {})
    assert (old.filter_hex == inside.filter_hex, old.is_scoped) == (not network, False)


def test_what_lies_inside_another_place_is_mounted_after_it() -> None:
    """The other way round the outer one would cover it."""
    inner = Path("/usr/share/data")
    job = replace(JOB, folder=Path("/usr/share/data/node"), readable=(inner,))
    words = plan(BUBBLEWRAP, MACHINE, job).command
    order = [words.index(path) for path in ("/usr", str(inner), str(job.folder))]
    assert order == sorted(order)


def test_landlock_is_told_what_may_be_read_and_what_written() -> None:
    made = plan(LANDLOCK, MACHINE, JOB)
    assert {"/usr", "/venv", "/runs/7/data.npz", "/dev/urandom"} <= {*made.readable}
    assert not {"/", "/proc", "/dev", "/runs/7", "/dev/nvidia0"} & {*made.readable, *made.writable}
    assert [path for path in made.writable if not path.startswith("/dev/")] == ["/runs/7/node"]


def test_what_is_masked_is_covered_or_not_granted() -> None:
    machine = replace(
        MACHINE,
        masked=("/venv/lib/data", "/venv/lib/wine.csv"), masked_files=frozenset({"/venv/lib/wine.csv"}),
        unmasked=("/usr", "/venv/bin", "/venv/lib/code"), listed=("/venv", "/venv/lib"),
    )  # fmt: skip
    words = plan(BUBBLEWRAP, machine, JOB).command
    assert ("/dev/null", "/venv/lib/wine.csv") in pairs(words, "--ro-bind")
    assert words.index("/venv") < words.index("/venv/lib/data")
    mask = words.index("--tmpfs")
    assert words[mask : mask + 4] == ("--tmpfs", "/venv/lib/data", "--remount-ro", "/venv/lib/data")
    made = plan(LANDLOCK, machine, JOB)
    assert {"/usr", "/venv/bin", "/venv/lib/code"} <= {*made.readable}
    assert not {"/venv", "/venv/lib", *machine.masked} & {*made.readable}
    assert made.listed == ("/venv", "/venv/lib")


def test_a_gpu_is_shown_to_a_program_that_has_one_and_to_no_other() -> None:
    for candidate in CANDIDATES:
        without, having = (plan(candidate, MACHINE, replace(JOB, gpu=gpu)) for gpu in (None, 0))
        assert "nvidia" not in " ".join((*without.command, *without.readable, *without.writable))
        shown = (*having.command, *having.readable, *having.writable)
        assert "/dev/nvidia0" in shown
        assert without.address_space
        assert not having.address_space  # CUDA reserves more than there is
        assert "net" not in without.own
        assert having.own == ("",)
    assert ("/dev/nvidia0", "/dev/nvidia0") in pairs(
        plan(BUBBLEWRAP, MACHINE, replace(JOB, gpu=0)).command, "--dev-bind-try"
    )


@pytest.mark.parametrize(("gpu", "named"), [(None, ""), (0, "GPU-a"), (1, "GPU-b"), (2, "2")])
def test_the_only_gpu_is_named_as_the_operator_names_it(gpu: int | None, named: str) -> None:
    assert environment(MACHINE, replace(JOB, gpu=gpu))["CUDA_VISIBLE_DEVICES"] == named
    unnamed = replace(MACHINE, gpus=())
    assert environment(unnamed, replace(JOB, gpu=gpu))["CUDA_VISIBLE_DEVICES"] == (
        "" if gpu is None else str(gpu)
    )


def test_every_answer_of_a_probe_counts_and_none_may_lack() -> None:
    shut = dict.fromkeys(GAPS, False)
    assert judge(BUBBLEWRAP, shut) == Trial(BUBBLEWRAP)
    assert judge(LANDLOCK, shut) == Trial(LANDLOCK, gaps=(METADATA,))
    for name, words in GAPS.items():
        trial = judge(BUBBLEWRAP, shut | {name: True})
        assert (trial.gaps, trial.is_strict) == ((words,), False)
        assert not judge(LANDLOCK, shut | {name: True}).is_strict
        meant = judge(BUBBLEWRAP, shut | {name: True}, network=True)
        assert meant.is_strict == (name in ("tcp", "udp"))
        with pytest.raises(AssertionError, match=name):
            judge(LANDLOCK, {each: False for each in GAPS if each != name})


def test_each_policy_takes_the_first_of_those_with_the_fewest_gaps_that_it_allows() -> None:
    broken = Trial(BUBBLEWRAP, obstacle="it does not work here")
    two, one, other = Trial(LANDLOCK, gaps=("a", "b")), Trial(FILTER, gaps=("a",)), Trial(LIMITS, gaps=("b",))
    none = Trial(LIMITS)
    accepted = Trial(LANDLOCK, gaps=(METADATA,))
    assert chosen([broken, two, one, other], "best") is one
    assert chosen([two, one, none], "best") is none
    assert chosen([two, one, none], "filter") is one
    assert chosen([Trial(BUBBLEWRAP), Trial(LANDLOCK)], "strict") == Trial(BUBBLEWRAP)
    assert chosen([broken, accepted, one], "strict") is accepted
    assert chosen([broken, Trial(LANDLOCK, gaps=(METADATA, "a")), one, other], "strict") is None
    assert chosen([broken, other], "filter") is None
    assert chosen([broken, other], "best") is other
    for policy in POLICIES:
        assert chosen([broken], policy) is None
        assert chosen([], policy) is None


def test_an_isolation_is_named_with_its_version_and_its_gaps() -> None:
    landlock = described(Trial(LANDLOCK, gaps=(METADATA,)), MACHINE)
    assert (landlock.name, landlock.is_strict, landlock.gaps) == ("Landlock (ABI 7)", True, (METADATA,))
    with_gap = described(Trial(FILTER, gaps=("send UDP",)), MACHINE)
    assert (with_gap.name, with_gap.gaps, with_gap.is_strict) == ("system call filter", ("send UDP",), False)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_refusal_says_what_was_tried_and_what_to_do(policy: Policy) -> None:
    trials = [Trial(BUBBLEWRAP, obstacle="it is not installed"), Trial(LIMITS, gaps=("send UDP", "list"))]
    words = refusal(trials, policy)
    assert "bubblewrap: it is not installed" in words
    assert "resource limits: a program could send UDP, list" in words
    steps = {"strict": ("=filter", "=best"), "filter": ("=best",), "best": ("another pod",)}
    assert all(step in words for step in steps[policy])


LIMITED = plan(LIMITS, MACHINE, JOB)
SPACED = plan(BUBBLEWRAP, MACHINE, JOB)


def test_every_limit_has_an_end_of_its_name() -> None:
    named = {
        breach: ended(replace(REPORT, breach=breach, status=None), LIMITED) for breach in get_args(Breach)
    }
    assert {breach: (end.how, end.message) for breach, end in named.items()} == {
        "wall": ("timed_out", "it ran longer than 60 s"),
        "cpu": ("timed_out", "it used more than 30 s of processor time"),
        "memory": ("out_of_memory", "it used more than 512 MiB of memory"),
        "processes": ("too_many_processes", "it had more than 8 processes"),
        "output": ("too_much_output", "it printed more than 1000 bytes"),
        "disk": ("disk_full", "it wrote more than 64 MiB"),
        "hiding": ("disk_full", "it hid folders from the watch: nested too deeply, or not readable"),
        "room": ("disk_full", "the disk has less than 256 MiB left"),
        "machine_memory": ("lost", "the machine ran out of memory, and the program was within its limit"),
        "machine_disk": (
            "lost",
            "the disk has less than 256 MiB left, and not by what the program wrote",
        ),
    }


@pytest.mark.parametrize(
    ("status", "tail", "how", "words"),
    [
        (0, "", "finished", ""),
        (0, "MemoryError", "finished", ""),
        (1, "ValueError: no", "exited", "exit status 1"),
        (1, "Traceback\nMemoryError\n", "out_of_memory", "512 MiB"),
        (1, "numpy.core._exceptions._ArrayMemoryError: Unable to allocate", "out_of_memory", "512 MiB"),
        (1, "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", "out_of_memory", ""),
        (1, "torch.OutOfMemoryError: CUDA out of memory. Tried", "out_of_memory", ""),
        (1, "MemoryError\n" + "line\n" * 20, "exited", "exit status 1"),  # long ago, and survived
        (1, "my MemoryError is only a word", "exited", ""),
        (-signal.SIGSEGV, "", "killed", "SIGSEGV"),
        (-signal.SIGXCPU, "", "timed_out", "30 s of processor time"),
        (-signal.SIGXFSZ, "", "disk_full", "a file of more than 64 MiB"),
        (-50, "", "killed", "signal 50"),
        (None, "", "killed", "it was ended"),
    ],
)
def test_an_end_of_its_own_is_told_by_its_status(status: int | None, tail: str, how: str, words: str) -> None:
    end = ended(replace(REPORT, status=status, tail=tail), LIMITED)
    assert end.how == how
    assert words in end.message


def test_bubblewrap_tells_of_a_signal_as_a_shell_does() -> None:
    assert "SIGSEGV" in ended(replace(REPORT, status=139), SPACED).message
    assert ended(replace(REPORT, status=128 + signal.SIGXFSZ), SPACED).how == "disk_full"
    assert ended(replace(REPORT, status=139), LIMITED).how == "exited"


def test_what_prevented_the_start_or_hid_the_end_is_said_in_its_own_words() -> None:
    end = ended(replace(REPORT, status=127, obstacle="no such interpreter"), SPACED)
    assert (end.how, end.message) == ("not_started", "no such interpreter")
    end = ended(replace(REPORT, status=None, lost="its watch was killed"), SPACED)
    assert (end.how, end.message) == ("lost", "its watch was killed")


def test_what_the_kernel_did_not_let_go_is_told() -> None:
    assert ended(REPORT, LIMITED).processor_s is None
    assert ended(replace(REPORT, processor_s=0.98765), LIMITED).processor_s == 0.988
    assert "; 2 of its processes could not be ended" in ended(replace(REPORT, left=2), LIMITED).message


def test_an_end_is_rounded_and_its_log_cut() -> None:
    end = ended(replace(REPORT, tail="x" * (LOG_TAIL_CHARS + 5)), LIMITED)
    assert (end.seconds, len(end.log_tail)) == (1.235, LOG_TAIL_CHARS)
