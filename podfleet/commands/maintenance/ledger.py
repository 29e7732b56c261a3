"""`podfleet ledger`: what the time of pods was spent on, and what it cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from events.answers.fleet import LedgerRow
from podfleet.client import endpoints
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, field, print_items, print_json, say, tell

app = noun("ledger", has_verbs=False)

BY: Final = ("day", "pod", "run", "project")
FORMATS: Final = ("csv", "ndjson")
ALL: Final = "all"
CLASSES: Final = (
    "useful", "overhead", "lost_run", "lost_pod", "lost_outside", "preempted", "canceled", "running", "idle",
)  # fmt: skip


def _seconds(value: float) -> str:
    from events.formatting import seconds

    return seconds(value)


def _dollars(value: float) -> str:
    from events.formatting import dollars

    return dollars(value)


def _time(name: str, unit: str) -> Callable[[LedgerRow], float | None]:
    def take(row: LedgerRow) -> float | None:
        spent = row.all if name == ALL else row.classes[name]
        return getattr(spent, unit) or None

    return take


def _columns(by: str, unit: str) -> list[Column]:
    times = [
        Column(name.upper(), _time(name, unit), _seconds, is_whole=True, is_right=True)
        for name in (ALL, *CLASSES)
    ]
    return [
        Column(by.upper(), lambda row: row.key or "none", is_whole=True),
        *times,
        Column("COST", field("all", "cost_usd"), _dollars, is_whole=True, is_right=True),
        Column("LOST", field("lost", "cost_usd"), _dollars, is_whole=True, is_right=True),
    ]


@app.command()
def ledger(
    by: Annotated[str, typer.Option(help="day, pod, run or project.")] = "day",
    since: Annotated[
        str | None, typer.Option("--from", help="A moment, as 2027-01-31T00:00:00Z; default: 7 days.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="A moment; default: now.")] = None,
    format: Annotated[str | None, typer.Option("--format", help="csv or ndjson: all rows as a file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what pods spent their time on: useful, overhead, lost by whose fault, idle.

    Times are of GPUs, or of pods where no pod has any.
    """
    if by not in BY:
        fail(f"--by is one of {', '.join(BY)}", EXIT_WRONG_USE)
    if format is not None:
        if format not in FORMATS:
            fail(f"--format is one of {', '.join(FORMATS)}", EXIT_WRONG_USE)
        for piece in client().pieces(endpoints.export_ledger(by=by, since=since, until=until, format=format)):
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        return
    found = client().ledger(by=by, since=since, until=until)
    if as_json:
        print_json(found)
        return
    unit = "gpu_seconds" if found.total.all.gpu_seconds else "seconds"
    print_items([*found.items, found.total], _columns(by, unit), none="no pods in that time")
    if found.left_out:
        say(f"{found.left_out} more rows, of less time, are in the total alone")
    if found.is_partial:
        tell("there were more attempts than are read: choose a shorter time")
