"""`podfleet sweep`: runs a kind with many values of its parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from events.runtime.clock import SystemIds
from podfleet import parameters
from podfleet.commands.catalogue.kind_help import KindHelp, check
from podfleet.commands.groups.values import example_of, fixed_and_varied, limits_of, plan_of
from podfleet.connection import client
from podfleet.kinds import job
from podfleet.nouns import noun
from podfleet.output import AsJson, print_json, say
from podfleet.parameters import (
    Attempts,
    Labels,
    Priority,
    Project,
    QueueLimit,
    Requires,
    SecretNames,
    SpecFile,
    Unreadable,
)

app = noun("sweep", has_verbs=False)


Sampler = Annotated[
    str | None, typer.Option("--study", help="Propose values: grid, random or tpe; with --goal.")
]
Goal = Annotated[str | None, typer.Option(metavar="min:NAME|max:NAME", help="Headline number of a study.")]
MaxRuns = Annotated[int | None, typer.Option(min=1, help="Runs of a study.")]
Repeats = Annotated[int | None, typer.Option(min=1, help="Runs of each trial of a study.")]
Patience = Annotated[
    int | None, typer.Option(min=1, help="End a study after so many trials that were no better.")
]
Target = Annotated[float | None, typer.Option(help="End a study when its goal is reached.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the proposals of a study.")]
Constraints = Annotated[
    list[str] | None,
    typer.Option("--constraint", metavar="NAME<=X", help="What a headline number of a study must hold."),
]
Prune = Annotated[
    str | None,
    typer.Option(
        metavar="min:METRIC[,keep=50]",
        help="End members of a study early whose metric is worse than in `keep` percent of those before; "
        "also after=STEP, members=COUNT.",
    ),
]
Further = Annotated[
    list[str] | None,
    typer.Option(
        "--plan",
        metavar="KEY=VALUE",
        help="Another field of the plan of a study: baseline_every=5, confirm.top=3, max_seconds=600.",
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter", "-p", metavar="KEY=VALUES", help="Field of the spec: lr=1,2; of a study also log(1,9)."
    ),
]


@app.command(cls=KindHelp)
def sweep(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="Program of each run, with {NAME} for a --param."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Kind of run; with --help, its fields. Of a COMMAND: job.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUES", help="Parameter of the command: -p params.NAME=..."),
    ] = None,
    parameter: Values = None,
    file: SpecFile = None,
    gpu: job.Gpu = None,
    gpus: job.Gpus = None,
    folder: job.Folder = None,
    no_folder: job.NoFolder = False,
    include: job.Include = None,
    data: job.Inputs = None,
    env: job.Variables = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the group.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=10_000, help="Runs at once.")] = 10,
    study: Sampler = None,
    goal: Goal = None,
    max_runs: MaxRuns = None,
    repeats: Repeats = None,
    patience: Patience = None,
    target: Target = None,
    seed: Seed = None,
    constraint: Constraints = None,
    prune: Prune = None,
    plan: Further = None,
    stop_after: Annotated[
        int | None, typer.Option("--stop-after-failures", min=1, help="Submit nothing more after so many.")
    ] = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    secret: SecretNames = None,
    project: Project = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key and name return the same group.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run every combination of the given values as a group, or a study of them, and print its name.

    A command runs as jobs: `podfleet sweep --param lr=0.1,0.01 -- python train.py --lr {lr}`.
    """
    kind = kind_of(kind, command)
    spec = parameters.spec(file, None)
    pairs = [*(parameter or ()), *(f"params.{each}" for each in param or ())]
    limits: dict[str, Any] = {
        "parallel": parallel,
        "stop_after_failures": stop_after,
        "goal": goal,
        "max_runs": max_runs,
        "repeats": repeats,
        "patience": patience,
        "target": target,
        "seed": seed,
        "constraints": constraint or None,
    }
    try:
        limits = limits_of(limits, prune, plan or ())
        varied = fixed_and_varied(spec, pairs)
        made_plan = plan_of(study, varied, limits)
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from error
    control_plane = client()
    if kind == job.KIND:
        job.completed(spec, command, env, data)
        check(kind, example_of(spec, varied))
        if not no_folder:
            job.send_folder(spec, control_plane, folder, include)
    elif folder or include or data or env:
        raise typer.BadParameter(f"--folder, --include, --input and --env are of a command, not of {kind}")
    made = control_plane.add_group(
        name or group_name(kind),
        kind,
        spec,
        plan=made_plan,
        paused=paused,
        idempotency_key=key,
        **parameters.options(
            priority=priority,
            label=label,
            requires=[*(requires or ()), *job.needed(gpu, gpus)],
            attempts=attempts,
            queue_limit=queue_limit,
            secret=secret,
            project=project,
        ),
    )
    if as_json:
        print_json(made)
    else:
        say(made.id)


def kind_of(kind: str | None, command: Sequence[str] | None) -> str:
    """Return the kind that is run: of a command a job. Ends the command where neither is given, or both."""
    if command and kind not in (None, job.KIND):
        raise typer.BadParameter(f"a command is run by the kind {job.KIND}: leave out --kind {kind}")
    if kind is None and not command:
        raise typer.BadParameter("name a --kind, or give a command after `--`")
    return kind or job.KIND


def group_name(kind: str) -> str:
    """Return a name that no other group has: the kind and letters of chance."""
    return f"{re.sub('[^a-z0-9]+', '-', kind.lower()).strip('-')[:40]}-{SystemIds().ulid()[-8:].lower()}"
