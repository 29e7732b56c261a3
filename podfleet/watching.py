"""Watches a run until it ends: a live view on a terminal, one line per change into a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import typer

from podfleet.client import EXIT_FAILED, EXIT_INTERRUPTED, Client
from podfleet.following import Changed, Follower, Happened, Silence
from podfleet.output import clean, clock_time, is_terminal, print_json_line, say, tell

Json = Mapping[str, Any]

WELL: Final = frozenset({"COMPLETED", "HUMAN_VALIDATED"})
BADLY: Final = frozenset({"FAILED", "CANCELED", "HUMAN_REJECTED"})
BAR_CHARS: Final = 24
LOG_LINES: Final = 6
REDRAWN_HZ: Final = 4
STEP: Final = 0.1  # of progress, between two lines in a pipe


class Screen(Protocol):
    """Shows a run as it stands."""

    def show(self, run: Json) -> None: ...

    def log(self, event: Json) -> None: ...


def watch(control_plane: Client, run_id: str, *, as_json: bool, exit_status: bool) -> None:
    """Show a run until it ends. Ctrl-C leaves it alone; with `exit_status` its end is the command's."""
    try:
        last = _watch(control_plane, run_id, as_json=as_json)
    except KeyboardInterrupt:
        tell(f"the run goes on: `podfleet runs watch {run_id}`, or `podfleet runs cancel {run_id}`")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if exit_status and last["status"] in BADLY:
        raise typer.Exit(EXIT_FAILED)


def _watch(control_plane: Client, run_id: str, *, as_json: bool) -> Json:
    follower = Follower(control_plane, run_id)
    with _screen(follower, run_id, as_json=as_json) as screen:
        for news in follower.news():
            if isinstance(news, Happened):
                if news.event.get("type") == "ai.run.log":
                    screen.log(news.event)
                # Stages are told of by events; the run itself changes with each of them, too.
                continue
            if isinstance(news, Changed) and is_live(news.run) and not is_terminal():
                screen.show(news.run)
                continue
            run = follower.look(f"/api/runs/{run_id}")
            screen.show(run)
            if not is_live(run) and not run["logOpen"]:
                return run
    raise AssertionError("news of a run come until it is over")


def is_live(run: Json) -> bool:
    """Return whether a run has not ended yet."""
    return run["status"] not in WELL | BADLY


@contextmanager
def _screen(follower: Follower, run_id: str, *, as_json: bool) -> Iterator[Screen]:
    if as_json or not is_terminal():
        follower.on_silence = Silence()
        yield Plain(as_json)
        return
    board = Board()
    follower.on_silence = board.be_silent
    for event in reversed(
        follower.look(f"/api/runs/{run_id}/events", type="ai.run.log", limit=LOG_LINES)["items"]
    ):
        board.log(event)
    with board.live():
        yield board


@dataclass(slots=True)
class Plain:
    """A line for each change of status, stage and, by tenths, progress."""

    as_json: bool
    _last: tuple[Any, ...] = ()

    def show(self, run: Json) -> None:
        """Print the run if it looks otherwise than before; its end when all is known that led there."""
        if not is_live(run) and run["logOpen"]:
            return
        stage = run.get("currentStage") or {}
        progress = stage.get("progress")
        tenth = None if progress is None else int(progress / STEP)
        place = (stage.get("name"), tenth, run.get("paused")) if is_live(run) else ()
        state = (run["status"], run["attempt"], *place)
        if state == self._last:
            return
        self._last = state
        if self.as_json:
            print_json_line({name: run.get(name) for name in SHOWN})
        else:
            say(" ".join(words(run)))

    def log(self, event: Json) -> None:
        """Leave the log to `podfleet runs logs`."""


SHOWN: Final = (
    "id", "status", "attempt", "claimedBy", "currentStage", "paused", "error", "startedAt", "finishedAt",
)  # fmt: skip


