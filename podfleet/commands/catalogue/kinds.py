"""`podfleet kinds`: what can be run, and what it takes."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, field, print_fields, print_heading, print_items, print_json

app = noun("kinds")

COLUMNS: Final = (
    Column("KIND", field("name"), is_whole=True),
    Column("PODS", field("live_pods"), is_whole=True, is_right=True),
    Column("OPEN", field("is_open"), lambda is_open: "yes" if is_open else "no"),
    Column("DOES", field("says"), is_prose=True),
)
FIELDS: Final = (
    Column("FIELD", field("name"), is_whole=True),
    Column("TAKES", field("words"), is_prose=True),
    Column("DEFAULT", field("default"), is_prose=True),
    Column("REQUIRED", field("is_required"), lambda is_required: "required" if is_required else "–"),
    Column("MEANS", field("says"), is_prose=True),
)


@app.command("list")
def list_kinds(as_json: AsJson = False) -> None:
    """List the kinds, and how many live pods serve each."""
    print_items(list(client().kinds()), COLUMNS, as_json=as_json, none="none")


@app.command()
def show(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Name of a kind, such as probe.")],
    as_json: AsJson = False,
) -> None:
    """Show what a kind does, and the fields of its specification."""
    from podfleet.commands.catalogue.kind_help import description, fields

    found = description(kind)
    if as_json:
        print_json(found)
        return
    print_fields(
        [
            ("kind", found["name"]),
            ("does", found["says"]),
            ("stages", " ".join(found["stages"]) or None),
            ("a pod needs", " ".join(found["needs"]) or None),
            ("results", " ".join(each["name"] for each in found["resultSets"]) or None),
        ]
    )
    print_heading("fields")
    rows = [
        {
            "name": each.name,
            "words": each.words,
            "default": each.default_words,
            "is_required": each.is_required,
            "says": each.says,
        }
        for each in fields(found)
    ]
    print_items(rows, FIELDS)
