"""`podfleet queue`: how many runs wait in each class, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import (
    AsJson,
    Column,
    field,
    is_terminal,
    print_heading,
    print_items,
    print_json,
    with_sign,
)


def _seconds(value: float) -> str:
    from events.formatting import seconds

    return seconds(value)


def _after(standing: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {status}" for name, status in standing.items())


app = noun("queue", has_verbs=False)

CLASSES: Final = (
    Column("CLASS", field("class_key"), is_whole=True),
    Column("WAITING", field("depth"), is_whole=True, is_right=True),
    Column("OLDEST_S", field("oldest_wait_s"), _seconds, is_whole=True, is_right=True),
    Column("SINCE", field("oldest_queued_at"), is_spare=True),
    Column("QUEUE", field("collection"), is_spare=True),
)
BEHIND: Final = (
    Column("RUN", field("id"), is_whole=True, is_id=True),
    Column("AFTER", field("after"), _after),
    Column("TITLE", field("title"), is_spare=True),
)
STATUSES: Final = (
    Column("STATUS", field("status"), with_sign, is_whole=True),
    Column("RUNS", field("count"), is_whole=True, is_right=True),
)


@app.command()
def queue(
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this project.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the number of waiting runs per class, runs that wait for others, and of runs per status."""
    found = client().queue(project=project)
    if as_json:
        print_json(found)
        return
    print_items(found.items, CLASSES, none="nothing waits for a pod")
    if is_terminal() and found.behind:
        print_heading("wait for other runs")
        print_items(found.behind, BEHIND, none="")
    if is_terminal():
        print_heading("runs")
        counts = [{"status": name, "count": count} for name, count in found.statuses.items() if count]
        print_items(counts, STATUSES, none="none yet")
