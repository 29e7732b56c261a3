"""`podfleet schedules`: runs at the times of a cron entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final

import typer
from msgspec import UNSET

from events.answers.schedules import Firing, Schedule, ScheduledRun
from podfleet import parameters
from podfleet.client.options import Options
from podfleet.client.synchronous import Client
from podfleet.commands.catalogue.kind_help import KindHelp, check
from podfleet.commands.runs import SHOWN, Limit
from podfleet.commands.submit import ExitStatus, Watch, conclude
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import (
    AsJson,
    Column,
    IdsOnly,
    ago,
    field,
    print_fields,
    print_heading,
    print_items,
    print_json,
    say,
)
from podfleet.parameters import (
    Attempts,
    Labels,
    Parameters,
    Priority,
    Project,
    QueueLimit,
    Requires,
    SecretNames,
    SpecFile,
)

app = noun("schedules")

SLOTS: Final = 5

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its id.")]
Zone = Annotated[
    str, typer.Option("--time-zone", "-z", help="Time zone of the cron text, such as Europe/Berlin.")
]

Cron = Annotated[str, typer.Argument(metavar="CRON", help="Such as '0 3 * * *', or @daily.")]
Missed = Annotated[str, typer.Option(help="Missed slots: skip, one or all.")]
Overlap = Annotated[str, typer.Option(help="While the previous run is active: allow or skip.")]
Paused = Annotated[bool, typer.Option("--paused", help="Leave it paused.")]


@dataclass(frozen=True, slots=True)
class When:
    """When a schedule fires, and what becomes of the times that it cannot."""

    cron: str
    time_zone: str
    missed: str
    overlap: str
    paused: bool


COLUMNS: Final = (
    Column("ID", field("id"), is_whole=True),
    Column("CRON", field("cron"), is_whole=True),
    Column("TIME_ZONE", field("time_zone"), is_whole=True),
    Column("KIND", field("run", "kind"), is_whole=True),
    Column("GROUP", field("group"), is_whole=True, is_spare=True),
    Column("PAUSED", field("paused"), lambda paused: "paused" if paused else "–", is_whole=True),
    Column("NEXT", field("next_at"), ago, is_whole=True),
    Column("LAST", field("last", "outcome"), is_whole=True, is_spare=True),
    Column("LAST_RUN", field("last", "run_id"), is_whole=True, is_spare=True),
)
UPCOMING: Final = (
    Column("LOCAL", field("local"), is_whole=True),
    Column("AT", field("at"), ago, is_whole=True),
)


def _run_fields(run: ScheduledRun) -> Iterator[tuple[str, str | None]]:
    from podfleet.details import as_text

    yield "runs", run.kind
    yield "spec", as_text(run.spec)
    yield "requires", as_text(run.requires)
    yield "priority", str(run.priority)
    yield "attempts", f"{run.max_attempts} at most"
    yield "labels", as_text(run.labels)


def _fired(last: Firing) -> str:
    """Return what a slot fired: a run, or a round of a group."""
    if last.group_id is UNSET:
        return last.run_id or ""
    return last.group_id if last.round is UNSET else f"{last.group_id}, round {last.round}"


@app.command("list")
def list_schedules(limit: Limit = SHOWN, ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List schedules, the newest first."""
    found = list(islice(client().schedules(limit=min(limit, 200)), limit))
    print_items(found, COLUMNS, as_json=as_json, ids_only=ids_only, none="none yet: `podfleet schedules add`")


@app.command()
def show(schedule: Name, as_json: AsJson = False) -> None:
    """Show a schedule and its next times."""
    control_plane = client()
    found = control_plane.schedule(schedule)
    if as_json:
        print_json(found)
        return
    last, error = found.last, found.error
    print_fields(
        [
            ("id", found.id),
            ("cron", found.cron),
            ("means", _meaning(control_plane, found)),
            ("time zone", found.time_zone),
            ("paused", _pause(found)),
            ("missed", found.missed),
            ("overlap", found.overlap),
            ("group", found.group or None),
            *(_run_fields(found.run) if found.run else ()),
            ("last", f"{last.slot} {last.outcome} {_fired(last)}" if last else None),
            ("error", f"{error.code}: {error.message}" if error else None),
        ]
    )
    print_heading("next")
    print_items(control_plane.upcoming(schedule, n=SLOTS).items, UPCOMING)


