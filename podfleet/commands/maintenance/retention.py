"""`podfleet retention`: what is removed of runs so many days after their end."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_items, print_json, say

app = noun("retention")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the rule.")]

COLUMNS: Final = (
    Column("NAME", field("id"), is_whole=True),
    Column("WHAT", field("what"), is_whole=True),
    Column("DAYS", field("days"), is_whole=True, is_right=True),
    Column("KIND", field("kind")),
    Column("LABEL", field("label")),
    Column("TAKEN", field("taken"), is_whole=True, is_right=True),
    Column("WAITING", field("waiting"), is_right=True, is_spare=True),
    Column("SWEPT", field("swept_at"), ago, is_whole=True),
)


@app.command("list")
def list_rules(ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the rules, and of how many runs each has taken something."""
    print_items(
        client().retention_rules().items, COLUMNS, as_json=as_json, ids_only=ids_only, none="no rules"
    )


@app.command("set")
def set_rule(
    name: Name,
    what: Annotated[str, typer.Argument(metavar="WHAT", help="checkpoints, files or runs.")],
    days: Annotated[int | None, typer.Option(min=1, help="So long after the end of a run.")] = None,
    never: Annotated[bool, typer.Option("--never", help="Take nothing: turns a default off.")] = False,
    kind: Annotated[str | None, typer.Option(help="Only of runs of this kind.")] = None,
    label: Annotated[str | None, typer.Option("--label", "-l", metavar="NAME=VALUE", help="Only so.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set a rule; `podfleet retention preview` says what it will take."""
    if (days is None) != never:
        raise typer.BadParameter("give --days, or --never", param_hint="--days")
    made = client().set_retention_rule(name, what, days, kind=kind, label=label)
    if as_json:
        print_json(made)
        return
    when = "never" if made.days is None else f"{made.days} days after the end"
    say(f"{made.id}: {made.what}, {when}")


@app.command()
def preview(name: Name, as_json: AsJson = False) -> None:
    """Show what the next rounds of a rule would take."""
    found = client().retention_preview(name)
    if as_json:
        print_json(found)
        return
    more = "" if found.is_whole else ", and more that were not looked at"
    say(f"{found.runs:,} runs, {found.bytes:,} bytes of files; {found.needed:,} are still needed{more}")


@app.command()
def remove(name: Name) -> None:
    """Remove a rule; what a default says holds again."""
    client().remove_retention_rule(name)
    say(f"{name} is removed")
