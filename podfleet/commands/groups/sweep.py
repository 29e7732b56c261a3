"""`podfleet sweep`: runs a kind with many values of its parameters."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from events.kinds import OF_PROGRAMS
from podfleet import parameters
from podfleet.commands.catalogue.kind_help import KindHelp, check
from podfleet.commands.groups.group_name import group_name
from podfleet.commands.groups.values import example_of, fixed_and_varied, limits_of, plan_of
from podfleet.connection import client
from podfleet.nouns import NOUNS, noun
from podfleet.output import AsJson, print_json, say
from podfleet.parameters import (
    After,
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


Kind = Annotated[str | None, typer.Option(help="Kind of run; with --help, its fields. Not of a COMMAND.")]
Name = Annotated[str | None, typer.Option("--name", help="Name of the group.")]
Parallel = Annotated[int, typer.Option(min=1, max=10_000, help="Runs at once.")]
StopAfter = Annotated[
    int | None, typer.Option("--stop-after-failures", min=1, help="Submit nothing more after so many.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget-usd", help="What the pods of all runs together may cost (-p budget_usd: of each)."
    ),
]
Paused = Annotated[bool, typer.Option("--paused", help="Create it paused.")]
Key = Annotated[
    str | None, typer.Option("--idempotency-key", help="A repeated key and name return the same group.")
]

PROGRAM: Final = "podfleet.program"
OF_A_STUDY: Final = ("goal", "max_runs", "repeats", "patience", "target", "seed")


class SweepCommand(KindHelp):
    """A command with the options of a program beside its own; what they say is in the context."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.of_program: Any = get_command(import_module(NOUNS["run"][0]).programs)
        self.params = [*self.of_program.params, *self.params]

    def invoke(self, ctx: Any) -> Any:
        """Take the options of a program out of the others."""
        given = {each.name: ctx.params.pop(each.name) for each in self.of_program.params}
        ctx.meta[PROGRAM] = self.of_program.callback(**given)
        return super().invoke(ctx)


@app.command(cls=SweepCommand)
def sweep(
    ctx: typer.Context,
    kind: Kind = None,
    parameter: Values = None,
    file: SpecFile = None,
    name: Name = None,
    parallel: Parallel = 10,
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
    stop_after: StopAfter = None,
    budget_usd: Budget = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    secret: SecretNames = None,
    project: Project = None,
    after: After = None,
    paused: Paused = False,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Run every combination of the given values as a group, or a study of them, and print its name.

    Of a command: `podfleet sweep --param lr=0.1,0.01 -- python train.py --lr {lr}`.
    """
    program = ctx.meta[PROGRAM]
    kind, spec = kind_of(kind, program), parameters.spec(file, None)
    limits: dict[str, Any] = {each: ctx.params[each] for each in (*OF_A_STUDY, "budget_usd")}
    limits |= {"parallel": parallel, "stop_after_failures": stop_after, "constraints": constraint or None}
    try:
        varied = fixed_and_varied(spec, [*(parameter or ()), *(f"params.{each}" for each in program.params)])
        made_plan = plan_of(study, varied, limits_of(limits, prune, plan or ()))
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from error
    control_plane = client()
    if kind == OF_PROGRAMS:
        program.complete(spec)
        check(kind, example_of(spec, varied))
        program.send(spec, control_plane)
    options = parameters.options(
        priority=priority,
        label=label,
        requires=[*(requires or ()), *program.requires],
        attempts=attempts,
        queue_limit=queue_limit,
        secret=[*(secret or ()), *program.secrets],
        project=project,
    )
    made = control_plane.add_group(
        name or group_name(kind, key),
        kind,
        spec,
        plan=made_plan,
        paused=paused,
        after=after,
        idempotency_key=key,
        **options,
    )
    print_json(made) if as_json else say(made.id)


def kind_of(kind: str | None, program: Any) -> str:
    """Return the kind that is run. Ends the command where neither it nor a program is given, or both."""
    if program.is_given and kind not in (None, OF_PROGRAMS):
        raise typer.BadParameter(f"a command, its folder and --param are not of the kind {kind}")
    if kind is None and not program.is_given:
        raise typer.BadParameter("name a --kind, or give a command after `--`")
    return kind or OF_PROGRAMS