@app.command(cls=KindHelp)
def add(
    schedule: Annotated[
        str,
        typer.Argument(metavar="SCHEDULE", help="Id of the schedule: lower-case letters, digits and dashes."),
    ],
    cron: Cron,
    kind: Annotated[str | None, typer.Option(help="Kind of run; with --help, its fields.")] = None,
    group: Annotated[str | None, typer.Option(help="Group to begin again, instead of a run.")] = None,
    time_zone: Zone = "UTC",
    parameter: Parameters = None,
    file: SpecFile = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    secret: SecretNames = None,
    project: Project = None,
    missed: Missed = "one",
    overlap: Overlap = "allow",
    paused: Paused = False,
    as_json: AsJson = False,
) -> None:
    """Create a schedule; a cron text that never fires is refused."""
    spec = parameters.spec(file, parameter)
    if (kind is None) == (group is None):
        raise typer.BadParameter("a schedule has a --kind or a --group: give one of them")
    options = parameters.options(
        priority=priority, label=label, requires=requires, attempts=attempts, queue_limit=queue_limit,
        secret=secret,
        project=project,
    )  # fmt: skip
    when = When(cron, time_zone, missed, overlap, paused)
    _put(schedule, when, kind, spec, options, group=group, as_json=as_json)


@app.command("set", cls=KindHelp)
def set_schedule(
    cron: Cron,
    kind: Annotated[str, typer.Option(help="Kind of run; with --help, its fields.")],
    time_zone: Zone = "UTC",
    parameter: Parameters = None,
    file: SpecFile = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    secret: SecretNames = None,
    project: Project = None,
    missed: Missed = "one",
    overlap: Overlap = "allow",
    paused: Paused = False,
    as_json: AsJson = False,
) -> None:
    """Create or replace the one schedule of what a run is about, such as a model and its suites."""
    options = parameters.options(
        priority=priority, label=label, requires=requires, attempts=attempts, queue_limit=queue_limit,
        secret=secret,
        project=project,
    )  # fmt: skip
    when = When(cron, time_zone, missed, overlap, paused)
    _put(None, when, kind, parameters.spec(file, parameter), options, as_json=as_json)


def _put(
    schedule: str | None,
    when: When,
    kind: str | None,
    spec: Mapping[str, Any],
    options: Options,
    *,
    group: str | None = None,
    as_json: bool,
) -> None:
    """Create a schedule, or set the one of what its run is about where it has no id; say when it fires."""
    if kind is not None:
        check(kind, spec)
    made = client().add_schedule(
        schedule,
        when.cron,
        kind,
        spec,
        group=group,
        time_zone=when.time_zone,
        missed=when.missed,
        overlap=when.overlap,
        paused=when.paused,
        **options,
    )
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} fires next {made.next_at or 'when it is resumed'}")


@app.command()
def preview(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE|CRON", help="Id of a schedule, or a cron text in quotes.")
    ],
    time_zone: Zone = "UTC",
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=100, help="Number of times to show.")
    ] = SLOTS,
    as_json: AsJson = False,
) -> None:
    """Show what a cron text means, and when it or a schedule fires next."""
    control_plane = client()
    if " " not in schedule.strip() and not schedule.startswith("@"):
        slots = control_plane.upcoming(schedule, n=count).items
        print_items(slots, UPCOMING, as_json=as_json)
        return
    found = control_plane.preview_cron(schedule, time_zone=time_zone, n=count)
    if as_json:
        print_json(found)
    if found.problem:
        fail(found.problem.message, EXIT_WRONG_USE)
    if not as_json:
        say(found.meaning or "")
        print_items(found.next, UPCOMING)


@app.command()
def pause(
    schedule: Name,
    note: Annotated[str, typer.Option("--note", "-m", help="Reason for the pause.")] = "",
    as_json: AsJson = False,
) -> None:
    """Pause a schedule."""
    _say(client().pause_schedule(schedule, note=note), as_json=as_json)


@app.command()
def resume(schedule: Name, as_json: AsJson = False) -> None:
    """Resume a paused schedule at its next time."""
    _say(client().pause_schedule(schedule, paused=False), as_json=as_json)


@app.command()
def remove(schedule: Name) -> None:
    """Remove a schedule; its runs are kept."""
    client().remove_schedule(schedule)
    say(f"{schedule} is removed")


@app.command()
def run(
    schedule: Name, watch: Watch = False, exit_status: ExitStatus = False, as_json: AsJson = False
) -> None:
    """Submit the run of a schedule now, and print its id."""
    control_plane = client()
    made = control_plane.run_schedule(schedule)
    conclude(control_plane, made, made.id, watch=watch, exit_status=exit_status, as_json=as_json)


def _say(schedule: Schedule, *, as_json: bool) -> None:
    if as_json:
        print_json(schedule)
    elif schedule.paused:
        say(f"{schedule.id} rests")
    else:
        say(f"{schedule.id} fires next {schedule.next_at}")


def _pause(schedule: Schedule) -> str | None:
    if not schedule.paused:
        return None
    by, note = schedule.paused_by, schedule.pause_note
    return " ".join(filter(None, ("yes", f"by {by}" if by else None, f"({note})" if note else None)))


def _meaning(control_plane: Client, schedule: Schedule) -> str | None:
    return control_plane.preview_cron(schedule.cron, time_zone=schedule.time_zone).meaning
