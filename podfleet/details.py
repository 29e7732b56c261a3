"""Prints a run, a hypothesis or a schedule in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from events.answers.attempts import Failure
from events.answers.conclusions import conclusion
from events.answers.runs import Note, Part, Reason, Run
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


def show_run(run: Run, reasons: Sequence[Reason] = ()) -> None:
    """Print a run: how it stands, why it waits, and what belongs to it."""
    from events.formatting import dollars
    from events.runtime.clock import SystemClock
    from podfleet.watching import lasted

    usage, settled = run.usage, run.settled
    paused = " (paused)" if run.paused else ""
    summary = settled.message if settled and settled.outcome == "completed" else None
    fields: list[tuple[str, str | None]] = [
        ("id", run.id),
        ("status", (with_sign(run.status) if is_terminal() else run.status) + paused),
        ("title", run.title),
        ("kind", run.kind),
        ("measures", run.measures or None),
        ("class", run.class_key),
        ("priority", str(run.priority)),
        ("attempt", f"{run.attempt} of {run.max_attempts}"),
        ("pod", run.claimed_by),
        ("created", _moment(run.created_at)),
        ("started", _moment(run.started_at)),
        ("finished", _moment(run.finished_at)),
        ("not before", _moment(run.not_before)),
        ("took", lasted(run, SystemClock().now()) if run.started_at else None),
        ("hypothesis", run.hypothesis_id),
        ("retry of", run.parent_run_id),
        ("imported", _imported(run)),
        ("after", ", ".join(run.after) if run.after else None),
        ("canceled", _vain_wait(run)),
        ("before", ", ".join(run.successors) or None),
        ("from stage", run.from_stage),
        ("secrets", ", ".join(run.secrets) if run.secrets else None),
        ("labels", ", ".join(f"{name}={value}" for name, value in run.labels.items()) or None),
        ("requires", as_text(run.requires)),
        ("spec", as_text(run.spec)),
        ("summary", summary or None),
        ("cost", dollars(usage.cost_usd) if usage.calls or usage.cost_usd else None),
    ]
    print_fields(fields)
    if run.error:
        _show_error(run, run.error)
    for reason in reasons:
        say(f"why: {reason.message}")
    if run.status == "AWAITING_HUMAN":
        say(f"\nDo you confirm this verdict? podfleet reviews pass {run.id} (or fail)")
    _show_parts(run)


def _imported(run: Run) -> str | None:
    origin = run.imported_from
    if not origin:
        return None
    there = "".join(f", {name} {as_text(value)}" for name, value in origin.references.items() if value)
    return f"from the fleet {origin.fleet} by {origin.by}, {_moment(origin.at)}{there}"


def _vain_wait(run: Run) -> str | None:
    after = run.cancel_requested.after if run.cancel_requested else None
    if not after:
        return None
    from events.formatting import vain_wait

    return vain_wait(after.run, after.status, after.problem or None)


def _show_error(run: Run, error: Failure) -> None:
    from events.formatting import FAULT_WORDS, NEXT_STEPS

    print_heading("error")
    code, whose = str(error.code), FAULT_WORDS.get(str(error.fault))
    step = NEXT_STEPS.get(code) or f"`podfleet runs logs {run.id}` shows what it said before"
    print_fields(
        [
            ("code", code),
            ("message", error.message),
            ("stage", error.stage or None),
            ("whose", whose),
            ("next", step),
        ]
    )
    lines = str(error.traceback or "").rstrip().splitlines()
    if len(lines) > TRACEBACK_LINES:
        lines = ["…", *lines[-TRACEBACK_LINES:]]
    for line in lines:
        _quote(line)


def _show_parts(run: Run) -> None:
    from events.formatting import size

    notes = [each for each in run.notes if isinstance(each, Note)]
    parts: tuple[tuple[str, Sequence[Any], tuple[Column, ...]], ...] = (
        ("attempts", run.attempts, ATTEMPTS),
        ("stages", run.stages, STAGES),
        ("validations", run.validations, VALIDATIONS),
        ("notes", notes, NOTES),
    )
    for name, found, columns in parts:
        if found:
            print_heading(name)
            print_items(found, columns)
    for part in run.sections:
        _show_part(part, run.rows.get(part.name, []))
    if run.artifacts:
        total = sum(artifact.size for artifact in run.artifacts)
        print_heading("artifacts")
        say(f"{len(run.artifacts)} files, {size(total)}: podfleet artifacts list {run.id}")


def _show_part(part: Part, rows: Sequence[Any]) -> None:
    """Print the rows that only the run's kind has, in the columns that the kind names."""
    if part.problem:
        print_heading(part.title.lower())
        say(part.problem)
    elif rows:
        print_heading(part.title.lower())
        columns = tuple(Column(name.upper(), field(name), _cell) for name in part.columns)
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


def _answers(note: Note) -> str | None:
    """Return what became of a note in one line; None where nothing was said."""
    from events.formatting import note_answer

    return "; ".join(note_answer(each.outcome, each.about, each.says) for each in note.answers) or None


ATTEMPTS: Final = (
    Column("ATTEMPT", field("attempt"), is_right=True, is_whole=True),
    Column("OUTCOME", field("outcome")),
    Column("POD", field("pod")),
    Column("STARTED", field("started_at"), ago, is_whole=True),
    Column("ENDED", field("ended_at"), ago, is_whole=True),
    Column("ERROR", field("error", "code")),
)
STAGES: Final = (
    Column("ATTEMPT", field("attempt"), is_right=True, is_whole=True),
    Column("STAGE", field("name")),
    Column("STATUS", field("status"), with_sign, is_whole=True),
    Column("PROGRESS", field("progress"), _percent, is_right=True, is_whole=True),
    Column("TOOK", field("duration_s"), _seconds, is_right=True, is_whole=True),
    Column("ACTIVITY", field("activity")),
)
VALIDATIONS: Final = (
    Column("BY", field("by")),
    Column(
        "VERDICT",
        lambda item: item.get("verdict") if item.get("by") == "human" else conclusion(item),
        is_prose=True,
    ),
    Column("CODE", field("code")),
    Column("REPLICATION", field("replication"), is_prose=True),
    Column("SCORES", field("scores"), _scores, is_prose=True),
    Column("SAYS", lambda item: item.get("summary") or item.get("notes"), is_prose=True),
)
NOTES: Final = (
    Column("NOTE", field("number"), is_right=True, is_whole=True),
    Column("BY", field("by")),
    Column("AT", field("at"), ago, is_whole=True),
    Column("TEXT", field("text"), is_prose=True),
    Column("ANSWER", _answers, is_prose=True),
)
