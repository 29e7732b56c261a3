"""Prints a run, a hypothesis or a schedule in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podfleet.output import (
    Column,
    ago,
    field,
    is_terminal,
    print_fields,
    print_heading,
    print_items,
    say,
    with_sign,
)

TRACEBACK_LINES: Final = 12
ROWS_SHOWN: Final = 20  # of what belongs to a kind alone

Json = Mapping[str, Any]


def show_run(run: Json, reasons: Sequence[Json] = ()) -> None:
    """Print a run: how it stands, why it waits, and what belongs to it."""
    from events.formatting import dollars
    from events.runtime.clock import SystemClock
    from podfleet.watching import lasted

    error = run.get("error")
    usage = run["usage"]
    paused = " (paused)" if run.get("paused") else ""
    settled = run.get("settled") or {}
    fields: list[tuple[str, str | None]] = [
        ("id", run["id"]),
        ("status", (with_sign(run["status"]) if is_terminal() else run["status"]) + paused),
        ("title", run.get("title")),
        ("kind", run["kind"]),
        ("class", run["classKey"]),
        ("priority", str(run["priority"])),
        ("attempt", f"{run['attempt']} of {run['maxAttempts']}"),
        ("pod", run.get("claimedBy")),
        ("created", _moment(run["createdAt"])),
        ("started", _moment(run.get("startedAt"))),
        ("finished", _moment(run.get("finishedAt"))),
        ("not before", _moment(run.get("notBefore"))),
        ("took", lasted(run, SystemClock().now()) if run.get("startedAt") else None),
        ("hypothesis", run.get("hypothesisId")),
        ("retry of", run.get("parentRunId")),
        ("from stage", run.get("fromStage")),
        ("labels", ", ".join(f"{name}={value}" for name, value in run["labels"].items()) or None),
        ("requires", as_text(run.get("requires"))),
        ("spec", as_text(run.get("spec"))),
        ("summary", settled.get("message") if settled.get("outcome") == "completed" else None),
        ("cost", dollars(usage["costUsd"]) if usage["calls"] or usage["costUsd"] else None),
    ]
    print_fields(fields)
    if error:
        _show_error(run, error)
    for reason in reasons:
        say(f"why: {reason['message']}")
    if run["status"] == "AWAITING_HUMAN":
        say(f"\na person's verdict is due: podfleet reviews pass {run['id']} (or fail)")
    _show_parts(run)


def _show_error(run: Json, error: Json) -> None:
    from events.formatting import NEXT_STEPS

    print_heading("error")
    code = str(error.get("code"))
    step = NEXT_STEPS.get(code) or f"`podfleet runs logs {run['id']}` shows what it said before"
    fields = [
        ("code", code),
        ("message", error.get("message")),
        ("stage", error.get("stage")),
        ("next", step),
    ]
    print_fields(fields)
    lines = str(error.get("traceback") or "").rstrip().splitlines()
    if len(lines) > TRACEBACK_LINES:
        lines = ["…", *lines[-TRACEBACK_LINES:]]
    for line in lines:
        _quote(line)


def _show_parts(run: Json) -> None:
    from events.formatting import size

    parts: tuple[tuple[str, tuple[Column, ...]], ...] = (
        ("attempts", ATTEMPTS),
        ("stages", STAGES),
        ("validations", VALIDATIONS),
        ("notes", NOTES),
    )
    for name, columns in parts:
        if run.get(name):
            print_heading(name)
            print_items(run[name], columns)
    for part in run.get("sections", ()):
        _show_part(part, run[part["name"]])
    if run["artifacts"]:
        total = sum(artifact["size"] for artifact in run["artifacts"])
        print_heading("artifacts")
        say(f"{len(run['artifacts'])} files, {size(total)}: podfleet artifacts list {run['id']}")


def _show_part(part: Json, rows: Sequence[Json]) -> None:
    """Print the rows that belong to the run's kind alone, in the columns that the kind names."""
    if rows:
        print_heading(str(part["title"]).lower())
        columns = tuple(Column(name.upper(), field(name), _cell) for name in part["columns"])
        print_items(rows[:ROWS_SHOWN], columns)
        if len(rows) > ROWS_SHOWN:
            say(f"and {len(rows) - ROWS_SHOWN} more: podfleet runs show --json has all")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def show_idea(idea: Any) -> None:
    """Print an idea, which is text or its fields."""
    if not isinstance(idea, Mapping):
        print_fields([("idea", str(idea))])
        return
    from events.formatting import idea_fields

    print_fields([(name, _of_idea(value)) for name, value in idea_fields(idea) if value])


def _of_idea(value: Any) -> str | None:
    if isinstance(value, list) and is_terminal():
        return "\n".join(f"- {each}" for each in value)
    return value if isinstance(value, str) else as_text(value)


def _quote(line: str) -> None:
    if is_terminal():
        from rich.text import Text

        from podfleet.output import clean, console

        console().print(Text(f"  {clean(line)}", style="dim"))
    else:
        say(f"  {line}")


def _moment(moment: str | None) -> str | None:
    if moment is None or not is_terminal():
        return moment
    return f"{moment[:19].replace('T', ' ')} UTC ({ago(moment)})"


def as_text(value: Any) -> str | None:
    """Return a value in one line of JSON; None where there is nothing in it."""
    return json.dumps(value, ensure_ascii=False) if value else None


def _seconds(value: float) -> str:
    from events.formatting import seconds

    return seconds(value)


def _percent(value: float) -> str:
    from podfleet.watching import percent

    return percent(value)


def _scores(value: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {score:.4g}" if isinstance(score, float) else f"{name} {score}"
        for name, score in value.items()
    )


ATTEMPTS: Final = (
    Column("ATTEMPT", field("attempt"), is_right=True, is_whole=True),
    Column("OUTCOME", field("outcome")),
    Column("POD", field("pod")),
    Column("STARTED", field("startedAt"), ago, is_whole=True),
    Column("ENDED", field("endedAt"), ago, is_whole=True),
    Column("ERROR", field("error", "code")),
)
STAGES: Final = (
    Column("ATTEMPT", field("attempt"), is_right=True, is_whole=True),
    Column("STAGE", field("name")),
    Column("STATUS", field("status"), with_sign, is_whole=True),
    Column("PROGRESS", field("progress"), _percent, is_right=True, is_whole=True),
    Column("TOOK", field("durationS"), _seconds, is_right=True, is_whole=True),
    Column("ACTIVITY", field("activity")),
)
VALIDATIONS: Final = (
    Column("BY", field("by")),
    Column("VERDICT", field("verdict")),
    Column("REPLICATION", field("replication")),
    Column("SCORES", field("scores"), _scores),
    Column("SAYS", lambda item: item.get("summary") or item.get("notes")),
)
NOTES: Final = (
    Column("NOTE", field("number"), is_right=True, is_whole=True),
    Column("BY", field("by")),
    Column("AT", field("at"), ago, is_whole=True),
    Column("TEXT", field("text")),
)
