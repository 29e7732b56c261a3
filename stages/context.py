"""The context of a pipeline: everything that it may use, and the bracket around each stage.

Law: a stage has exactly one `stage_started`, and then either one `stage_completed`, or the exception that
becomes the run's single failure event.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from events.catalog import (
    Level,
    ResultRecorded,
    RunLog,
    StageCompleted,
    StageMetric,
    StageProgress,
    StageStarted,
)
from events.kinds.declaring.fact import Fact
from events.kinds.declaring.spec import Spec
from events.kinds.kind import Kind
from events.kinds.results import Value
from events.runtime.clock import Clock
from stages.ports import Barrier, NoBarrier, Notes, Reporter, Tools
from stages.ports.checkpoints import Checkpoints, Restored
from stages.ports.containers import Containers, NoContainers
from stages.ports.environments import Environments, NoEnvironments
from stages.ports.live_view import LiveView, NoLiveView
from stages.ports.results import (
    NO_ROWS_LEFT,
    NO_SUMMARIES_LEFT,
    SUMMARIES_MAX,
    Recorded,
    check_row,
    has_room,
    headline,
)

OUTSIDE: Final = "run"  # the stage that a failure names when it happened between two stages


@dataclass(slots=True)
class Where:
    """The stage that runs now, kept after a failure so that it can be named."""

    stage: str = OUTSIDE


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt's world: its specification, its folder, its clock, its voice; `pod` is where it runs.

    `replication_asked` is whether an earlier attempt asked for a replication, by the control plane's record;
    `told` is what the control plane's part of the kind told it at its start, `trees` are the folders of the
    file trees that its specification names, by their ids; `kind` declares its results.
    """

    run_id: str
    attempt: int
    spec: Spec
    workspace: Path
    clock: Clock
    reporter: Reporter
    checkpoints: Checkpoints
    notes: Notes
    tools: Tools
    pod: str = ""
    replication_asked: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, Path] = field(default_factory=dict)
    kind: Kind | None = None
    where: Where = field(default_factory=Where)
    recorded: Recorded = field(default_factory=Recorded)
    barrier: Barrier = field(default_factory=NoBarrier)
    live: LiveView = field(default_factory=NoLiveView)
    environments: Environments = field(default_factory=NoEnvironments)
    containers: Containers = field(default_factory=NoContainers)

    def emit(self, fact: Fact) -> None:
        """Report a fact."""
        self.reporter.say(fact)

    def wait_for_start(self) -> Mapping[str, str]:
        """Say that everything is prepared, and wait until the run may start: a lane of a race for the others.

        Returns at once in a run of no race, and from the second call on. A node of a job gets the variables
        by which its program finds the others.
        """
        return self.barrier.wait()

    def log(self, message: str, level: Level = "info") -> None:
        """Write one line for people; it names the stage it was written in."""
        self.emit(RunLog(message=message, level=level, stage=self.where.stage))

    def show(self, text: str = "", lap: int = 1, **values: float) -> None:
        """Show text and numbers to whoever looks at the run now; text goes on where that of its lap ended.

        It is no event: it may be dropped, is forgotten soon, and costs the run nothing. Returns at once.
        """
        self.live.show(text, lap, values)

    def keep(self, path: Path, name: str | None = None) -> None:
        """Hand over a finished file; it becomes an artifact named `name` (else its file name)."""
        content_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        stage = None if self.where.stage == OUTSIDE else self.where.stage
        self.reporter.made(path, name=name or path.name, content_type=content_type, stage=stage)

    def checkpoint(
        self, name: str, state: Mapping[str, Any], files: Mapping[str, Path] | None = None
    ) -> bool:
        """Let a later attempt go on from here; returns whether that is safe, or cannot be had for now.

        One without state and files sets aside what earlier attempts left under the name. Whatever shall never
        be done again is announced after this.
        """
        problem = self.checkpoints.keep(name, state, files or {})
        if problem is not None:
            self.log(f"the checkpoint {name} is not safe: {problem}", "warning")
        return problem is None

    def restored(self, name: str) -> Restored | None:
        """Return the checkpoint that an earlier attempt left under this name."""
        return self.checkpoints.restored(name)

    def result(
        self,
        set: str,
        key: str,
        values: Mapping[str, Value],
        status: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Record a row of a result set that the kind declares; the same key again replaces the row.

        `detail` names an artifact of the run. Raises `PipelineError` for what the kind does not declare,
        `ValueError` for what no row can hold, such as a number that is not finite. Rows beyond
        the bounds of an attempt are not recorded, and the run's log says so once.
        """
        fact = ResultRecorded(set=set, key=key, values=dict(values), status=status, detail=detail)
        check_row(self.kind, fact)
        if has_room(self.recorded, fact):
            self.emit(fact)
        elif self.recorded.refused == 1:
            self.log(NO_ROWS_LEFT, "warning")

    def summarize(self, values: Mapping[str, Value]) -> None:
        """Set headline numbers of the run that the kind declares; others keep what they were.

        Raises `PipelineError` for what the kind does not declare.
        """
        fact = headline(self.kind, self.recorded, values)
        if fact is None:
            return
        self.recorded.summaries += 1
        if self.recorded.summaries <= SUMMARIES_MAX:
            self.emit(fact)
        elif self.recorded.summaries == SUMMARIES_MAX + 1:
            self.log(NO_SUMMARIES_LEFT, "warning")

    @contextmanager
    def stage(self, name: str, *, index: int | None = None, total: int | None = None) -> Iterator[Stage]:
        """Bracket a stage; an exception leaves it open and goes on to the caller."""
        self.where.stage = name
        self.emit(StageStarted(stage=name, index=index, total=total))
        begun_s = self.clock.monotonic_s()
        yield Stage(name, self)
        duration_s = round(self.clock.monotonic_s() - begun_s, 3)
        self.emit(StageCompleted(stage=name, duration_s=duration_s))
        self.where.stage = OUTSIDE


@dataclass(frozen=True, slots=True)
class Stage:
    """The running stage's own voice."""

    name: str
    context: Context

    def progress(self, fraction: float, activity: str) -> None:
        """Report how far the stage is (0 to 1), and its present activity."""
        done = min(1.0, max(0.0, fraction))
        self.context.emit(StageProgress(stage=self.name, progress=done, activity=activity))

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        """Report one measured number."""
        self.context.emit(StageMetric(stage=self.name, name=name, value=value, step=step))