def words(run: Json) -> list[str]:
    """Return how a run stands in the words of one line."""
    status = run["status"]
    stage = run.get("currentStage")
    said = [run["id"], status]
    if run.get("paused"):
        said.append("(paused)")
    if is_live(run) and stage and status not in ("QUEUED", "DELAYED"):
        said += [stage["name"], percent(stage.get("progress")), stage.get("activity") or ""]
    if run["attempt"] > 1:
        said.append(f"attempt {run['attempt']} of {run['maxAttempts']}")
    if status == "SCHEDULED":
        said.append(f"on {run.get('claimedBy')}")
    if status == "AWAITING_HUMAN":
        said.append(f"– a person's verdict is due: podfleet reviews pass {run['id']} (or fail)")
    if not is_live(run):
        said.append(f"after {lasted(run)}")
    if run.get("error") and (status == "DELAYED" or not is_live(run)):
        said.append(f"– {run['error'].get('code')}: {run['error'].get('message')}")
    return [str(each) for each in said if each]


def percent(progress: float | None) -> str:
    """Return a fraction as a percentage."""
    return "" if progress is None else f"{progress:.0%}"


def lasted(run: Json, now: datetime | None = None) -> str:
    """Return how long a run has been at it, since its start or else since it was queued."""
    from events.formatting import seconds

    begun = run.get("startedAt") or run.get("createdAt")
    ended = run.get("finishedAt")
    if begun is None or (ended is None and now is None):
        return "–"
    end = datetime.fromisoformat(ended) if ended else now
    assert end is not None
    return seconds(max(0.0, (end - datetime.fromisoformat(begun)).total_seconds()))


@dataclass(slots=True)
class Board:
    """The live view: how the run stands, its stages as bars, the end of its log."""

    _run: Json | None = None
    _log: list[Json] = field(default_factory=list)
    _silent: bool = False

    def show(self, run: Json) -> None:
        """Show this from now on."""
        self._run = run

    def log(self, event: Json) -> None:
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


def drawn(run: Json, log: Sequence[Json], now: datetime, *, is_silent: bool) -> Any:
    """Return a run as a picture of lines."""
    from rich.console import Group
    from rich.text import Text

    from podfleet.output import STYLES, with_sign

    status = run["status"]
    head = Text.assemble(
        (with_sign(status), f"bold {STYLES.get(status, '')}"),
        ("  paused" if run.get("paused") else "", "yellow"),
        f"  {lasted(run, now)}  ",
        (run["id"], "dim"),
    )
    facts = [run["kind"], f"attempt {run['attempt']} of {run['maxAttempts']}" if run["attempt"] else ""]
    facts += [f"on {run['claimedBy']}" if run.get("claimedBy") else ""]
    cost = run["usage"]["costUsd"]
    facts += [f"${cost:.4g}" if cost else ""]
    lines = [
        head,
        Text(clean(run.get("title") or "")[:200]),
        Text(clean(" · ".join(filter(None, facts))), "dim"),
    ]
    lines += [_bar(stage, run) for stage in run["stages"] if stage["attempt"] == run["attempt"]]
    if run.get("error"):
        lines.append(Text(clean(f"{run['error'].get('code')}: {run['error'].get('message')}"), "red"))
    for event in log:
        said = f"{clock_time(str(event.get('time')))} {clean(event['data'].get('message'))}"
        lines.append(Text(said, "dim", no_wrap=True, overflow="ellipsis"))
    if status == "AWAITING_HUMAN":
        lines.append(
            Text(f"a person's verdict is due: podfleet reviews pass {run['id']} (or fail)", "magenta")
        )
    if is_silent:
        lines.append(Text("no answer from the control plane; trying again …", "yellow"))
    return Group(*lines)


def _bar(stage: Json, run: Json) -> Any:
    from rich.text import Text

    from events.formatting import seconds
    from podfleet.output import STYLES, with_sign

    progress = stage.get("progress") or 0.0
    is_done = stage["status"] == "COMPLETED"
    share = 1.0 if is_done else min(1.0, max(0.0, progress))
    full = round(share * BAR_CHARS)
    current = run.get("currentStage") or {}
    activity = "" if is_done or current.get("name") != stage["name"] else current.get("activity") or ""
    took = seconds(stage["durationS"]) if is_done and stage.get("durationS") is not None else f"{share:.0%}"
    style = STYLES.get(stage["status"], "")
    return Text.assemble(
        (f"{with_sign(stage['status'])[:1]} {clean(stage['name']):<16.16} ", style),
        ("█" * full, style),
        ("░" * (BAR_CHARS - full), "dim"),
        f" {took}  ",
        (clean(activity), "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )
