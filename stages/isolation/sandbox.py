"""The port of the sandbox: the limits of an untrusted program, its named end, and the start of one held in it.

Law: the program sees its own folder, the files that the job names, and nothing else of value. Whatever it
does, `run` returns after the job's limits with a named end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

LOG_TAIL_CHARS: Final = 4_000

# The least that the operator asks for (PODFLEET_ISOLATION); each name is a step down from the one before it:
# no gap but the accepted ones, a filter of system calls at least, whatever the machine allows.
Policy = Literal["strict", "filter", "best"]
POLICIES: Final[tuple[Policy, ...]] = ("strict", "filter", "best")
# Landlock refuses what files hold, and not `stat`. Strict isolation accepts that, and names it.
METADATA: Final = "learn which files there are outside its folder, and their size, time and mode"
ACCEPTED: Final = frozenset({METADATA})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """What a program may use before it is ended, its whole process tree counted together."""

    wall_s: float = 600.0
    cpu_s: float = 1_200.0
    memory_mib: int = 4_096
    processes: int = 64
    output_bytes: int = 4 << 20  # printed, both streams together
    disk_mib: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One Python program: `script` lies in `folder`, its working directory and the only place it may write.

    `readable` are files and folders outside that it may read, at their own paths; `gpu` is the
    index of the only device that it may use, None for none. With `network` it reaches what this machine
    does by IP. `is_session`: it may begin sessions and process groups, where none of them leads out.
    """

    folder: Path
    script: str
    readable: tuple[Path, ...] = ()
    limits: JobLimits = field(default_factory=JobLimits)
    gpu: int | None = None
    network: bool = False
    is_session: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a program is started that is held, and then is its caller's to watch and to end.

    `words` come before those of the program, with the number of an open file between them, which holds
    `plan`: it is empty once the program runs, and else says why it does not.
    """

    words: tuple[str, ...]
    plan: bytes
    isolation: Isolation


How = Literal[
    "finished", "exited", "killed", "timed_out", "out_of_memory", "too_many_processes", "too_much_output",
    "disk_full", "not_started", "lost",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended: `finished` is exit status 0, `message` has the details for people.

    `not_started` and `lost` are the machine's doing: it did not begin the program, or ended it.

    `seconds` counts only time in which the program could run, `processor_s` the processor time of all its
    processes, None where it could not be measured; `log_tail` is the end of its output, at most
    `LOG_TAIL_CHARS`.
    """

    how: How
    seconds: float
    log_tail: str = ""
    message: str = ""
    processor_s: float | None = None


@dataclass(frozen=True, slots=True)
class Isolation:
    """What holds a program in, found out by a probe that tried to get out.

    `gaps` are what a program could still do, in words; strict isolation has none but those of `ACCEPTED`.
    """

    name: str
    gaps: tuple[str, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Return whether there is no gap but accepted ones."""
        return ACCEPTED.issuperset(self.gaps)


class Sandbox(Protocol):
    """Runs programs; every method may be called from several threads at once."""

    def isolation(self) -> Isolation:
        """Return the isolation in force; the first call finds it out.

        Raises `PipelineError` with the code NO_ISOLATION where the operator asked for more than there is.
        """
        ...

    def run(self, job: Job) -> Ended:
        """Run a program to its end; nothing of its process tree is left afterwards."""
        ...

    def start(self, job: Job, folder: Path, environment: Mapping[str, str]) -> Start:
        """Return how a program, not the job's script, is started in a folder, strictly held, without limits.

        Raises `PipelineError` with the code NO_ISOLATION where no isolation here is strict.
        """
        ...
