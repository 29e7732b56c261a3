"""`podfleet race`: runs a kind on chosen pods, all started at one moment."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from podfleet import parameters
from podfleet.commands.catalogue.kind_help import KindHelp
from podfleet.commands.groups.group_name import group_name
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, print_json, say
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
    Unreadable,
)

app = noun("race", has_verbs=False)

Pods = Annotated[
    str, typer.Option("--pods", metavar="NAME,NAME", help="Pods, a lane for each.", show_default=False)
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="LABEL=VALUE", help="A lane on each live pod with this label; several need all."
    ),
]
OnePer = Annotated[
    str | None, typer.Option("--one-per", metavar="LABEL", help="A lane for each value of a label of pods.")
]
Measure = Annotated[
    str | None,
    typer.Option(
        "--measure", help="Number that decides: NAME, min:NAME or max:NAME; default: the kind's first."
    ),
]
OfLane = Annotated[
    list[str] | None,
    typer.Option("--lane", metavar="POD:KEY=VALUE", help="Field of the spec for one pod; repeatable."),
]


@app.command(cls=KindHelp)
def race(
    kind: Annotated[str, typer.Option(help="Kind of run; with --help, its fields.")],
    pods: Pods = "",
    where: Where = None,
    one_per: OnePer = None,
    parameter: Parameters = None,
    lane: OfLane = None,
    file: SpecFile = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the group.")] = None,
    ready: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Longest wait for lanes.")] = 60.0,
    limit: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Lanes that run longer are canceled.")
    ] = 24 * 3600.0,
    measure: Measure = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    secret: SecretNames = None,
    project: Project = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key and name return the same group.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a kind on each of the pods, started together, and print the name of the race."""
    made = client().add_race(
        kind,
        parameters.spec(file, parameter),
        lanes=wanted_lanes(pods, where, one_per, lane),
        name=name or group_name(kind, key),
        ready_s=ready,
        limit_s=limit,
        measure=measure,
        idempotency_key=key,
        **parameters.options(
            priority=priority,
            label=label,
            requires=requires,
            attempts=attempts,
            queue_limit=queue_limit,
            secret=secret,
            project=project,
        ),
    )
    if as_json:
        print_json(made)
        return
    say(made.id)
    for each in made.lanes:
        if each.problem is not None:
            typer.echo(f"{each.pod}: {each.problem}", err=True)


def wanted_lanes(
    pods: str, where: list[str] | None, one_per: str | None, lane: list[str] | None
) -> list[dict[str, Any]]:
    """Return the lanes that the options ask for, as the API takes them."""
    try:
        lanes = lanes_of(pods, lane or ())
        if where:
            lanes.append({"labels": dict(map(_label, where))})
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from error
    if one_per is not None:
        lanes.append({"one_of": one_per})
    if not lanes:
        raise typer.BadParameter("name machines by --pods, --where or --one-per")
    return lanes


def _label(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise Unreadable(f"--where {pair!r} is not LABEL=VALUE, such as --where gpu=h100")
    return name, value


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
