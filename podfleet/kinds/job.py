"""`podfleet run -- COMMAND`: queues a job, which runs a command on a pod."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer

from podfleet import parameters
from podfleet.client.synchronous import Client
from podfleet.commands.catalogue.kind_help import check
from podfleet.commands.data import push_folder
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
    git: Annotated[
        str | None, typer.Option("--git", metavar="URL@COMMIT", help="A commit, which the pod fetches.")
    ] = None,
    git_secret: Annotated[
        str | None,
        typer.Option("--git-secret", metavar="NAME", help="The secret that the repository asks for."),
    ] = None,
    no_folder: Annotated[bool, typer.Option("--no-folder", help="Send no files.")] = False,
    include: Annotated[
        list[str] | None, typer.Option("--include", metavar="PATTERN", help="Send what git ignores, too.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="[NAME=]SOURCE",
            help="Data set, or `run:ID[/PATTERN]`, that it reads; repeatable.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Variable of its environment.")
    ] = None,
    secret: SecretNames = None,
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
        spec["inputs"] = {**spec.get("inputs", {}), **dict(map(named_input, data))}
    if git:
        spec["git"] = commit_named(git, git_secret)
    if not no_folder and not spec.get("git") and "tree" not in spec:
        spec |= sent_folder(control_plane, folder or Path(), include or ())
    check(KIND, spec)
    wanted = parameters.start_options(
        priority=priority,
        label=label,
        requires=[*(requires or ()), *([] if gpu is None else [f"gpu_gib={gpu:g}"])],
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        secret=[*(secret or ()), *([git_secret] if git_secret and git_secret not in (secret or ()) else ())],
    )
    made = control_plane.submit(KIND, spec, **wanted, idempotency_key=key)
    conclude(control_plane, made, made.id, watch=watch, exit_status=exit_status, as_json=as_json)


def sent_folder(control_plane: Client, folder: Path, include: Sequence[str]) -> dict[str, Any]:
    """Send a folder, and return what a specification says of it. Ends the command where that cannot be."""
    from podfleet.client.trees.commit import DIFF, commit_of

    pushed = push_folder(control_plane, folder, include, (), bytes_max=FOLDER_BYTES_MAX)
    commit = commit_of(folder)
    if commit is None:
        return {"tree": pushed.id}
    source = commit.told()
    if commit.diff:
        with TemporaryDirectory(prefix="podfleet-") as beside:
            Path(beside, DIFF).write_bytes(commit.diff)
            source["diff"] = push_folder(control_plane, Path(beside), (), ()).id
    return {"tree": pushed.id, "source": source}


def commit_named(given: str, secret: str | None) -> dict[str, str]:
    """Return the commit that an option names. Raises `typer.BadParameter`."""
    url, _, commit = given.rpartition("@")
    if not re.fullmatch("[0-9a-f]{40}", commit):
        raise typer.BadParameter(f"--git {given}: write URL@COMMIT, with the commit's 40 digits")
    return {"url": url, "commit": commit, **({"secret": secret} if secret else {})}


def named_input(given: str) -> tuple[str, str]:
    """Return the folder that an input is, and what lies there. Raises `typer.BadParameter`."""
    name, equals, source = given.partition("=")
    if equals:
        return name, source
    if given.startswith("run:"):
        raise typer.BadParameter(f"--input {given}: write NAME={given}, and it is at $PODFLEET_INPUTS/NAME")
    return given.partition("/")[0], given


def variables(given: list[str]) -> dict[str, Any]:
    """Return the variables that options name. Raises `typer.BadParameter`."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"--env {each}: write NAME=VALUE")
        found[name] = value
    return found
