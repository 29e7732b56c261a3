"""`podfleet sweep`: runs a kind with many values of its parameters."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from events.runtime.clock import SystemIds
from podfleet import parameters
from podfleet.commands.groups.values import fixed_and_varied
from podfleet.commands.kind_help import KindHelp
from podfleet.commands.submit import SecretNames
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, print_json, say
from podfleet.parameters import Attempts, Labels, Priority, QueueLimit, Requires, SpecFile, Unreadable

app = noun("sweep", has_verbs=False)


@app.command(cls=KindHelp)
def sweep(
    kind: Annotated[str, typer.Option(help="Kind of run; with --help, its fields.")],
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="KEY=VALUES", help="Field of the spec with values by commas: lr=1,2."
        ),
    ] = None,
    file: SpecFile = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the group.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=10_000, help="Runs at once.")] = 10,
    stop_after: Annotated[
        int | None, typer.Option("--stop-after-failures", min=1, help="Submit nothing more after so many.")
    ] = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    secret: SecretNames = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key and name return the same group.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run every combination of the given values as a group, and print its name."""
    spec = parameters.spec(file, None)
    try:
        varied = fixed_and_varied(spec, parameter or ())
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from error
    if not varied:
        raise typer.BadParameter("no parameter varies: give one several values, such as -p seconds=1,2,3")
    plan: dict[str, Any] = {"kind": "matrix", "values": varied, "parallel": parallel}
    if stop_after is not None:
        plan["stop_after_failures"] = stop_after
    made = client().add_group(
        name or _name(kind),
        kind,
        spec,
        plan=plan,
        secrets=secret,
        paused=paused,
        idempotency_key=key,
        priority=priority,
        labels=parameters.labels(label),
        requires=parameters.requirements(requires),
        max_attempts=attempts,
        queue_limit_s=queue_limit,
    )
    if as_json:
        print_json(made)
    else:
        say(made.id)


def _name(kind: str) -> str:
    """Return a name that no other group has: the kind and letters of chance."""
    return f"{re.sub('[^a-z0-9]+', '-', kind.lower()).strip('-')[:40]}-{SystemIds().ulid()[-8:].lower()}"
