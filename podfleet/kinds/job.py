"""`podfleet run -- COMMAND`: queues a job, which runs a command on a pod."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from events.text.input_source import OF_RUN
from podfleet import parameters
from podfleet.client.options import StartOptions
from podfleet.client.synchronous import Client
from podfleet.commands.catalogue.kind_help import check
from podfleet.commands.data import push_folder
from podfleet.commands.groups.group_name import group_name
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
    Project,
    QueueLimit,
    Requires,
    SecretNames,
    SpecFile,
)

KIND: Final = "job"
app = noun("run", has_verbs=False)


Gpu = Annotated[
    str | None,
    typer.Option("--gpu", metavar="GIB|NAME", help="GPU that it needs: its memory, or a name such as h100."),
]
Gpus = Annotated[
    int | None, typer.Option("--gpus", min=1, metavar="N", help="How many GPUs of one pod it needs.")
]
Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="DIR", help="Working folder; default: this one.")
]
GitAddress = Annotated[
    str | None, typer.Option("--git", metavar="URL@COMMIT", help="A commit, which the pod fetches.")
]
GitSecret = Annotated[
    str | None,
    typer.Option("--git-secret", metavar="NAME", help="The secret that the repository asks for."),
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", min=2, max=64, help="Pods that run it together, as a group.")
]
ReadyS = Annotated[
    float | None,
    typer.Option("--ready-s", min=1, max=24 * 3600, help="How long a node keeps its pod for the others; 60."),
]
NoFolder = Annotated[bool, typer.Option("--no-folder", help="Send no files.")]
Include = Annotated[
    list[str] | None, typer.Option("--include", metavar="PATTERN", help="Send what git ignores, too.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=]SOURCE",
        help="Data set, or `run:ID[/PATTERN]`, that it reads; repeatable.",
    ),
]
Image = Annotated[
    str | None,
    typer.Option("--image", metavar="IMAGE", help="Image of a container to run it in, with a tag or digest."),
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
    gpus: Gpus = None,
    folder: Folder = None,
    git: GitAddress = None,
    git_secret: GitSecret = None,
    no_folder: NoFolder = False,
    include: Include = None,
    data: Inputs = None,
    image: Image = None,
    env: Variables = None,
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
    after: After = None,
    nodes: Nodes = None,
    ready_s: ReadyS = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="A repeated key returns the same run.")
    ] = None,
    watch: Watch = False,
    exit_status: ExitStatus = False,
    as_json: AsJson = False,
) -> None:
    """Run a command on a pod, and print the id of its run."""
    if nodes is not None and (after or not_before is not None or watch):
        raise typer.BadParameter("--nodes makes a group: leave out --after, --not-before and --watch")
    if ready_s is not None and nodes is None:
        raise typer.BadParameter("--ready-s is for --nodes: a run alone waits for no other")
    spec = parameters.spec(file, parameter)
    control_plane = client()
    completed(spec, command, env, data, image)
    if git:
        spec["git"] = commit_named(git, git_secret)
    check(KIND, spec)
    if not no_folder and not spec.get("git"):
        send_folder(spec, control_plane, folder, include)
    wanted = parameters.start_options(
        priority=priority,
        label=label,
        requires=[*(requires or ()), *needed(gpu, gpus)],
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        secret=[*(secret or ()), *([git_secret] if git_secret and git_secret not in (secret or ()) else ())],
        project=project,
    )
    if nodes is not None:
        plan = {"kind": "matrix", "nodes": nodes, **({} if ready_s is None else {"ready_s": ready_s})}
        start_nodes(control_plane, spec, plan, wanted, key, as_json=as_json)
        return
    made = control_plane.submit(KIND, spec, **wanted, after=after, idempotency_key=key)
    conclude(control_plane, made, made.id, watch=watch, exit_status=exit_status, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Program:
    """What the options of another command say of a program that it runs."""

    command: Sequence[str]
    params: Sequence[str]
    env: Sequence[str]
    data: Sequence[str]
    git: dict[str, str] | None
    folder: Path | None
    include: Sequence[str]
    requires: Sequence[str]
    has_folder: bool
    image: str | None = None

    @property
    def secrets(self) -> Sequence[str]:
        """The secrets without which it cannot be fetched."""
        return [self.git["secret"]] if self.git and "secret" in self.git else []

    @property
    def is_given(self) -> bool:
        """Say whether an option is of a program alone."""
        return bool(
            self.command or self.params or self.env or self.data or self.git or self.folder or self.image
        )

    def complete(self, spec: dict[str, Any]) -> None:
        """Put it into a specification. Ends the command at what cannot be."""
        completed(spec, self.command, self.env, self.data, self.image)
        if self.git:
            spec["git"] = self.git

    def send(self, spec: dict[str, Any], control_plane: Client) -> None:
        """Send its folder, where it has one."""
        if self.has_folder and not spec.get("git"):
            send_folder(spec, control_plane, self.folder, self.include)


programs = typer.Typer(add_completion=False)


@programs.command()
def program(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="Program of each run, with {NAME} for a --param."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUES", help="Parameter of the command, as -p params.NAME."),
    ] = None,
    gpu: Gpu = None,
    gpus: Gpus = None,
    folder: Folder = None,
    git: GitAddress = None,
    git_secret: GitSecret = None,
    no_folder: NoFolder = False,
    include: Include = None,
    data: Inputs = None,
    image: Image = None,
    env: Variables = None,
) -> Program:
    """Return what the options say of a program."""
    return Program(
        command=command or (),
        params=param or (),
        env=env or (),
        data=data or (),
        git=commit_named(git, git_secret) if git else None,
        folder=folder,
        include=include or (),
        requires=needed(gpu, gpus),
        has_folder=not no_folder,
        image=image,
    )


def start_nodes(
    control_plane: Client, spec: Any, plan: Any, wanted: StartOptions, key: str | None, *, as_json: bool
) -> None:
    """Run a job on several pods together, and print the name of its group, the same for the same key."""
    options: Any = {name: value for name, value in wanted.items() if name != "not_before"}
    group = control_plane.add_group(
        group_name(KIND, key), KIND, spec, plan=plan, idempotency_key=key, **options
    )
    if as_json:
        print_json(group)
    else:
        say(group.id)


def completed(
    spec: dict[str, Any],
    command: Sequence[str] | None,
    env: Sequence[str] | None,
    data: Sequence[str] | None,
    image: str | None = None,
) -> None:
    """Put what options say of a job into its specification. Ends the command at what cannot be."""
    if command:
        spec["command"] = shlex.join(command)
    if env:
        spec["env"] = {**spec.get("env", {}), **variables(env)}
    if image:
        spec["image"] = image
    if data:
        spec["inputs"] = {**spec.get("inputs", {}), **dict(map(named_input, data))}


def send_folder(
    spec: dict[str, Any], control_plane: Client, folder: Path | None, include: Sequence[str] | None
) -> None:
    """Push the working folder of a job, unless its specification names a tree."""
    if "tree" not in spec:
        spec |= pushed_folder(control_plane, folder or Path(), include or ())


def needed(gpu: str | None, gpus: int | None) -> list[str]:
    """Return what the options say of GPUs, as `--requires` has it: a number is the memory of one in GiB."""
    found = [] if gpus is None else [f"gpus={gpus}"]
    if gpu is not None:
        try:
            found.append(f"gpu_gib={float(gpu):g}")
        except ValueError:
            found.append(f"gpu={gpu}")
    return found


def pushed_folder(control_plane: Client, folder: Path, include: Sequence[str]) -> dict[str, Any]:
    """Send a folder, and return what a specification says of it. Ends the command where that cannot be."""
    from podfleet.client.programs import sent_folder

    def pushed(folder: Path, include: Sequence[str], bytes_max: int) -> str:
        return push_folder(control_plane, folder, include, (), bytes_max=bytes_max).id

    return sent_folder(pushed, folder, include)


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
    if given.startswith(OF_RUN):
        raise typer.BadParameter(f"--input {given}: write NAME={given}, and it is at $PODFLEET_INPUTS/NAME")
    return given.partition("/")[0], given


def variables(given: Sequence[str]) -> dict[str, Any]:
    """Return the variables that options name. Raises `typer.BadParameter`."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"--env {each}: write NAME=VALUE")
        found[name] = value
    return found
