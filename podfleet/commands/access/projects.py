"""`podfleet projects`: sets, lists and shows projects, with their quotas and what they have used."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import typer

from events.answers.access.projects import Project, ProjectQuotas
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, field, print_fields, print_items, print_json, say

app = noun("projects")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the project.")]


def _share(value: float) -> str:
    return f"{100 * value:.0f}%"


def _hours(value: float) -> str:
    return f"{value:.1f}"


def _of(used: float | int, most: float | int | None) -> str:
    number = f"{used:.2f}".rstrip("0").rstrip(".")
    return number if most is None else f"{number} of {most:g}"


COLUMNS: Final = (
    Column("PROJECT", field("id"), is_whole=True),
    Column("WEIGHT", field("weight"), is_whole=True, is_right=True),
    Column("SHARE", field("share"), _share, is_whole=True, is_right=True),
    Column("GPUS", lambda each: _of(each.gpus, each.quotas.gpus), is_whole=True),
    Column("GPU_HOURS", lambda each: _of(each.gpu_hours, each.quotas.gpu_hours), is_whole=True),
    Column("USD", lambda each: _of(each.usd, each.quotas.usd), is_whole=True),
    Column("WAITING", field("waiting"), is_whole=True, is_right=True),
    Column("CLOSED", lambda each: each.closed and f"over {each.closed}"),
)


@app.command("set")
def set_project(
    name: Name,
    weight: Annotated[
        float | None, typer.Option(min=0.001, max=1000, help="Part of the GPU time against other projects.")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs at once at most.")] = None,
    gpu_hours: Annotated[float | None, typer.Option(min=0, help="GPU hours a month at most.")] = None,
    usd: Annotated[float | None, typer.Option(min=0, help="Dollars a month at most.")] = None,
    no_quota: Annotated[
        bool, typer.Option("--no-quota", help="No quota but those that are given here.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a project, or change what is given of one."""
    known = next((each for each in islice(client().projects(), 1_000) if each.id == name), None)
    old = ProjectQuotas(gpus=None, gpu_hours=None, usd=None)
    if known is not None and not no_quota:
        old = known.quotas
    made = client().set_project(
        name,
        weight=weight if weight is not None else (1.0 if known is None else known.weight),
        gpus=old.gpus if gpus is None else gpus,
        gpu_hours=old.gpu_hours if gpu_hours is None else gpu_hours,
        usd=old.usd if usd is None else usd,
    )
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} has the weight {made.weight:g}, and {_quotas(made)}")


@app.command("list")
def list_projects(ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the projects with what they have used."""
    print_items(list(client().projects()), COLUMNS, as_json=as_json, ids_only=ids_only, none="none yet")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a project: its weight, its quotas, and what it has used."""
    found = client().project(name)
    if as_json:
        print_json(found)
        return
    count = f"{found.waiting:,}{' or more' if found.is_partial else ''}"
    print_fields(
        [
            ("project", found.id),
            ("weight", f"{found.weight:g}"),
            (
                "share",
                f"{_share(found.share)} of what was used lately, {_hours(found.recent_gpu_hours)} hours",
            ),
            ("GPUs", _of(found.gpus, found.quotas.gpus)),
            ("GPU hours", f"{_of(found.gpu_hours, found.quotas.gpu_hours)} this month"),
            ("USD", f"{_of(found.usd, found.quotas.usd)} this month"),
            ("waiting", count),
            ("closed", f"over {found.closed}" if found.closed else None),
            ("set by", found.set_by),
        ]
    )


def _quotas(found: Project) -> str:
    of = found.quotas
    told = [
        *([] if of.gpus is None else [f"{of.gpus} GPUs"]),
        *([] if of.gpu_hours is None else [f"{of.gpu_hours:g} GPU hours a month"]),
        *([] if of.usd is None else [f"{of.usd:g} USD a month"]),
    ]
    return f"quotas of {', '.join(told)}" if told else "no quotas"
