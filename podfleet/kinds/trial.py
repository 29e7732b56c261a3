"""`podfleet tasks`: create tasks, which tune an engine, start them, and show their best configuration."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from events.answers.kinds.tasks import Task, TriedConfiguration
from events.formatting import in_one_line
from podfleet import parameters
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import client
from podfleet.id_lookup import TASK, TaskName, find
from podfleet.nouns import noun
from podfleet.output import (
    AsJson,
    Column,
    IdsOnly,
    ago,
    clean_lines,
    field,
    print_fields,
    print_heading,
    print_items,
    print_json,
    say,
)

app = noun("tasks")

File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="Fields of the task as a YAML or JSON file; -p wins over it."),
]
Start = Annotated[bool, typer.Option("--start", help="Start it at once.")]
NewName = Annotated[str | None, typer.Option("--name", help="Name of the new task.")]


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


COLUMNS: Final = (
    Column("ID", field("id"), is_whole=True, is_id=True),
    Column("NAME", field("name")),
    Column("STATUS", field("status"), is_whole=True),
    Column("MODEL", lambda task: str(task.model.get("id", ""))),
    Column("ENGINE", field("base_runtime")),
    Column("BEST", lambda task: _number(task.best_score), is_right=True, is_whole=True),
    Column("SUCCESSFUL", lambda task: f"{task.successful_experiments}/{task.total_experiments}"),
    Column("CREATED", field("created_at"), ago, is_whole=True),
)


def _mark(experiment: TriedConfiguration) -> str:
    return "*" if experiment.is_best else "baseline" if experiment.is_baseline else ""


EXPERIMENTS: Final = (
    Column("EXPERIMENT", field("number"), is_whole=True, is_right=True),
    Column("STATUS", field("status"), is_whole=True),
    Column("BEST", _mark, is_whole=True),
    Column("SCORE", lambda each: _number(each.score), is_right=True, is_whole=True),
    Column("PARAMETERS", field("parameters"), in_one_line, is_prose=True),
    Column("RUN", lambda each: each.runs[-1].id if each.runs else "", is_whole=True, is_id=True),
    Column("REMARK", lambda each: each.failure or each.infeasible or "", is_prose=True),
)


@app.command("list")
def list_tasks(limit: Limit = SHOWN, ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List tasks, the newest first."""
    found = list(islice(client().tasks(limit=min(limit, 200)), limit))
    print_items(found, COLUMNS, as_json=as_json, ids_only=ids_only, none="none yet: `podfleet tasks create`")


@app.command()
def show(task: TaskName, as_json: AsJson = False) -> None:
    """Show a task: how it stands, its best configuration and its experiments."""
    control_plane = client()
    found = control_plane.task(find(control_plane, TASK, task))
    if as_json:
        print_json(found)
        return
    objective = found.optimization.get("objective", {})
    failure = found.failure
    print_fields(
        [
            ("id", found.id),
            ("name", found.name),
            ("status", found.status),
            ("description", found.description or None),
            ("model", str(found.model.get("id", ""))),
            ("engine", found.base_runtime),
            ("project", str(found.placement.get("project", "default"))),
            ("objective", f"{objective.get('direction')} {objective.get('metric')}"),
            ("round", str(found.round) if found.round else None),
            ("experiments", _experiments(found)),
            ("best", None if found.best is None else _best(found.best)),
            ("gain", None if found.gain is None else _gain(found.gain)),
            ("command", found.best_command),
            ("failure", None if failure is None else f"{failure.count} × {failure.code}: {failure.message}"),
            ("group", found.group if found.round else None),
            ("revision", str(found.revision)),
        ]
    )
    if found.round:
        print_heading("experiments")
        _print_experiments(found.id, SHOWN, as_json=False)


@app.command()
def experiments(task: TaskName, limit: Limit = SHOWN, as_json: AsJson = False) -> None:
    """List the experiments of a task's last round; a star marks the best."""
    _print_experiments(find(client(), TASK, task), limit, as_json=as_json)


