"""The Python environment of a job: taken from those that the pod keeps, or made by uv as a stage of its own.

Law: what is installed may run code of its own while it is. It has the rights of the run and no more, and no
secret but those that are meant for uv; with such a secret what is made is this run's alone.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.files.environments import BYTES_MAX, CODE, REQUIREMENTS, Ingredients, read_ingredients
from events.files.open_beneath import read_beneath
from events.files.paths import BadPath, RunPath
from events.files.tree_removal import remove_tree
from events.kinds.declaring.stages import ENVIRONMENT
from events.runtime.errors import PipelineError, Rejected
from events.text.secret_names import is_of_index
from stages.context import Context, Stage
from stages.engines.environment import mask_of
from stages.engines.following import Following
from stages.kinds.job.output import entries_below
from stages.kinds.job.program import Output, running
from stages.kinds.job.sandboxing import Starter, starter
from stages.kinds.job.secrets import Secrets
from stages.ports.environments import Found

WITHIN: Final = Path(__file__).parents[3] / "podfleet" / "run.py"  # what a program imports as podfleet.run
LOG: Final = "environment.txt"
TIME_S: Final = 1_800.0
LOOK_S: Final = 0.1
WEIGH_EVERY_S: Final = 5.0
LAST_LINES: Final = 12
MESSAGE_CHARS: Final = 1_500
PASSED: Final = ("LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "CUDA_HOME")
# What uv says of an index that is away, and not of a package that is not there.
AWAY: Final = (
    "error sending request",
    "tcp connect error",
    "dns error",
    "operation timed out",
    "connection reset",
    "connection closed",
    "502 bad gateway",
    "503 service unavailable",
    "504 gateway timeout",
    "429 too many requests",
)
NO_ROOM: Final = ("no space left on device", "os error 28")


def environment_of(context: Context, work: Path, choice: str) -> Path | None:
    """Return the environment for the files of a working folder; None for the pod's own Python.

    Raises `PipelineError` where it cannot be made.
    """
    if choice == "pod":
        return None
    try:
        made_of = read_ingredients(lambda path: _read(work, path))
    except Rejected as error:
        with context.stage(ENVIRONMENT):
            raise PipelineError(CODE, error.message) from error
    if made_of is None and choice == "auto":
        return None
    with context.stage(ENVIRONMENT) as stage:
        if made_of is None:
            why = (
                f"the working folder has no uv.lock, no pyproject.toml with a project, and no {REQUIREMENTS}"
            )
            raise PipelineError(CODE, f"{why}: add one, or choose python: pod")
        return _Making(context, stage, made_of).environment()


@dataclass(slots=True)
class _Making:
    context: Context
    stage: Stage
    made_of: Ingredients

    @property
    def folder(self) -> Path:
        return self.context.workspace / ENVIRONMENT

    def environment(self) -> Path:
        context, names = self.context, ", ".join(sorted(self.made_of.files)[:5])
        own = {name for name in context.tools.secrets if is_of_index(name)}
        told = False

        def waiting() -> None:
            nonlocal told
            if not told:
                context.log("another run of this pod makes the environment; this one waits")
            told = True

        found = context.environments.find(self.made_of.digest, waiting)
        if found.problem:
            context.log(f"the environment is this run's alone: {found.problem}", "warning")
        if found.path is not None and not own:
            context.log(f"the environment of {names} is there")
            return found.path
        context.log(f"makes an environment of {names}")
        made = self._make(found, {name: context.tools.variables.get(name, "") for name in own})
        if own or found.problem:
            return made
        self.stage.progress(0.9, "keeps the environment for other runs")
        kept = context.environments.keep(made)
        if kept.path is None:
            context.log(f"the environment is this run's alone: {kept.problem}", "warning")
            return made
        remove_tree(self.folder)
        return kept.path

    def _make(self, found: Found, secrets: Mapping[str, str]) -> Path:
        """Make it in a folder of the run, from copies of the files that count, and of nothing else."""
        project, made = self.folder / "project", self.folder / "made"
        for name, data in self.made_of.files.items():
            path = project / RunPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        variables = self._variables(found, made, secrets)
        hidden = Secrets(secrets.values())
        log = Output(self.context.workspace / LOG, self.context.show, self.context.clock, hidden)
        start = starter(self.context, self._readable(found), needs_network=True)
        try:
            for number, words in enumerate(self._commands(found, made)):
                self.stage.progress(0.1 + 0.2 * number, " ".join(["uv", *words[1:3]]))
                self._run(words, project, variables, log, found.bytes_max, start)
        finally:
            log.finish()
            self.context.keep(log.log, LOG)
        return made

    def _commands(self, found: Found, made: Path) -> Iterator[list[str]]:
        uv = _uv()
        if not uv:
            raise PipelineError("NOT_AVAILABLE", "the pod has no uv: pip install uv there", retryable=True)
        yield [uv, "venv", "--quiet", "--relocatable", "--no-project", str(made)]
        if self.made_of.source == "requirements":
            yield [uv, "pip", "install", *found.options, "--python", f"{made}/bin/python", "-r", REQUIREMENTS]
            return
        local = ("--no-install-project", "--no-install-workspace", "--no-install-local")
        frozen = ("--frozen",) if self.made_of.source == "lock" else ()
        yield [uv, "sync", *found.options, *frozen, *local, "--no-dev"]

    def _readable(self, found: Found) -> list[Path]:
        """Return what uv reads outside of the run's folders: itself, and folders of packages."""
        places = found.variables.get("UV_FIND_LINKS", "").replace(",", " ").split()
        return [Path(each) for each in (_uv(), *places) if each.startswith("/")]

    def _variables(self, found: Found, made: Path, secrets: Mapping[str, str]) -> dict[str, str]:
        given = self.context.tools.variables
        for name in ("home", "tmp", "cache"):
            (self.folder / name).mkdir(parents=True)
        return {
            "PATH": given.get("PATH", os.defpath),
            **{name: given[name] for name in PASSED if given.get(name)},
            **found.variables,
            **secrets,
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "UV_CACHE_DIR": str(self.folder / "cache"),  # what one run fetched serves no other
            "UV_PROJECT_ENVIRONMENT": str(made),
            "UV_PYTHON": sys.executable,
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_CONFIG": "1",
            "UV_NO_PROGRESS": "1",
            "UV_COMPILE_BYTECODE": "1",  # nobody can write beside it later
            "NO_COLOR": "1",
        }

    def _run(
        self,
        words: list[str],
        project: Path,
        variables: Mapping[str, str],
        log: Output,
        bytes_max: int,
        start: Starter,
    ) -> None:
        context, clock = self.context, self.context.clock
        following = Following(name="uv", say=context.log, mask=mask_of(variables), clock=clock)
        begun_s = weighed_s = clock.monotonic_s()
        with running(words, project, variables, log, clock, start(project, variables)) as program:
            while (code := program.code()) is None:
                with suppress(subprocess.TimeoutExpired):
                    program.process.wait(LOOK_S)
                following.look(log.file)
                now_s = clock.monotonic_s()
                if now_s - begun_s > TIME_S:
                    raise PipelineError(CODE, f"uv was not done after {TIME_S:.0f} s: {log.last_line}")
                if now_s - weighed_s > WEIGH_EVERY_S:
                    weighed_s = now_s
                    _weigh(self.folder, bytes_max)
        following.look(log.file, is_last=True)
        if code:
            raise _failure(code, log.tail)
        _weigh(self.folder, bytes_max)


