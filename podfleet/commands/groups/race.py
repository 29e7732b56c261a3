"""`podfleet race`: runs a kind on chosen pods, all started at one moment."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from msgspec import UNSET

from podfleet import parameters
from podfleet.commands.catalogue.kind_help import KindHelp
from podfleet.commands.groups.sweep import group_name
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, print_json, say
from podfleet.parameters import (
    Attempts,
    Labels,
    Parameters,
    Priority,
    QueueLimit,
    Requires,
    SecretNames,
    SpecFile,
    Unreadable,
)

app = noun("race", has_verbs=False)

Pods = Annotated[str, typer.Option("--pods", metavar="NAME,NAME", help="The pods, a lane for each.")]
OfLane = Annotated[
    list[str] | None,
    typer.Option("--lane", metavar="POD:KEY=VALUE", help="Field of the spec for one pod; repeatable."),
]


@app.command(cls=KindHelp)
def race(
    kind: Annotated[str, typer.Option(help="Kind of run; with --help, its fields.")],
    pods: Pods,
    parameter: Parameters = None,
    lane: OfLane = None,
    file: SpecFile = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the group.")] = None,
    ready: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Longest wait for lanes.")] = 60.0,
    limit: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Lanes that run longer are canceled.")
    ] = 24 * 3600.0,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    secret: SecretNames = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key and name return the same group.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a kind on each of the pods, started together, and print the name of the group."""
    try:
        lanes = lanes_of(pods, lane or ())
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from error
    made = client().add_group(
        name or group_name(kind),
        kind,
        parameters.spec(file, parameter),
        plan={"kind": "race", "lanes": lanes, "ready_s": ready, "limit_s": limit},
        idempotency_key=key,
        **parameters.options(
            priority=priority,
            label=label,
            requires=requires,
            attempts=attempts,
            queue_limit=queue_limit,
            secret=secret,
        ),
    )
    if as_json:
        print_json(made)
        return
    say(made.id)
    for each in () if made.race is UNSET else made.race.lanes:
        if each.problem is not None:
            typer.echo(f"{each.pod}: {each.problem}", err=True)


def lanes_of(pods: str, pairs: list[str] | tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the lanes of a race, in the order of the pods. Raises `Unreadable`."""
    lanes: dict[str, dict[str, Any]] = {name.strip(): {} for name in pods.split(",") if name.strip()}
    if starts := [name for name in lanes if "/" in name]:
        raise Unreadable(f"{starts[0]!r} is a worker: its pod is {starts[0].partition('/')[0]!r}")
    for pair in pairs:
        pod, colon, field = pair.partition(":")
        name, equals, text = field.partition("=")
        if not colon or not equals or pod not in lanes:
            raise Unreadable(f"--lane {pair!r} is not POD:KEY=VALUE, such as --lane a:seconds=3")
        lanes[pod][name] = parameters.value_of(text)
    return [{"pod": pod, **({"parameters": values} if values else {})} for pod, values in lanes.items()]
