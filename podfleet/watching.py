"""Watches a run until it ends or waits for a review: live on a terminal, a line per change into a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec
import typer

from events.answers.attempts import Stage
from events.answers.logs import LoggedEvent
from events.answers.runs import Run, RunRow
from podfleet.client import endpoints
from podfleet.client.following import ANSWERED, LOG, Changed, Follower, Happened, is_over
from podfleet.client.interrupts import interruptible
from podfleet.client.synchronous import Client
from podfleet.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_REVIEW
from podfleet.output import clean, clock_time, is_terminal, print_json_line, say, tell

WELL: Final = frozenset({"COMPLETED", "HUMAN_VALIDATED"})
BADLY: Final = frozenset({"FAILED", "CANCELED", "HUMAN_REJECTED"})
REVIEW: Final = "AWAITING_HUMAN"
BAR_CHARS: Final = 24
LOG_LINES: Final = 6
REDRAWN_HZ: Final = 4
STEP: Final = 0.1  # of progress, between two lines in a pipe


class Screen(Protocol):
    """Shows the state of a run."""

    def show(self, run: RunRow) -> None: ...

    def log(self, event: LoggedEvent) -> None: ...


def watch(
    control_plane: Client, run_id: str, *, as_json: bool, exit_status: bool, until_reviewed: bool = False
) -> None:
    """Show a run until it ends. Ctrl-C leaves it alone; with `exit_status` its end is the command's.

    One that waits for a review ends the command with status 4, unless that is waited for.
    """
    try:
        with interruptible():
            last = _watch(control_plane, run_id, as_json=as_json, until_reviewed=until_reviewed)
    except KeyboardInterrupt:
        tell(f"the run goes on: `podfleet runs watch {run_id}`, or `podfleet runs cancel {run_id}`")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if last.status == REVIEW:
        tell(f"it waits for a review: {control_plane.target.url}/runs/{run_id}")
        tell(f"`podfleet runs watch --until-reviewed {run_id}` waits for that")
        raise typer.Exit(EXIT_REVIEW)
    if exit_status and last.status in BADLY:
        raise typer.Exit(EXIT_FAILED)


def _watch(control_plane: Client, run_id: str, *, as_json: bool, until_reviewed: bool) -> Run:
    follower = Follower(control_plane, run_id)
    with _screen(follower, run_id, as_json=as_json) as screen:
        for news in follower.news():
            if isinstance(news, Happened):
                if news.event.type in (LOG, ANSWERED):
                    screen.log(news.event)
                # Stages are told of by events; the run itself changes with each of them, too.
                continue
            if isinstance(news, Changed) and is_live(news.run) and not is_terminal():
                screen.show(news.run)
                continue
            run = follower.look(endpoints.run(run_id))
            screen.show(run)
            if is_over(run) or (not until_reviewed and _waits_for_review(run)):
                return run
    raise AssertionError("news of a run come until it is over")


def _waits_for_review(run: Run) -> bool:
    return run.status == REVIEW and not run.log_open and not run.journal


def is_live(run: RunRow) -> bool:
    """Return whether a run has not ended yet."""
    return run.status not in WELL | BADLY


@contextmanager
def _screen(follower: Follower, run_id: str, *, as_json: bool) -> Iterator[Screen]:
    if as_json or not is_terminal():
        follower.on_silence = Silence()
        yield Plain(as_json)
        return
    board = Board()
    follower.on_silence = board.be_silent
    for event in reversed(follower.look(endpoints.events(run_id, type=LOG, limit=LOG_LINES)).items):
        board.log(event)
    with board.live():
        yield board


@dataclass(slots=True)
class Silence:
    """Reports once that the control plane does not answer, and once that it answers again."""

    is_silent: bool = False

    def __call__(self, is_silent: bool) -> None:
        if is_silent != self.is_silent:
            self.is_silent = is_silent
            tell("no answer; trying again …" if is_silent else "the control plane answers again")


@dataclass(slots=True)
class Plain:
    """A line for each change of status, stage and, by tenths, progress, and for each answer to a note."""

    as_json: bool
    _last: tuple[Any, ...] = ()

    def show(self, run: RunRow) -> None:
        """Print the run if its line has changed; its end when the reasons are known."""
        if not is_live(run) and run.log_open:
            return
        stage = run.current_stage
        progress = stage.progress if stage else None
        tenth = None if progress is None else int(progress / STEP)
        place = (stage.name if stage else None, tenth, bool(run.paused)) if is_live(run) else ()
        state = (run.status, run.attempt, *place)
        if state == self._last:
            return
        self._last = state
        if self.as_json:
            fields = msgspec.to_builtins(run)
            print_json_line({name: fields.get(name) for name in SHOWN})
        else:
            say(" ".join(words(run)))

    def log(self, event: LoggedEvent) -> None:
        """Print what becomes of a note; the log is left to `podfleet runs logs`."""
        if event.type == ANSWERED and not self.as_json:
            from events.formatting import says

            say(clean(f"{event.run_id} {says(event)}"))


SHOWN: Final = (
    "id", "status", "attempt", "claimedBy", "currentStage", "paused", "error", "startedAt", "finishedAt",
)  # fmt: skip


def words(run: RunRow) -> list[str]:
    """Return the state of a run in one line."""
    stage = run.current_stage
    words = [run.id, run.status]
    if run.paused:
        words.append("(paused)")
    if is_live(run) and stage and run.status not in ("QUEUED", "DELAYED"):
        words += [stage.name, percent(stage.progress), stage.activity or ""]
    if run.attempt > 1:
        words.append(f"attempt {run.attempt} of {run.max_attempts}")
    if run.status == "SCHEDULED":
        words.append(f"on {run.claimed_by}")
    if run.status == REVIEW:
        words.append(f"– do you confirm this verdict? podfleet reviews pass {run.id} (or fail)")
    if not is_live(run):
        words.append(f"after {lasted(run)}")
    if run.error and (run.status in ("DELAYED", "QUEUED") or not is_live(run)):
        words.append(f"– {run.error.code}: {run.error.message}")
    return [each for each in words if each]


def percent(progress: float | None) -> str:
    """Return a fraction as a percentage."""
    return "" if progress is None else f"{progress:.0%}"


def lasted(run: RunRow, now: datetime | None = None) -> str:
    """Return how long a run has taken, since its start or else since it was queued."""
    from events.formatting import seconds

    begun = run.started_at or run.created_at
    ended = run.finished_at
    if begun is None or (ended is None and now is None):
        return "–"
    end = datetime.fromisoformat(ended) if ended else now
    assert end is not None
    return seconds(max(0.0, (end - datetime.fromisoformat(begun)).total_seconds()))


@dataclass(slots=True)
class Board:
    """The live view: the state of the run, its stages as bars, the end of its log."""

    _run: Run | None = None
    _log: list[LoggedEvent] = field(default_factory=list)
    _silent: bool = False

    def show(self, run: RunRow) -> None:
        """Show this from now on, which is a whole run."""
        assert isinstance(run, Run), "a terminal is shown all that belongs to a run"
        self._run = run

    def log(self, event: LoggedEvent) -> None:
        """Show a line of the log in the place of the oldest."""
        self._log = [*self._log, event][-LOG_LINES:]

    def be_silent(self, is_silent: bool) -> None:
        """Show, or show no longer, that the control plane does not answer."""
        self._silent = is_silent

    def live(self) -> AbstractContextManager[Any]:
        """Return the view, drawn again and again until it is left."""
        from rich.live import Live

        from podfleet.output import console

        return Live(
            get_renderable=self.view,
            console=console(),
            refresh_per_second=REDRAWN_HZ,
            vertical_overflow="crop",
        )

    def view(self) -> Any:
        """Return what is to be drawn now."""
        from events.runtime.clock import SystemClock

        if self._run is None:
            from rich.text import Text

            return Text("…")
        return drawn(self._run, self._log, SystemClock().now(), is_silent=self._silent)


def drawn(run: Run, log: Sequence[LoggedEvent], now: datetime, *, is_silent: bool) -> Any:
    """Return a run as lines of text."""
    from rich.console import Group
    from rich.text import Text

    from events.formatting import says
    from podfleet.output import STYLES, with_sign

    status = run.status
    head = Text.assemble(
        (with_sign(status), f"bold {STYLES.get(status, '')}"),
        ("  paused" if run.paused else "", "yellow"),
        f"  {lasted(run, now)}  ",
        (run.id, "dim"),
    )
    facts = [run.kind, f"attempt {run.attempt} of {run.max_attempts}" if run.attempt else ""]
    facts += [f"on {run.claimed_by}" if run.claimed_by else ""]
    cost = run.usage.cost_usd
    facts += [f"${cost:.4g}" if cost else ""]
    lines = [
        head,
        Text(clean(run.title or "")[:200]),
        Text(clean(" · ".join(filter(None, facts))), "dim"),
    ]
    lines += [_bar(stage, run) for stage in run.stages if stage.attempt == run.attempt]
    if run.error:
        lines.append(Text(clean(f"{run.error.code}: {run.error.message}"), "red"))
    for event in log:
        words = f"{clock_time(event.time or event.received_at)} {clean(says(event))}"
        lines.append(Text(words, "dim", no_wrap=True, overflow="ellipsis"))
    if status == REVIEW:
        lines.append(
            Text(f"Do you confirm this verdict? podfleet reviews pass {run.id} (or fail)", "magenta")
        )
    if is_silent:
        lines.append(Text("no answer from the control plane; trying again …", "yellow"))
    return Group(*lines)


def _bar(stage: Stage, run: Run) -> Any:
    from rich.text import Text

    from events.formatting import seconds
    from podfleet.output import STYLES, with_sign

    progress = stage.progress or 0.0
    is_done = stage.status == "COMPLETED"
    share = 1.0 if is_done else min(1.0, max(0.0, progress))
    full = round(share * BAR_CHARS)
    current = run.current_stage
    is_current = current is not None and not is_done and current.name == stage.name
    activity = (current.activity or "") if current and is_current else ""
    took = seconds(stage.duration_s) if is_done and stage.duration_s is not None else f"{share:.0%}"
    style = STYLES.get(stage.status, "")
    return Text.assemble(
        (f"{with_sign(stage.status)[:1]} {clean(stage.name):<16.16} ", style),
        ("█" * full, style),
        ("░" * (BAR_CHARS - full), "dim"),
        f" {took}  ",
        (clean(activity), "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )
