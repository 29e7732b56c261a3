"""`podfleet run -- COMMAND`: queues a job, which runs a command on a pod."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from events.runtime.clock import SystemIds
from podfleet import parameters
from podfleet.client.options import StartOptions
from podfleet.client.synchronous import Client
from podfleet.commands.catalogue.kind_help import check
from podfleet.commands.data import push_folder, version_of
from podfleet.commands.submit import ExitStatus, Watch, conclude
from podfleet.connection import client
from podfleet.nouns import noun
from podfleet.output import AsJson, print_json, say
from podfleet.parameters import (
    After,
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


Gpu = Annotated[
    float | None, typer.Option("--gpu", min=0, metavar="GIB", help="Memory of the GPU that it needs.")
]
Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="DIR", help="Working folder; default: this one.")
]
NoFolder = Annotated[bool, typer.Option("--no-folder", help="Send no files.")]
Include = Annotated[
    list[str] | None, typer.Option("--include", metavar="PATTERN", help="Send what git ignores, too.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="NAME[/VERSION]", help="Data set that it reads; repeatable."),
]
Variables = Annotated[
    list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Variable of its environment.")
]


@app.command()
def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="Program and its arguments, after `--`.")
    ] = None,
    gpu: Gpu = None,
    folder: Folder = None,
    no_folder: NoFolder = False,
    include: Include = None,
    data: Inputs = None,
    env: Variables = None,
    secret: SecretNames = None,
    file: SpecFile = None,
    parameter: Parameters = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    not_before: NotBefore = None,
    after: After = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=2, max=64, help="Pods that run it together, as a group."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key returns the same run.")
    ] = None,
    watch: Watch = False,
    exit_status: ExitStatus = False,
    as_json: AsJson = False,
) -> None:
    """Run a command on a pod, and print the id of its run."""
    spec = parameters.spec(file, parameter)
    control_plane = client()
    completed(spec, control_plane, command, env, data)
    check(KIND, spec)
    if not no_folder:
        send_folder(spec, control_plane, folder, include)
    wanted = parameters.start_options(
        priority=priority,
        label=label,
        requires=with_gpu(requires, gpu),
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        secret=secret,
    )
    if nodes is not None:
        if after or not_before is not None or watch:
            raise typer.BadParameter("--nodes makes a group: --after, --not-before, --watch are of one run")
        start_nodes(control_plane, spec, nodes, wanted, key, as_json=as_json)
        return
    made = control_plane.submit(KIND, spec, **wanted, after=after, idempotency_key=key)
    conclude(control_plane, made, made.id, watch=watch, exit_status=exit_status, as_json=as_json)


def start_nodes(
    control_plane: Client, spec: Any, nodes: int, wanted: StartOptions, key: str | None, *, as_json: bool
) -> None:
    """Run a job on several pods together, and print the name of its group."""
    options: Any = {name: value for name, value in wanted.items() if name != "not_before"}
    plan: Any = {"kind": "matrix", "nodes": nodes}
    name = f"{KIND}-{SystemIds().ulid()[-8:].lower()}"
    group = control_plane.add_group(name, KIND, spec, plan=plan, idempotency_key=key, **options)
    if as_json:
        print_json(group)
    else:
        say(group.id)


def completed(
    spec: dict[str, Any],
    control_plane: Client,
    command: Sequence[str] | None,
    env: Sequence[str] | None,
    data: Sequence[str] | None,
) -> None:
    """Put what options say of a job into its specification. Ends the command at what cannot be."""
    if command:
        spec["command"] = shlex.join(command)
    if env:
        spec["env"] = {**spec.get("env", {}), **variables(env)}
    if data:
        found = [version_of(control_plane, each) for each in data]
        spec["inputs"] = {**spec.get("inputs", {}), **{each.name: each.tree for each in found}}


def send_folder(
    spec: dict[str, Any], control_plane: Client, folder: Path | None, include: Sequence[str] | None
) -> None:
    """Push the working folder of a job, unless its specification names a tree."""
    if "tree" not in spec:
        pushed = push_folder(control_plane, folder or Path(), include or (), (), bytes_max=FOLDER_BYTES_MAX)
        spec["tree"] = pushed.id


def with_gpu(requires: Sequence[str] | None, gpu: float | None) -> list[str]:
    """Return what is asked of the pod, with the memory of its GPU."""
    return [*(requires or ()), *([] if gpu is None else [f"gpu_gib={gpu:g}"])]


def variables(given: Sequence[str]) -> dict[str, Any]:
    """Return the variables that options name. Raises `typer.BadParameter`."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"--env {each}: write NAME=VALUE")
        found[name] = value
    return found
