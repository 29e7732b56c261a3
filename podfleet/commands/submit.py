"""`podfleet submit`: queues a run."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from events.answers.kinds.estimates import RunEstimate
from events.answers.kinds.hypotheses import Hypothesis
from events.answers.runs import CheckedRun, Run
from podfleet import parameters, watching
from podfleet.client.synchronous import Client
from podfleet.commands.catalogue.kind_help import KindHelp, check
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import (
    AsJson,
    Column,
    field,
    is_terminal,
    print_fields,
    print_heading,
    print_items,
    print_json,
    say,
    tell,
)
from podfleet.parameters import (
    After,
    Attempts,
    Labels,
    NotBefore,
    Parameters,
    Priority,
    Project,
    QueueLimit,
    Requires,
    SecretNames,
    SpecFile,
)

app = noun("submit", has_verbs=False)


def duration(value: float) -> str:
    """Return a number of seconds in words."""
    from events.formatting import seconds

    return seconds(value)


PARTS: Final = (
    Column("PART", field("name"), is_whole=True),
    Column("ITEMS", field("items"), is_whole=True),
    Column("TIME", field("seconds"), duration, is_whole=True),
    Column("TOKENS", field("tokens"), is_whole=True),
    Column("USD", field("cost_usd"), is_whole=True),
    Column("BASIS", field("basis"), is_prose=True),
)

ExitStatus = Annotated[
    bool, typer.Option("--exit-status", help="With --watch: exit with 1 if the run fails or is canceled.")
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Watch the run until it ends, or waits for a review.")
]


@app.command(cls=KindHelp)
def submit(
    kind: Annotated[str, typer.Option(help="Kind of run; with --help, its fields.")],
    parameter: Parameters = None,
    file: SpecFile = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    not_before: NotBefore = None,
    after: After = None,
    secret: SecretNames = None,
    project: Project = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key returns the same run.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the run without queuing it.")] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Print what the run would take, without queuing it.")
    ] = False,
    watch: Watch = False,
    exit_status: ExitStatus = False,
    as_json: AsJson = False,
) -> None:
    """Queue a run and print its id."""
    spec = parameters.spec(file, parameter)
    wanted = parameters.start_options(
        priority=priority,
        label=label,
        requires=requires,
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        secret=secret,
        project=project,
    )
    check(kind, spec)
    control_plane = client()
    if dry_run:
        show_check(control_plane.check(kind, spec, **wanted), as_json=as_json)
        return
    if estimate:
        show_estimate(control_plane.estimate(kind, spec, **wanted), as_json=as_json)
        return
    run = control_plane.submit(kind, spec, **wanted, after=after, idempotency_key=key)
    conclude(control_plane, run, run.id, watch=watch, exit_status=exit_status, as_json=as_json)


def conclude(
    control_plane: Client,
    made: Run | Hypothesis,
    run_id: str,
    *,
    watch: bool,
    exit_status: bool,
    as_json: bool,
) -> None:
    """Print what was made, by its id unless as JSON; then, where wanted, watch the run that it queued."""
    if as_json and not watch:
        print_json(made)
    elif not as_json:
        say(made.id)
        if run_id and is_terminal():
            tell(f"{control_plane.target.url}/runs/{run_id}")
    if watch:
        watching.watch(control_plane, run_id, as_json=as_json, exit_status=exit_status)


def show_check(checked: CheckedRun, *, as_json: bool) -> None:
    """Print what a submission would queue."""
    if as_json:
        print_json(checked)
        return
    fields: list[tuple[str, str | None]] = [("kind", checked.kind), ("title", checked.title)]
    fields += [("measures", checked.measures or None), ("class", checked.class_key)]
    fields += [(f"spec.{name}", _shown(value)) for name, value in sorted(checked.spec.items())]
    print_fields(fields)
    tell("it could run; nothing was queued")


def show_estimate(found: RunEstimate, *, as_json: bool) -> None:
    """Print what a run would take, and on what that rests."""
    if as_json:
        print_json(found)
        return
    from events.formatting import dollars, seconds

    least = "at least " if found.is_least else ""
    print_fields(
        [
            ("kind", found.kind),
            ("items", None if found.items is None else f"{found.items:,}"),
            ("time", "not known" if found.seconds is None else f"{least}{seconds(found.seconds)}"),
            ("tokens", None if found.tokens is None else f"{least}{found.tokens:,}"),
            ("cost", "not known" if found.cost_usd is None else f"{least}{dollars(found.cost_usd)}"),
            ("budget", None if found.max_cost_usd is None else dollars(found.max_cost_usd)),
            ("basis", found.basis or None),
        ]
    )
    if len(found.parts) > 1:
        print_heading("parts")
        print_items(found.parts, PARTS)
    if found.exceeds_budget:
        tell("the estimate is above max_cost_usd: the run would end before all of it is done")
    tell("an estimate; nothing was queued")


def _shown(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)
