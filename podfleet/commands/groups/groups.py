"""`podfleet groups`: lists, shows and steers groups of runs."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import typer
from msgspec import UNSET

from events.answers.groups import Group, GroupBudget, GroupCounts, GroupMember
from events.formatting import in_one_line
from podfleet.commands.groups.lanes import show_race
from podfleet.commands.groups.trials import show_study
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import client
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

app = noun("groups")

DECISIONS_SHOWN: Final = 10

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Its name.")]


def counts_shown(counts: GroupCounts) -> str:
    """Return how many slots stand where, without what there is none of."""
    found = ((name, getattr(counts, name)) for name in counts.__struct_fields__)
    return ", ".join(f"{count} {name}" for name, count in found if count) or "none"


COLUMNS: Final = (
    Column("GROUP", field("id"), is_whole=True),
    Column("STATUS", field("status"), is_whole=True),
    Column("ROUND", field("round")),
    Column("SLOTS", lambda group: counts_shown(group.counts)),
    Column("CREATED", field("created_at"), ago, is_whole=True),
    Column("BY", field("created_by"), is_spare=True),
)
DECISIONS: Final = (
    Column("AT", field("at"), ago, is_whole=True),
    Column("ACTION", field("action"), is_whole=True),
    Column("TO", field("to"), is_whole=True),
    Column("BY", field("by")),
    Column("REASON", field("reason"), is_spare=True, is_prose=True),
)


def _remark(member: GroupMember) -> str:
    """Return why a member does not count, if it does not."""
    broken = f"infeasible: {member.infeasible}" if member.infeasible else ""
    return f"pruned: {member.pruned}" if member.pruned else broken


MEMBERS: Final = (
    Column("SLOT", field("slot")),
    Column("STATUS", field("run", "status"), is_whole=True),
    Column("RUN", field("run", "id"), is_whole=True, is_id=True),
    Column("VALUES", field("values"), in_one_line, is_prose=True),
    Column("NUMBERS", field("summary"), in_one_line, is_prose=True),
    Column("REMARK", _remark, is_prose=True),
)


@app.command("list")
def list_groups(
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this project.")] = None,
    limit: Limit = SHOWN,
    ids_only: IdsOnly = False,
    as_json: AsJson = False,
) -> None:
    """List groups, the newest first."""
    found = list(islice(client().groups(project=project, limit=min(limit, 200)), limit))
    print_items(found, COLUMNS, as_json=as_json, ids_only=ids_only, none="none yet: `podfleet sweep`")


@app.command()
def show(group: Name, as_json: AsJson = False) -> None:
    """Show a group: its plan, where its slots stand, and what was decided."""
    from podfleet.details import as_text

    found = client().group(group)
    if as_json:
        print_json(found)
        return
    print_fields(
        [
            ("id", found.id),
            ("status", found.status),
            ("round", f"{found.round}, since {found.since}"),
            ("slots", f"{found.next - found.first} of {found.slots} submitted"),
            ("members", counts_shown(found.counts)),
            ("budget", None if found.budget is UNSET else _budget(found.budget)),
            ("pruned", str(found.pruned) if found.pruned else None),
            ("infeasible", str(found.infeasible) if found.infeasible else None),
            ("runs", found.run.get("kind")),
            ("project", found.run.get("project")),
            ("after", ", ".join(found.run.get("after") or ()) or None),
            ("spec", as_text(found.run.get("spec"))),
            ("plan", as_text(found.plan)),
            ("search", None if found.study is UNSET else found.study.state),
            ("revision", str(found.revision)),
        ]
    )
    if found.race is not UNSET:
        show_race(found.race)
    if found.study is not UNSET:
        show_study(found.study)
    if found.journal:
        print_heading("decisions")
        print_items(found.journal[-DECISIONS_SHOWN:], DECISIONS)


@app.command()
def members(group: Name, limit: Limit = SHOWN, as_json: AsJson = False) -> None:
    """List the members of a group with their values, in the order of their slots."""
    found = list(islice(client().group_members(group, limit=min(limit, 200)), limit))
    print_items(found, MEMBERS, as_json=as_json, none="none yet")


@app.command()
def pause(
    group: Name,
    note: Annotated[str, typer.Option("--note", "-m", help="Reason for the pause.")] = "",
    as_json: AsJson = False,
) -> None:
    """Submit no further slot until the group is resumed."""
    _say(client().pause_group(group, note=note), as_json=as_json)


@app.command()
def resume(group: Name, as_json: AsJson = False) -> None:
    """Go on with a paused group."""
    _say(client().resume_group(group), as_json=as_json)


@app.command()
def cancel(group: Name, as_json: AsJson = False) -> None:
    """Submit nothing more, and cancel the members that have not ended."""
    _say(client().cancel_group(group), as_json=as_json)


@app.command()
def again(group: Name, as_json: AsJson = False) -> None:
    """Begin a new round of a closed group; the rounds before it stay."""
    _say(client().group_again(group), as_json=as_json)


def _say(group: Group, *, as_json: bool) -> None:
    if as_json:
        print_json(group)
    else:
        say(f"{group.id} {group.status}")


def _budget(budget: GroupBudget) -> str:
    reserved = budget.reserved_usd
    words = "" if not reserved else f"; {reserved:.4g} USD are reserved for members that have not ended"
    return f"{budget.spent_usd:.4g} of {budget.usd:g} USD spent{words}"
