"""`podfleet queue`: how many runs wait in each class, and for how long."""

from __future__ import annotations

from typing import Final

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


app = noun("queue", has_verbs=False)

CLASSES: Final = (
    Column("CLASS", field("class_key"), is_whole=True),
    Column("WAITING", field("depth"), is_whole=True, is_right=True),
    Column("OLDEST_S", field("oldest_wait_s"), _seconds, is_whole=True, is_right=True),
    Column("SINCE", field("oldest_queued_at"), is_spare=True),
    Column("QUEUE", field("collection"), is_spare=True),
)
STATUSES: Final = (
    Column("STATUS", field("status"), with_sign, is_whole=True),
    Column("RUNS", field("count"), is_whole=True, is_right=True),
)


@app.command()
def queue(as_json: AsJson = False) -> None:
    """Show the number of waiting runs per class, and of runs per status."""
    found = client().queue()
    if as_json:
        print_json(found)
        return
    print_items(found.items, CLASSES, none="nothing waits for a pod")
    if is_terminal():
        print_heading("runs")
        counts = [{"status": name, "count": count} for name, count in found.statuses.items() if count]
        print_items(counts, STATUSES, none="none yet")
