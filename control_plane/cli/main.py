"""`podfleet`: the parts, and the first commands of people. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from control_plane.cli import pods, verify
from control_plane.cli.client import client

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(pods.app, name="pods")
app.command()(verify.verify)


@app.command()
def up(
    workers: Annotated[int, typer.Option(help="how many workers to run")] = 1,
    port: Annotated[int, typer.Option(help="port of the control plane")] = 8700,
    data: Annotated[Path, typer.Option(help="folder that keeps everything")] = Path(".podfleet"),
) -> None:
    """Run the whole fleet on this machine until Ctrl-C."""
    from control_plane.embedded.config import environment
    from control_plane.embedded.stack import Options, World
    from control_plane.embedded.stack import up as run_stack
    from events.clock import SystemClock, SystemIds

    world = World(environment=environment(Path.cwd()), clock=SystemClock(), ids=SystemIds(), say=_say)
    raise typer.Exit(run_stack(Options(data=data, port=port, workers=workers), world))


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port to listen on")] = 8700,
) -> None:
    """Run one control plane; MongoDB and storage come from the environment."""
    from control_plane.__main__ import serve as run_server

    raise typer.Exit(run_server(host=host, port=port))


@app.command()
def migrate() -> None:
    """Create the indexes that are missing in the database that MONGODB_URL names; again changes nothing."""
    from control_plane.__main__ import migrate as run_migration

    raise typer.Exit(run_migration())


@app.command()
def submit(
    kind: Annotated[str, typer.Option(help="what to run, such as experiment or probe")],
    parameter: Annotated[
        list[str] | None, typer.Option("-p", help="key=value of the spec, JSON or text")
    ] = None,
    file: Annotated[Path | None, typer.Option("-f", help="a JSON file with the spec")] = None,
    priority: Annotated[int, typer.Option(min=-100, max=100)] = 0,
) -> None:
    """Queue a run and print its id."""
    spec: dict[str, Any] = json.loads(file.read_text()) if file else {}
    for pair in parameter or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not key=value", param_hint="-p")
        spec[name] = _value(value)
    print(client().post("/api/runs", {"kind": kind, "spec": spec, "priority": priority})["id"])


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as version_of

    print(version_of("podfleet"))


def main() -> None:
    """Run the command line."""
    app()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _say(line: str) -> None:
    print(line, flush=True)