@app.command()
def create(
    file: File = None,
    parameter: parameters.Parameters = None,
    project: parameters.Project = None,
    start: Start = False,
    as_json: AsJson = False,
) -> None:
    """Create a task from a file, from -p KEY=VALUE, or both; print its id."""
    control_plane = client()
    fields = parameters.spec(file, parameter)
    charged = parameters.usual_project(project)
    if charged is not None and isinstance(placement := fields.setdefault("placement", {}), dict):
        fields["placement"] = {"max_attempts": 2, "project": charged, **placement}
        if project:
            fields["placement"]["project"] = project
    made = control_plane.create_task(fields)
    if start:
        made = control_plane.start_task(made.id, revision=made.revision)
    _say(made, as_json=as_json)


@app.command()
def estimate(file: File = None, parameter: parameters.Parameters = None, as_json: AsJson = False) -> None:
    """Say how many experiments a task would make, and how long; nothing is stored."""
    found = client().estimate_task(parameters.spec(file, parameter))
    if as_json:
        print_json(found)
    else:
        say(found.words)


@app.command()
def edit(
    task: TaskName, file: File = None, parameter: parameters.Parameters = None, as_json: AsJson = False
) -> None:
    """Change a task that is not running: -p KEY=VALUE changes a field, -f replaces it as a whole."""
    import json

    control_plane = client()
    found = control_plane.task(find(control_plane, TASK, task))
    fields = parameters.spec(file, parameter if file is not None else None)
    if file is None:
        fields = json.loads(control_plane.export_task(found.id).text)
        try:
            for pair in parameter or ():
                parameters.put(fields, pair)
        except parameters.Unreadable as error:
            raise typer.BadParameter(str(error)) from error
    _say(control_plane.update_task(found.id, fields, revision=found.revision), as_json=as_json)


@app.command()
def start(task: TaskName, as_json: AsJson = False) -> None:
    """Begin the first round of a task."""
    control_plane = client()
    _say(control_plane.start_task(find(control_plane, TASK, task)), as_json=as_json)


@app.command()
def restart(task: TaskName, as_json: AsJson = False) -> None:
    """Begin a new round of a task whose last one is over."""
    control_plane = client()
    _say(control_plane.restart_task(find(control_plane, TASK, task)), as_json=as_json)


@app.command()
def cancel(task: TaskName, as_json: AsJson = False) -> None:
    """Cancel the round of a running task."""
    control_plane = client()
    found = control_plane.patch_task(find(control_plane, TASK, task), status="CANCELLED")
    _say(found, as_json=as_json)


@app.command()
def clone(task: TaskName, name: NewName = None, as_json: AsJson = False) -> None:
    """Create a task with the same fields under another name; print its id."""
    control_plane = client()
    _say(control_plane.clone_task(find(control_plane, TASK, task), name=name), as_json=as_json)


@app.command()
def delete(task: TaskName) -> None:
    """Remove a task that is not running; its runs stay."""
    control_plane = client()
    task_id = find(control_plane, TASK, task)
    control_plane.delete_task(task_id)
    say(task_id)


@app.command()
def export(
    task: TaskName,
    form: Annotated[Literal["json", "yaml"], typer.Option("--format", help="Form of the text.")] = "yaml",
) -> None:
    """Print a task as text that can be imported."""
    control_plane = client()
    found = control_plane.export_task(find(control_plane, TASK, task), format=form)
    print(clean_lines(found.text), end="", flush=True)


@app.command("import")
def import_task(
    file: Annotated[Path, typer.Argument(help="File of an exported task; - is the standard input.")],
    name: NewName = None,
    as_json: AsJson = False,
) -> None:
    """Create a task from exported text, JSON or YAML; print its id."""
    import sys

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    _say(client().import_task(text, name=name), as_json=as_json)


def _print_experiments(task_id: str, limit: int, *, as_json: bool) -> None:
    found = list(islice(client().task_experiments(task_id, limit=min(limit, 200)), limit))
    print_items(found, EXPERIMENTS, as_json=as_json, none="none yet")


def _experiments(task: Task) -> str:
    done = f"{task.successful_experiments}/{task.total_experiments} successful"
    return f"{done}, {task.planned_experiments} at most"


def _gain(gain: float) -> str:
    return f"{abs(gain):.1%} {'better' if gain >= 0 else 'worse'} than the baseline"


def _best(experiment: TriedConfiguration) -> str:
    values = ", ".join(f"{name}={value}" for name, value in experiment.parameters.items())
    return f"{_number(experiment.score)} by experiment {experiment.number}: {values}"


def _say(task: Task, *, as_json: bool) -> None:
    if as_json:
        print_json(task)
    else:
        say(f"{task.id} {task.status} {task.name}")
