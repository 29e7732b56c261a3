"""`podfleet`: the parts, and the first commands of people. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from control_plane.cli import pods
from control_plane.cli.client import EXIT_FAILED, EXIT_WRONG_USE, client, fail

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(pods.app, name="pods")


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
def verify(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="replay every log and compare")] = False,
) -> None:
    """Hold the database that MONGODB_URL names against its own log; 1 when something differs."""
    import asyncio

    if not rebuild:
        raise typer.BadParameter("say --rebuild: it is the only check so far", param_hint="verify")
    raise typer.Exit(asyncio.run(_verify()))


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as version_of

    print(version_of("podfleet"))


def main() -> None:
    """Run the command line."""
    app()


async def _verify() -> int:
    from control_plane.audit import Auditor
    from control_plane.embedded.config import environment
    from control_plane.store import database
    from control_plane.store.audit import AuditReads

    url = environment(Path.cwd()).get("MONGODB_URL")
    if not url:
        fail("MONGODB_URL is not set; it names the database to verify", EXIT_WRONG_USE)
    client = database.connect(str(url))
    try:
        auditor = Auditor(AuditReads(database.database(client, str(url))))
        found = 0
        async for finding in auditor.rebuild():
            print(f"{finding.run_id}: {finding.message}")
            found += 1
    finally:
        await client.close()
    print(f"{found} differences")
    return EXIT_FAILED if found else 0


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _say(line: str) -> None:
    print(line, flush=True)
