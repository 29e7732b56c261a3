"""`podfleet audit`: lists and exports the audit log."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import typer

from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, ago, field, print_items, print_json_line

app = noun("audit")

By = Annotated[str | None, typer.Option("--by", help="Only requests of this person, program or pod.")]
Key = Annotated[str | None, typer.Option("--key", help="Only requests with the key of this id.")]
Object = Annotated[
    str | None, typer.Option("--object", "-o", help="Only requests on this object, such as run/ID.")
]

COLUMNS: Final = (
    Column("AT", field("at"), ago, is_whole=True),
    Column("BY", field("by")),
    Column("ACTION", field("action"), is_whole=True),
    Column("OBJECT", field("object")),
    Column("STATUS", field("status"), is_whole=True),
    Column("MADE", field("made"), is_spare=True),
    Column("KEY", field("key_id"), is_whole=True, is_spare=True),
    Column("FROM", field("address"), is_spare=True),
)


@app.command("list")
def list_entries(
    by: By = None, key: Key = None, wanted: Object = None, limit: Limit = SHOWN, as_json: AsJson = False
) -> None:
    """List the entries, the latest first."""
    entries = client().audit_log(limit=min(limit, 200), by=by, key=key, object=wanted)
    print_items(list(islice(entries, limit)), COLUMNS, as_json=as_json, none="no entries yet")


@app.command()
def export(by: By = None, key: Key = None, wanted: Object = None) -> None:
    """Write all entries to standard output as NDJSON, the oldest first."""
    for entry in client().export_audit_log(by=by, key=key, object=wanted):
        print_json_line(entry)
