"""Jobs: run a program, hear what it says and prints, and keep what it leaves."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import stat
import sys
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.files.checkpoints import FILES_MAX as CHECKPOINT_FILES_MAX
from events.files.object_sizes import OBJECT_BYTES_MAX
from events.files.paths import BadPath, RunPath
from events.files.tree_removal import remove_tree
from events.files.trees import tree_in
from events.kinds.job import RUN, JobSpec
from events.kinds.results import COLUMN_NAME, COLUMNS_MAX
from events.runtime.errors import Canceled, PipelineError
from events.runtime.hiding import hide
from stages.context import Context, Stage
from stages.engines.environment import mask_of
from stages.engines.following import Following
from stages.engines.running import make_way
from stages.kinds.job import messages
from stages.kinds.job.container import ContainerProgram, contained, container_environment
from stages.kinds.job.disk_watch import DiskWatch
from stages.kinds.job.environment import environment_of, python_environment
from stages.kinds.job.event_files import EventFiles
from stages.kinds.job.git_source import GitSource
from stages.kinds.job.inbox import Inbox, inbox
from stages.kinds.job.output import kept_files, plain_files
from stages.kinds.job.program import Output, Program, running
from stages.kinds.job.sandboxing import Starter, starter
from stages.kinds.job.secrets import Secrets

LOOK_S: Final = 0.2
CHECKPOINT: Final = "job"
LOG: Final = "log.txt"
WARNINGS_MAX: Final = 20  # of one attempt
FILES_MAX: Final = 10_000
WARNING_CHARS: Final = 300
SHOWN_CHARS: Final = 80  # of a name
NOT_TO_BE_SHOWN: Final = "its name has the value of a secret"
NOT_FOUND: Final = 127  # what a shell says of a program that is not there, and of one that it may not run
NOT_ALLOWED: Final = 126
# Of the pod's own environment; secrets of the run and what its command names come besides.
PASSED: Final = (
    "PATH",
    "LANG",
    "TZ",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


def run(context: Context) -> str:
    """Run a job. Raises `PipelineError` where its program fails."""
    assert isinstance(context.spec, JobSpec)
    return _Job(context, context.spec).run()


@dataclass(slots=True)
class _Job:
    context: Context
    spec: JobSpec
    begun_s: float = 0.0
    stage: Stage | None = None
    warnings: int = 0
    saved: set[str] = field(default_factory=lambda: {LOG})
    event_files: EventFiles | None = None
    notes: int = -1
    not_kept: int = 0
    is_node: bool = False  # of a job of several
    hidden: Secrets = field(init=False)
    measured: dict[str, float] = field(default_factory=dict)  # the last value of each metric

    def __post_init__(self) -> None:
        variables, names = self.context.tools.variables, self.context.tools.secrets
        self.hidden = Secrets(variables.get(name, "") for name in names)

    def run(self) -> str:
        """Run the program, and return the line that sums it up."""
        work = self._work()
        control, output = self._folder("control"), self._folder("output")
        restored = self._restored(control)
        hide()  # the pod's keys of models, among others, are in this process's environment
        if self.spec.git is not None:
            GitSource(self.context, self.spec.git, work, self._folder("git")).fetch()
        python = None if self.spec.image else environment_of(self.context, work, self.spec.python)
        with ExitStack() as stack:
            box = stack.enter_context(inbox(control / "pipe"))
            environment = self._environment(control, output, restored)
            if python is not None:
                environment |= python_environment(environment, python, work, self._folder("python"))
            if self.spec.image:
                folder = self._folder("modules")
                environment = container_environment(environment, self.spec.variables, folder)
            self.event_files = EventFiles(output, self._measured, self._warn, self.context.clock)
            self._pass_notes(control)  # those that are there at the start
            start = starter(self.context, self._readable(python))
            others = self.context.wait_for_start()
            environment |= others
            self.is_node = bool(others)
            self.begun_s = self.context.clock.monotonic_s()
            with self.context.stage(RUN, index=1, total=1) as self.stage:
                log, clock = self.context.workspace / LOG, self.context.clock
                printed = Output(log, self.context.show, clock, self.hidden)
                try:
                    code = self._run(work, environment, printed, box, control, start)
                finally:
                    self._keep(output, printed)
        return self._line(code, printed)

    def _run(
        self,
        work: Path,
        environment: dict[str, str],
        printed: Output,
        box: Inbox,
        control: Path,
        start: Starter,
    ) -> int:
        clock = self.context.clock
        disk = DiskWatch(self.context.workspace, clock)
        following = Following(
            name=self.spec.words[0], say=self.context.log, mask=mask_of(environment), clock=clock
        )
        with self._running(start, work, environment, printed) as program:
            try:
                while (code := program.code()) is None:
                    self._look(box, control, within_s=LOOK_S)
                    self._follow(following, printed)
                    disk.look()
            except Canceled:
                program.stop(self.spec.grace_s, lambda: self._look(box, control, within_s=0.0))
                self._look(box, control, within_s=0.0)
                raise
        self._look(box, control, within_s=0.0)
        if self.event_files is not None:
            self.event_files.finish()
        self._follow(following, printed, is_last=True)
        self._summarize()
        return self._ended(code, printed)

    def _running(
        self, start: Starter, work: Path, environment: dict[str, str], printed: Output
    ) -> AbstractContextManager[Program | ContainerProgram]:
        """Start the program as a process of the pod, or in a container of its image."""
        words, context = self.spec.words, self.context
        if self.spec.image:
            return contained(context, self.spec.image, words, work, environment, printed)
        begun = start(work, environment)
        return running(words, work, environment, printed, context.clock, begun)

    def _ended(self, code: int, printed: Output) -> int:
        if code in (NOT_FOUND, NOT_ALLOWED) and printed.printed < 1_000:
            raise PipelineError("NO_PROGRAM", printed.last_line or f"there is no {self.spec.words[0]}")
        if code:
            how = f"status {code}" if code > 0 else f"signal {-code}"
            said = f": {printed.last_line}" if printed.last_line else ""
            # of several nodes one may fail since another one is gone, which is heard of later
            raise PipelineError("JOB_FAILED", f"the program ended with {how}{said}", retryable=self.is_node)
        return code

    def _look(self, box: Inbox, control: Path, within_s: float) -> None:
        """Take what the program has said, and pass on what people have written."""
        self._pass_notes(control)
        if self.event_files is not None:
            self.event_files.look()
        for line in box.lines(within_s):
            try:
                self._take(messages.read_message(self.hidden.replaced(line)), control)
            except (messages.BadMessage, BadPath, OSError, ValueError) as error:
                self._warn(f"podfleet.run: {error}")
        if box.too_long:
            self._warn(f"podfleet.run: {box.too_long} lines were too long, and were left out")
            box.too_long = 0

    def _take(self, message: messages.Message, control: Path) -> None:
        context = self.context
        match message:
            case messages.Logged():
                self._log(message)
            case messages.Summarized():
                context.summarize(message.values)
            case messages.Row():
                context.result(message.set, message.key, message.values, message.status, message.detail)
            case messages.Progressed() if isinstance(message.fraction, float) and self.stage is not None:
                self.stage.progress(message.fraction, message.activity)
            case messages.Staged():
                context.where.stage = message.name or RUN
            case messages.Saved():
                self._save(Path(message.path), message.name)
            case messages.Checkpointed():
                self._checkpoint(Path(message.path), control / "checkpoints")
            case messages.Dropped():
                self._warn(f"podfleet.run: {message.count:,} calls came too fast, and were left out")
            case messages.Wrong():
                self._warn(f"podfleet.run: {message.why}")

    def _measured(self, name: str, value: float, step: int) -> None:
        name = self.hidden.replaced(name.encode()).decode()
        self._log(messages.Logged({name: value if math.isfinite(value) else str(value)}, step))

    def _log(self, message: messages.Logged) -> None:
        stage = Stage(self.context.where.stage, self.context)
        for name, value in message.values.items():
            if isinstance(value, float):
                stage.metric(name, value, message.step)
                if name in self.measured or len(self.measured) < COLUMNS_MAX:
                    self.measured[name] = value
            else:
                at = "" if message.step is None else f" at step {message.step}"
                self._warn(f"{name} is {value[:20]}{at}")

    def _summarize(self) -> None:
        """Let the last value of each metric be a headline number, where the program has said no other."""
        told = self.context.recorded.headline
        new = {name: value for name, value in self.measured.items() if name not in told}
        fit = [name for name in new if re.fullmatch(COLUMN_NAME, name)][: max(0, COLUMNS_MAX - len(told))]
        if fit:
            self.context.summarize({name: new[name] for name in fit})

    def _save(self, path: Path, name: str) -> None:
        """Keep a file under its name; the worker opens it without following a link."""
        name = RunPath(name)
        if self.hidden.are_in(name):
            raise ValueError(f"a file is not kept: {NOT_TO_BE_SHOWN}")
        if len(self.saved) > FILES_MAX:
            raise ValueError(f"{name} is not kept: a run has {FILES_MAX:,} files at most")
        if name in self.saved:
            raise ValueError(f"{name} is kept already: another file needs another name")
        if problem := self._unfit(path):
            raise ValueError(f"{name} is not kept: {problem}")
        self.context.keep(path, str(name))
        self.saved.add(name)

    def _unfit(self, path: Path) -> str | None:
        """Return why the worker would not take a file, where that shall not fail the run."""
        own = os.path.realpath(self.context.workspace)
        if not Path(os.path.realpath(path.parent)).is_relative_to(own):
            return f"{path} lies outside of the folders of the run: copy it to $PODFLEET_OUTPUT"
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            return f"{path} is no plain file"
        if found.st_size > OBJECT_BYTES_MAX:
            return f"it has {found.st_size:,} bytes, and {OBJECT_BYTES_MAX:,} are the most: divide it"
        return None

    def _checkpoint(self, made: Path, folder: Path) -> None:
        """Keep a copy that the program made below the folder, and remove earlier ones."""
        if made.parent != folder or made.name == ".." or made.is_symlink() or not made.is_dir():
            raise ValueError(f"{made} is no checkpoint of this run")
        files = {name: made / name for name in plain_files(made, self._left_out_of_checkpoint)}
        if any(map(self.hidden.are_in, files)):
            raise ValueError(f"a checkpoint is not kept: {NOT_TO_BE_SHOWN}")
        if len(files) > CHECKPOINT_FILES_MAX:
            most = f"{CHECKPOINT_FILES_MAX:,} files are the most: put them into one"
            raise ValueError(f"a checkpoint of {len(files):,} files is not kept; {most}")
        self.context.checkpoint(CHECKPOINT, {"files": len(files)}, files)
        for each in folder.iterdir():
            if each < made:  # names grow
                remove_tree(each)

    def _left_out_of_checkpoint(self, name: str, why: str) -> None:
        if self.hidden.are_in(name):
            name, why = "a file", NOT_TO_BE_SHOWN
        raise ValueError(f"a checkpoint without {name[:SHOWN_CHARS]!r} is not kept: {why}")

    def _restored(self, control: Path) -> Path:
        """Return a folder with what an earlier attempt kept."""
        folder = control / "restored"
        folder.mkdir()
        found = self.context.restored(CHECKPOINT)
        for name, path in (found.files if found else {}).items():
            target = folder / RunPath(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        return folder

    def _pass_notes(self, control: Path) -> None:
        notes = self.context.notes.all()
        if len(notes) != self.notes:
            self.notes = len(notes)
            lines = (json.dumps({"number": each.number, "by": each.by, "text": each.text}) for each in notes)
            try:
                make_way(control / "notes.new")
                with (control / "notes.new").open("x", encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in lines)
                os.replace(control / "notes.new", control / "notes")
            except OSError as error:  # the program may have put anything in their place
                self._warn(f"notes are not passed on: {error}")

    def _follow(self, following: Following, printed: Output, *, is_last: bool = False) -> None:
        if not printed.file.closed:
            following.look(printed.file, is_last=is_last)

    def _keep(self, output: Path, printed: Output) -> None:
        """Hand over the log, and what lies in the output folder."""
        printed.finish()
        self.context.keep(printed.log, LOG)
        left, own = 0, self.saved - {LOG}
        for name, path in kept_files(output, self.spec.outputs, self._left_out):
            if len(self.saved) > FILES_MAX:
                left += 1
            elif name not in own:
                try:
                    self._save(path, name)
                except (ValueError, OSError) as error:
                    self.not_kept += 1
                    self._warn(f"a file of the output folder is not kept: {str(error)[:WARNING_CHARS]}")
        self.not_kept += left
        if left:
            self._warn(f"{left:,} files are not kept: a run has {FILES_MAX:,} at most")

    def _left_out(self, name: str, why: str) -> None:
        self.not_kept += 1
        if self.hidden.are_in(name):
            name, why = "a file", NOT_TO_BE_SHOWN
        self._warn(f"{name[:SHOWN_CHARS]!r} of the output folder is not kept: {why}"[:WARNING_CHARS])

    def _work(self) -> Path:
        """Return the working folder: a copy of the run's file tree, which the program may change."""
        if not self.spec.tree:
            return self._folder("work")
        work = self.context.workspace / "work"
        shutil.copytree(self.context.trees[self.spec.tree], work, copy_function=_copy)
        work.chmod(0o755)
        for here, folders, _ in os.walk(work):
            for each in folders:
                Path(here, each).chmod(0o755)
        return work

    def _readable(self, python: Path | None) -> list[Path]:
        """Return what the program reads outside of its own folders."""
        trees = [self.context.trees[tree_in(each)] for each in self.spec.inputs.values()]
        return trees if python is None else [*trees, python]

    def _inputs(self) -> Path:
        """Return a folder with a link to each tree that the program reads."""
        folder = self._folder("inputs")
        for name, source in self.spec.inputs.items():
            (folder / name).symlink_to(self.context.trees[tree_in(source)])
        return folder

    def _environment(self, control: Path, output: Path, restored: Path) -> dict[str, str]:
        variables = self.context.tools.variables
        of_git = None if self.spec.git is None else self.spec.git.secret
        secrets = [name for name in self.context.tools.secrets if name != of_git]
        (control / "checkpoints").mkdir()
        home = self._folder("home")
        return {
            "PYTHONUNBUFFERED": "1",
            # the user of a process has no name of its own, and libraries ask for one (torch.compile)
            **dict.fromkeys(("USER", "LOGNAME"), "job"),
            **{name: variables[name] for name in (*PASSED, *secrets) if variables.get(name)},
            "PATH": _path(variables.get("PATH", os.defpath)),
            **self.spec.variables,
            "HOME": str(home),
            "TMPDIR": str(self._folder("tmp")),
            "PODFLEET_INPUTS": str(self._inputs()),
            "PODFLEET_RUN_ID": self.context.run_id,
            "PODFLEET_ATTEMPT": str(self.context.attempt),
            "PODFLEET_OUTPUT": str(output),
            "PODFLEET_RUN_PIPE": str(control / "pipe"),
            "PODFLEET_RUN_CHECKPOINTS": str(control / "checkpoints"),
            "PODFLEET_RUN_RESTORED": str(restored),
            "PODFLEET_RUN_NOTES": str(control / "notes"),
        }

    def _folder(self, name: str) -> Path:
        folder = self.context.workspace / name
        folder.mkdir()
        return folder

    def _warn(self, text: str) -> None:
        self.warnings += 1
        if self.warnings <= WARNINGS_MAX:
            self.context.log(self.hidden.replaced(text.encode(errors="replace")).decode(), "warning")

    def _line(self, code: int, printed: Output) -> str:
        seconds = self.context.clock.monotonic_s() - self.begun_s
        last = f": {printed.last_line[:100]}" if printed.last_line else ""
        lost = f" and {self.not_kept} not: the log says why" if self.not_kept else ""
        return f"status {code} after {seconds:.1f} s, {len(self.saved) - 1} files kept{lost}{last}"


def _path(given: str) -> str:
    """Return where programs are looked for: the pod's own Python first, then what this user may enter."""
    folders = (each for each in given.split(os.pathsep) if os.access(each, os.R_OK | os.X_OK))
    return os.pathsep.join([str(Path(sys.executable).parent), *folders])


def _copy(source: str, target: str) -> None:
    """Copy a file, which may be written to again."""
    shutil.copyfile(source, target)
    os.chmod(target, os.stat(source).st_mode | 0o600)
