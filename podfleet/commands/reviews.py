"""`podfleet reviews`: lists runs that need a person's verdict, and gives it."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final

import typer

from events.answers.conclusions import conclusion
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import client
from podfleet.id_lookup import RUN, RunName, find
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_items, print_json, say

app = noun("reviews")

Notes = Annotated[str, typer.Option("--notes", "-m", help="Reason for the verdict.")]
Incomplete = Annotated[
    bool,
    typer.Option("--incomplete", help="Accept an incomplete log, and close it."),
]
Revise = Annotated[bool, typer.Option("--revise", help="Replace the present verdict; requires --notes.")]


def _measured(run: Any) -> str | None:
    validation = field("validation")(run)
    return conclusion(validation) if validation else None


COLUMNS: Final = (
    Column("ID", field("id"), is_whole=True, is_id=True),
    Column("TITLE", field("title")),
    Column("MEASURED", _measured, is_whole=True),
    Column("SAYS", field("validation", "summary"), is_prose=True),
    Column("HYPOTHESIS", field("hypothesis_id"), is_whole=True, is_spare=True),
    Column("CREATED", field("created_at"), ago, is_whole=True),
)


@app.command("list")
def list_reviews(limit: Limit = SHOWN, ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the runs that wait for a person, the newest first: do you confirm this verdict?"""
    waiting = client().runs(status="AWAITING_HUMAN", limit=min(limit, 200))
    none = "nothing waits for a verdict"
    print_items(list(islice(waiting, limit)), COLUMNS, as_json=as_json, ids_only=ids_only, none=none)


def _add_verdict(verdict: str, says: str) -> None:
    """Add the command that gives a verdict."""

    @app.command(verdict, help=says)
    def give(
        run: RunName,
        notes: Notes = "",
        incomplete: Incomplete = False,
        revise: Revise = False,
        as_json: AsJson = False,
    ) -> None:
        control_plane = client()
        reviewed = control_plane.review(
            find(control_plane, RUN, run), verdict, notes=notes, incomplete=incomplete, revise=revise
        )
        if as_json:
            print_json(reviewed)
        else:
            say(f"{reviewed.id} {reviewed.status}")


_add_verdict("pass", "Confirm the verdict of a run.")
_add_verdict("fail", "Do not confirm the verdict of a run.")
