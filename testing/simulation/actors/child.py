"""A pipeline's process, simulated: it says what its script tells, obeys or not, and stands still on order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Final, Literal, Self

from events.catalog import (
    ResultRecorded,
    RunCanceled,
    RunCompleted,
    RunFailed,
    RunLog,
    RunStarted,
    RunSummarized,
    StageCompleted,
    StageProgress,
    StageStarted,
    ValidationAutoCompleted,
    ValidationAutoStarted,
)
from events.delivery.event_encoder import fact_frame
from events.delivery.pipe import (
    Began,
    Checkpoint,
    ContainerTold,
    Environment,
    Go,
    Kept,
    Made,
    Ready,
    Renewed,
    Start,
    Waiting,
)
from events.kinds.declaring.fact import Fact
from events.kinds.probe import ROWS, VALUE
from events.queue.notes import Note
from events.text.attempt_id import AttemptId
from pod_worker.child.exit_status import Exited, NeverStarted, Signalled
from pod_worker.child.process import Exit, Listener
from testing.simulation.kernel import Kernel, Node, NodeClock
from testing.simulation.ledger import Ledger
from testing.simulation.themes import KILLED
from testing.simulation.themes import ROWS as WITH_ROWS

NEVER_S: Final = 1e9
BARRIER_TURN_S: Final = 0.05
ROWS_MAX: Final = 4
PART_KILLED: Final = 0.4  # of the runs, where some kill themselves

Finish = Literal["completed", "failed", "retryable", "killed", "mute", "deaf", "sick", "away", "kills itself"]
FINISHES: Final[tuple[Finish, ...]] = (
    "completed", "completed", "completed", "completed", "failed", "retryable", "retryable", "killed", "mute",
    "deaf", "sick", "away",
)  # fmt: skip
# Ends that are the fault of the pod, or of something outside.
NOT_ITS_OWN: Final[Mapping[Finish, str]] = {"sick": "DISK_FULL", "away": "MODEL_UNREACHABLE"}


class _Gone(Exception):
    """The process ends here."""

    def __init__(self, end: Exited | Signalled) -> None:
        super().__init__(str(end))
        self.end = end


@dataclass(slots=True, eq=False)
class SimulatedChild:
    """One process, from spawn to exit."""

    kernel: Kernel
    node: Node
    clock: NodeClock
    ledger: Ledger
    begins: Callable[[SimulatedChild], None]
    starts: Callable[[SimulatedChild], None]  # past the barrier of its race
    is_sick: Callable[[], bool] = lambda: False
    themes: Collection[str] = ()
    run_id: str = ""
    attempt: int = 0
    notes: int = 0
    _ready: Event = field(default_factory=Event)
    _changed: Event = field(default_factory=Event)
    _over: Event = field(default_factory=Event)
    _end: Exited | Signalled | None = None
    _final: str | None = None
    _is_started: bool = False
    _is_suspended: bool = False
    _is_killed: bool = False
    _is_told_to_stop: bool = False
    _obeys: bool = True
    _go: Go | None = None

    def spawn(self) -> Self:
        """Start the process, which is warm after a moment."""
        self.kernel.spawn("child", self.node, self._warm_up)
        return self

    def is_running(self) -> bool:
        """Say whether the pipeline makes progress at this moment."""
        return (
            self._is_started
            and self._end is None
            and not self._is_suspended
            and not self._is_killed
            and self.node.is_up
        )

    def is_over(self) -> bool:
        """Say whether it will never make progress again."""
        return self._end is not None or self._is_killed or not self.node.is_up

    @property
    def work(self) -> None:
        """Return that its run's folder may be anywhere."""
        return None

    def wait_ready(self, limit_s: float) -> Ready | NeverStarted:
        """Wait until the process can serve."""
        if self.clock.wait(self._ready, limit_s):
            return Ready(kinds=["probe"])
        return NeverStarted(waited_s=limit_s, end=self._end)

    def start(self, order: Start, listener: Listener) -> None:
        """Give the order."""
        self.run_id, self.attempt, self.notes = order.run_id, order.attempt, len(order.notes)
        self._is_started = True
        self.begins(self)
        self.kernel.spawn("pipeline", self.node, lambda: self._live(order, listener))

    def join(self, limit_s: float) -> Exit | None:
        """Return the end, once all was heard."""
        if limit_s > 0:
            self.clock.wait(self._over, limit_s)
        if not self._over.is_set():
            return None
        assert self._end is not None
        return Exit(end=self._end, final=self._final, oom_evidence=False, last_words="")

    def answer(self, answer: Kept | Environment | ContainerTold) -> None:
        """Hear what became of a checkpoint; this pipeline does not wait for it."""
        assert isinstance(answer, Kept)  # it asks for no environment
        self.ledger.counts["checkpoints kept" if answer.problem is None else "checkpoints dropped"] += 1

    def tell(self, note: Note) -> None:
        """Hear what a person wrote: each note once, in order."""
        if note.number != self.notes + 1:
            self.ledger.blame(
                f"attempt {self.attempt} of {self.run_id} hears note {note.number} after {self.notes}"
            )
        self.notes = note.number

    def begin(self, go: Go) -> None:
        """Hear when to begin."""
        self._go = self._go or go
        self._changed.set()

    def renew(self, renewed: Renewed) -> None:
        """Hear of new values; this pipeline has no secrets."""

    def terminate(self) -> None:
        """Ask it to stop."""
        self._is_told_to_stop = True
        self._changed.set()

    def suspend(self) -> None:
        """Let it stand still."""
        self._is_suspended = True

    def resume(self) -> None:
        """Let it go on."""
        self._is_suspended = False
        self._changed.set()
        self.ledger.look()

    def kill(self) -> None:
        """End it."""
        self._is_killed = True
        self._changed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._is_started:
            self.clock.wait(self._over, NEVER_S)

    def _warm_up(self) -> None:
        self.kernel.wait(self._changed, 0.2 + 2.0 * self.kernel.chance.random())
        if not self._is_killed:
            self._ready.set()

    def _live(self, order: Start, listener: Listener) -> None:
        try:
            for step in self._script(order):
                self._pass(self._pace())
                self._say(step, listener)
            end: Exited | Signalled = Exited(0)
        except _Gone as gone:
            end = gone.end
            if isinstance(end, Exited) and end.status == 0:
                self._say(RunCanceled(reason="told to stop"), listener)
        if self._is_killed:
            end = Signalled(signal.SIGKILL)
        self._end = end
        self._over.set()

    def _pace(self) -> float:
        draw = self.kernel.chance.random()
        return 3.0 * draw if draw < 0.3 else 0.15 * draw

    def _script(self, order: Start) -> Iterator[Fact | Made | Checkpoint | Waiting | Began]:
        chance = self.kernel.chance
        finish = chance.choice(FINISHES)
        if self.is_sick():
            finish = "sick"
        elif KILLED in self.themes and self._own(order.run_id, KILLED).random() < PART_KILLED:
            finish = "kills itself"
        rows = self._rows(order) if WITH_ROWS in self.themes else []
        self._obeys = finish != "deaf" and chance.random() < 0.8
        yield RunStarted()
        if order.barrier:
            self._pass(10.0 * chance.random())
            yield Waiting()
            self._wait_for_start()
            yield Began(self.clock.monotonic_s())
        stages = chance.randint(1, 3)
        for index in range(1, stages + 1):
            name = f"stage-{index}"
            yield StageStarted(stage=name, index=index, total=stages)
            for number in range(chance.randint(0, 4)):
                yield RunLog(message=f"{order.run_id} {order.attempt} {index}.{number}")
            yield StageProgress(stage=name, progress=0.5, activity="half way")
            if chance.random() < 0.4:
                path = Path(order.workspace) / f"file-{index}"
                yield Made(path=str(path), name=path.name, content_type="text/plain", stage=name)
            if chance.random() < 0.3:
                yield _checkpoint(Path(order.workspace), index)
            yield from rows[index - 1 :: stages]
            yield StageCompleted(stage=name, duration_s=1.0)
        if chance.random() < 0.3:
            yield ValidationAutoStarted()
            yield ValidationAutoCompleted(verdict="pass", summary="fine", scores={"loss": 0.5})
        yield from self._finish(finish, order)

    def _rows(self, order: Start) -> list[Fact]:
        """Return rows of results of which some are said again with other values, and headline numbers."""
        chance = self._own(order.run_id, order.attempt)
        rows: list[Fact] = [
            ResultRecorded(set=ROWS.name, key=f"row-{chance.randrange(ROWS_MAX)}", values={"number": number})
            for number in range(chance.randint(1, 2 * ROWS_MAX))
        ]
        return [*rows, RunSummarized(values={VALUE.name: chance.random()})]

    def _own(self, *names: object) -> Random:
        """Return chance of its own, so that other histories stay what they are."""
        return Random("/".join(map(str, (self.kernel.seed, *names))))

    def _finish(self, finish: Finish, order: Start) -> Iterator[Fact]:
        match finish:
            case "completed" | "deaf":
                yield RunCompleted(summary="done")
                return
            case "mute":  # it exits without a word
                self._pass(self._pace())
                self._note_failure(order)
            case "killed":
                self._pass(self._pace())
                self._note_failure(order)
                raise _Gone(Signalled(signal.SIGSEGV))
            case "kills itself":
                progress = self._own(order.run_id, KILLED, order.attempt).random()
                yield StageProgress(stage="stage-1", progress=progress, activity="to the end")
                self._pass(self._pace())
                self._note_failure(order)
                raise _Gone(Signalled(signal.SIGKILL))
            case "sick" | "away":
                self._pass(self._pace())
                yield RunFailed(code=NOT_ITS_OWN[finish], message="it could not go on", retryable=False)
            case _:
                self._pass(self._pace())
                self._note_failure(order)
                yield RunFailed(code="BROKEN", message="it broke", retryable=finish == "retryable")

    def _note_failure(self, order: Start) -> None:
        self.ledger.failed.add(AttemptId(order.run_id, order.attempt))

    def _wait_for_start(self) -> None:
        """Stand at the barrier until the second at which it begins, as far as this machine counts."""
        while (go := self._go) is None or (left_s := go.at_s - self.clock.monotonic_s()) > 0:
            self._pass(BARRIER_TURN_S if go is None else min(left_s, BARRIER_TURN_S))
        self.starts(self)

    def _say(self, step: Fact | Made | Checkpoint | Waiting | Began, listener: Listener) -> None:
        if isinstance(step, Made | Checkpoint | Waiting | Began):
            listener(step)
            return
        frame = fact_frame(step)
        if isinstance(step, RunCompleted | RunFailed | RunCanceled):
            self._final = frame.type
        listener(frame)

    def _pass(self, seconds: float) -> None:
        """Let time pass in which the process works; time in which it stands still does not count."""
        left_s = seconds
        while True:
            self._changed.clear()
            if self._is_killed:
                raise _Gone(Signalled(signal.SIGKILL))
            if self._is_suspended:
                self.kernel.wait(self._changed, NEVER_S)
                continue
            if self._is_told_to_stop and self._obeys:
                raise _Gone(Exited(0))
            if left_s <= 0:
                return
            begun_s = self.kernel.now_s
            self.kernel.wait(self._changed, left_s)
            left_s -= self.kernel.now_s - begun_s


def _checkpoint(workspace: Path, number: int) -> Checkpoint:
    names = (f"checkpoints/stage/{number}/state", "checkpoints/stage/manifest.json")
    files = [Made(path=str(workspace / "state"), name=name, content_type="text/plain") for name in names]
    return Checkpoint(number=number, name="stage", files=files)