def _uv() -> str:
    beside = str(Path(sys.executable).with_name("uv"))
    return beside if os.access(beside, os.X_OK) else shutil.which("uv") or ""


def python_environment(given: Mapping[str, str], made: Path, work: Path, folder: Path) -> dict[str, str]:
    """Return the variables by which a program has this Python, and `podfleet.run` in it.

    The pod's own Python is not found by its name any more. A folder `src` is looked into, as a project that
    was installed would be.
    """
    package = folder / "podfleet"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "run.py").symlink_to(WITHIN)
    pod = {str(Path(sys.executable).parent), os.path.realpath(Path(sys.executable).parent)}
    rest = [each for each in given["PATH"].split(os.pathsep) if os.path.realpath(each) not in pod]
    found = [str(folder), *([str(work / "src")] if (work / "src").is_dir() else [])]
    return {
        "PATH": os.pathsep.join([str(made / "bin"), *rest]),
        "PYTHONPATH": os.pathsep.join([*filter(None, [given.get("PYTHONPATH")]), *found]),
        "VIRTUAL_ENV": str(made),
    }


def _failure(code: int, tail: str) -> PipelineError:
    """Return whose fault it is that uv ended so, by what it said last."""
    lines = [each.rstrip() for each in tail.splitlines() if each.strip()][-LAST_LINES:]
    said = "\n".join(lines)[-MESSAGE_CHARS:]
    low = said.lower()
    if any(each in low for each in NO_ROOM):
        return PipelineError("DISK_FULL", f"the disk is full: {said}", retryable=True)
    if any(each in low for each in AWAY):
        return PipelineError(
            "INDEX_UNREACHABLE", f"an index of packages cannot be reached: {said}", retryable=True
        )
    return PipelineError(CODE, f"uv ended with status {code}: {said}")


def _weigh(folder: Path, bytes_max: int) -> None:
    """Raise where a folder has more bytes than an environment may have."""
    total = 0
    for entry in entries_below(folder):
        with suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            # what uv installs is its cache's by a second name
            total += found.st_blocks * 512 // max(1, found.st_nlink) if stat.S_ISREG(found.st_mode) else 0
        if total > bytes_max:
            raise PipelineError(
                CODE, f"it has more than {bytes_max >> 20:,} MiB, which is all that a pod keeps"
            )


def _read(work: Path, path: str) -> bytes | None:
    try:
        with read_beneath(work, RunPath(path)) as file:
            return file.read(BYTES_MAX + 1)  # more is refused
    except (BadPath, OSError):
        return None
