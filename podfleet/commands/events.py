"""`podfleet events`: the event log of a run, with `tail -f` for new events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import typer

from events.answers.logs import LoggedEvent
from events.text.escaping import for_spreadsheet
from podfleet import parameters
from podfleet.client import endpoints
from podfleet.client.following import LOG, Changed, Follower, Happened, Log, is_over
from podfleet.client.interrupts import interruptible
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.id_lookup import RUN, RunName, find
from podfleet.nouns import noun
from podfleet.output import AsJson, clean, clock_time, is_terminal, print_json_line, tell
from podfleet.parameters import Since
from podfleet.watching import Silence

app = noun("events")

LINES: Final = 20
LEVELS: Final[Mapping[str, frozenset[str]]] = {
    "debug": frozenset({"debug"}),
    "info": frozenset({"info"}),
    "warn": frozenset({"warn", "warning"}),
    "warning": frozenset({"warn", "warning"}),
    "error": frozenset({"error"}),
}
EVENT_CELLS: Final = (22, 2)  # the type, the attempt
LOG_CELLS: Final = (7,)  # the level
LEVEL_STYLES: Final = {"error": "red", "warn": "yellow", "warning": "yellow", "debug": "dim"}

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow until the run ends.")]
Lines = Annotated[
    str, typer.Option("--lines", "-n", metavar="N", help="Number of latest lines to start with, or `all`.")
]
Level = Annotated[str | None, typer.Option(help="Only log lines of this level.", metavar="LEVEL")]


@app.command()
def tail(
    run: RunName,
    kind: Annotated[
        str | None, typer.Option("--type", help="Only events of this type, such as run.stage_metric.")
    ] = None,
    level: Level = None,
    since: Since = None,
    follow: Follow = False,
    lines: Lines = str(LINES),
    as_json: AsJson = False,
) -> None:
    """Print the latest events of a run; with -f, also new ones."""
    wanted = None if kind is None else kind if kind.startswith("ai.") else f"ai.{kind}"
    if wanted is not None:
        _doubt(wanted)
    printer = _printer(as_json, event_line, EVENT_CELLS)
    show(run, kind=wanted, level=level, since=since, follow=follow, lines=lines, printer=printer)


def _doubt(kind: str) -> None:
    """Warn that a type is not known here; a newer control plane may know it."""
    from events.catalog import TYPES

    if kind not in TYPES:
        known = ", ".join(sorted(name.removeprefix("ai.") for name in TYPES))
        tell(f"--type: no event that is known here is a {kind.removeprefix('ai.')!r}; known: {known}")


def show(
    run: str,
    *,
    kind: str | None,
    level: str | None,
    since: str | None,
    follow: bool,
    lines: str,
    printer: Callable[[LoggedEvent], None],
) -> None:
    """Print the events of a run that fit, the latest `lines` first, then those to come where wanted."""
    last, begun = how_many(lines), parameters.since(since)
    if level is not None and level not in LEVELS:
        fail(f"--level is {level!r}; it is one of debug, info, warn, error", EXIT_WRONG_USE)
    control_plane = client()
    run_id = find(control_plane, RUN, run)
    filters = {name: value for name, value in (("type", kind), ("level", level)) if value is not None}
    follower = Follower(control_plane, run_id, on_silence=Silence())
    log = Log(follower, lambda event: fits(event, kind, level, begun), filters)
    first = control_plane.run(run_id)  # says at once where there is no such run
    if not follow or is_over(first):
        for event in log.begin(last):
            printer(event)
        return
    with interruptible():
        _follow(follower, log, last, printer)


def _follow(follower: Follower, log: Log, last: int | None, printer: Callable[[LoggedEvent], None]) -> None:
    has_begun = False
    for news in follower.news():
        match news:
            case Happened(event):
                for each in log.hear(event):
                    printer(each)
                continue
            case Changed(told) if told.finished_at is None or told.log_open:
                continue
        current = follower.look(endpoints.run(follower.run_id))
        for event in log.more() if has_begun else log.begin(last):
            printer(event)
        has_begun = True
        if is_over(current):
            return


def fits(event: LoggedEvent, kind: str | None, level: str | None, since: datetime | None = None) -> bool:
    """Return whether an event matches the filters, as the server would, and was received since a moment."""
    if since is not None and datetime.fromisoformat(event.received_at) < since:
        return False
    if level is not None:
        written = event.data.get("level") or "info"
        return event.type == (kind or LOG) and written in LEVELS[level]
    return kind is None or event.type == kind


def how_many(lines: str) -> int | None:
    """Return a number of lines, None for all. Ends the command at anything else."""
    if lines == "all":
        return None
    if not lines.isdecimal():
        raise typer.BadParameter(f"{lines!r} is no number, and not `all`", param_hint="--lines")
    return int(lines)


def event_line(event: LoggedEvent) -> tuple[str, ...]:
    """Return an event in its columns: time, type, attempt, summary."""
    from events.formatting import says

    kind = event.type.removeprefix("ai.")
    try:
        description = says(event)
    except (KeyError, TypeError, ValueError):  # of a type that only a newer server knows
        description = ""
    return (event.time or event.received_at, kind, str(event.attempt or ""), description)


def log_line(event: LoggedEvent) -> tuple[str, ...]:
    """Return a line of the log in its columns: time, level, message."""
    data = event.data
    return (event.time or event.received_at, str(data.get("level") or "info"), str(data.get("message")))


def _printer(
    as_json: bool, line: Callable[[LoggedEvent], tuple[str, ...]], cells: Sequence[int]
) -> Callable[[LoggedEvent], None]:
    """Return what prints events; all but the first and the last part of a line are so wide on a terminal."""
    if as_json:
        return print_json_line
    if not is_terminal():
        return _into_pipe(line)
    return _on_terminal(line, cells)


def _into_pipe(line: Callable[[LoggedEvent], tuple[str, ...]]) -> Callable[[LoggedEvent], None]:
    return lambda event: print("\t".join(for_spreadsheet(clean(cell)) for cell in line(event)), flush=True)


def log_printer(as_json: bool) -> Callable[[LoggedEvent], None]:
    """Return what prints lines of a log."""
    return _printer(as_json, log_line, LOG_CELLS)


def _on_terminal(
    line: Callable[[LoggedEvent], tuple[str, ...]], widths: Sequence[int]
) -> Callable[[LoggedEvent], None]:
    from rich.text import Text

    from podfleet.output import console

    terminal = console()

    def print_one(event: LoggedEvent) -> None:
        time, *cells, description = line(event)
        style = LEVEL_STYLES.get(event.data.get("level") or "", "")
        text = Text(f"{clock_time(time)} ", style="dim")
        columns = zip(cells, widths, strict=True)
        text.append(
            " ".join(f"{clean(cell):<{width}}" for cell, width in columns) + " ", style=style or "cyan"
        )
        text.append(clean(description), style=style)
        terminal.print(text)

    return print_one
