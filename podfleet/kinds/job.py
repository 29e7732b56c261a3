"""`podfleet run -- COMMAND`: queues a job, which runs a command on a pod."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from podfleet import parameters
from podfleet.commands.catalogue.kind_help import check
from podfleet.commands.data import push_folder, version_of
from podfleet.commands.submit import ExitStatus, Watch, conclude
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson
from podfleet.parameters import (
    Attempts,
    Labels,
    NotBefore,
    Parameters,
    Priority,
    Project,
    QueueLimit,
    Requires,
    SecretNames,
    SpecFile,
)

KIND: Final = "job"
FOLDER_BYTES_MAX: Final = 200 << 20
app = noun("run", has_verbs=False)


@app.command()
def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="Program and its arguments, after `--`.")
    ] = None,
    gpu: Annotated[
        float | None, typer.Option("--gpu", min=0, metavar="GIB", help="Memory of the GPU that it needs.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Working folder; default: this one.")
    ] = None,
    no_folder: Annotated[bool, typer.Option("--no-folder", help="Send no files.")] = False,
    include: Annotated[
        list[str] | None, typer.Option("--include", metavar="PATTERN", help="Send what git ignores, too.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME[/VERSION]", help="Data set that it reads; repeatable."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Variable of its environment.")
    ] = None,
    secret: SecretNames = None,
    project: Project = None,
    file: SpecFile = None,
    parameter: Parameters = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    not_before: NotBefore = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key returns the same run.")
    ] = None,
    watch: Watch = False,
    exit_status: ExitStatus = False,
    as_json: AsJson = False,
) -> None:
    """Run a command on a pod, and print the id of its run."""
    spec = parameters.spec(file, parameter)
    if command:
        spec["command"] = shlex.join(command)
    if env:
        spec["env"] = {**spec.get("env", {}), **variables(env)}
    control_plane = client()
    if data:
        found = [version_of(control_plane, each) for each in data]
        spec["inputs"] = {**spec.get("inputs", {}), **{each.name: each.tree for each in found}}
    if not no_folder and "tree" not in spec:
        pushed = push_folder(control_plane, folder or Path(), include or (), (), bytes_max=FOLDER_BYTES_MAX)
        spec["tree"] = pushed.id
    check(KIND, spec)
    wanted = parameters.start_options(
        priority=priority,
        label=label,
        requires=[*(requires or ()), *([] if gpu is None else [f"gpu_gib={gpu:g}"])],
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        secret=secret,
        project=project,
    )
    made = control_plane.submit(KIND, spec, **wanted, idempotency_key=key)
    conclude(control_plane, made, made.id, watch=watch, exit_status=exit_status, as_json=as_json)


def variables(given: list[str]) -> dict[str, Any]:
    """Return the variables that options name. Raises `typer.BadParameter`."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"--env {each}: write NAME=VALUE")
        found[name] = value
    return found
